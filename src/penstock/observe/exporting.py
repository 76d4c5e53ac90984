"""The proxy's side of trace export: starts the exporter child, feeds it, and never waits for it.

What does not fit into its socket waits in bounded memory; past that it is dropped and counted. A child that
ends is started again, later each time.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import time

import msgspec

from penstock.errors import ConfigError
from penstock.observe import bounds
from penstock.observe.exporter import PACKAGES, PIP_LINE, Orders
from penstock.observe.record import Record
from penstock.observe.recording import encode_record

log = logging.getLogger("penstock")

_WHOLE_BYTES = 64 * 1024
"""Of larger messages the exporter is told what they are, not what they say."""


class ExporterSink:
    """A sink of the writer thread whose file is a process."""

    def __init__(self, orders: Orders) -> None:
        _refuse_missing_packages()
        self._orders = msgspec.json.encode(orders) + b"\n"
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._buffer = bytearray()
        self._starts = 0
        self._start_at = 0.0
        self.lost = 0  # spans' records that were dropped

    def write_batch(self, records: list[Record]) -> None:
        """Gives the records to the child, as far as it takes them."""
        self._see_to_child()
        for record in records:
            if self._socket is None or len(self._buffer) > bounds.EXPORTER_BYTES:
                self.lost += 1
            elif record.kind in ("request", "response"):
                self._buffer += b"".join(encode_record(_outlined(record)))
        self._flush()

    def write_lost(self, count: int, first: Record, last: Record) -> None:
        """Losses are counted where the queue counts them."""

    def _see_to_child(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            log.warning("The trace exporter has ended (%s).", self._child.returncode)
            self._let_go()
        now = time.monotonic()
        if self._child is None and now >= self._start_at:
            waits = bounds.EXPORTER_BACKOFF_SECONDS
            self._start_at = now + waits[min(self._starts, len(waits) - 1)]
            self._starts += 1
            self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "penstock.observe.exporter", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as why:
            log.warning("The trace exporter could not be started: %s.", why.strerror or why)
            ours.close()
            return
        finally:
            theirs.close()
        self._socket = ours
        self._buffer = bytearray(self._orders)

    def _flush(self) -> None:
        if self._socket is None or not self._buffer:
            return
        try:
            while self._buffer:
                sent = self._socket.send(memoryview(self._buffer)[: 1 << 18])
                del self._buffer[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._let_go()

    def _let_go(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = self._child = None
        self._buffer.clear()

    def close(self) -> None:
        """Gives the child what is left and a moment to send it."""
        child = self._child
        if self._socket is not None:
            self._socket.setblocking(True)
            self._socket.settimeout(0.5)
            self._flush()
            self._socket.close()
        if child is not None:
            try:
                child.wait(bounds.EXPORTER_CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._socket = self._child = None


def _refuse_missing_packages() -> None:
    from importlib.util import find_spec

    for name in PACKAGES:
        try:
            found = find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise ConfigError("--otel needs the OpenTelemetry SDK", f"Install it: {PIP_LINE}")


def _outlined(record: Record) -> Record:
    """The record with its message in short, where it is large."""
    if len(record.raw) <= _WHOLE_BYTES:
        return record
    from penstock.observe.auditor import outcome_of

    token = record.id_token or b"null"
    if record.kind == "response":
        outcome = outcome_of(record)
        rest = b'"error":{"code":0}' if outcome == "error" else b'"result":{}'
        rest = b'"result":{"isError":true}' if outcome == "tool_error" else rest
        raw = b'{"jsonrpc":"2.0","id":%b,%b}' % (token, rest)
    else:
        params = {"name": record.tool} if record.tool else {}
        raw = b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (
            token,
            msgspec.json.encode(record.method or ""),
            msgspec.json.encode(params),
        )
    short = Record(
        record.received,
        record.session,
        record.sender,
        record.kind,
        record.method,
        record.id_token,
        raw,
        record.verdict,
    )
    short.why, short.request, short.micros = record.why, record.request, record.micros
    short.index, short.trace = record.index, record.trace
    return short
