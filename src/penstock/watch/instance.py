"""One proxy as a hub knows it: the connection to its tap, and what it says beside its messages."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.observe.file_names import fit_name
from penstock.observe.masking import Masker
from penstock.observe.recording import Line
from penstock.observe.rows import Rows
from penstock.observe.settings import MaskSettings
from penstock.watch import bounds, runtime
from penstock.watch.line_socket import LineSocket
from penstock.watch.patterns import Patterns
from penstock.watch.row import HubRow
from penstock.watch.store import Store
from penstock.watch.summaries import Summaries
from penstock.watch.tap_line import TapHeader, TapLine, read_line
from penstock.watch.tap_row import tap_row

log = logging.getLogger("penstock")

Tell = Callable[[str, "Instance", dict[str, Any]], None]


class Instance:
    """The tap at `path`. `tell` hears of what is held, decided, logged and ended."""

    def __init__(self, path: str, store: Store, summaries: Summaries, tell: Tell, patterns: Patterns) -> None:
        self.path = path
        self._store = store
        self._summaries = summaries
        self._tell = tell
        self._patterns = patterns
        self._lines: LineSocket | None = None
        self.header = TapHeader("hello", name=os.path.basename(path))
        self.masker = Masker()
        self._rows = Rows(tap_row)
        self._seqs: dict[int, int] = {}  # the row of a request, by the proxy's own number
        self._last_index = 0
        self.lost = 0
        self.held: dict[int, dict[str, Any]] = {}
        self.points: dict[str, str] = {}
        self.tools: dict[str, Any] = {}
        self.rules: list[dict[str, Any]] = []
        self.process: dict[str, Any] = {}
        self.log: deque[dict[str, Any]] = deque(maxlen=bounds.LOG_LINES)
        self.alerts: deque[dict[str, Any]] = deque(maxlen=bounds.ALERTS)
        self.is_connected = False
        self.is_ready = False
        self.has_ended = False
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0

    @property
    def key(self) -> str:
        """What it is called in addresses of the API: its name and its process."""
        return f"{fit_name(self.header.name)}.{self.header.pid}"

    def connect(self) -> bool:
        """Whether somebody is there."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(1.0)
            sock.connect(self.path)
            if not runtime.is_own(sock):
                raise OSError("the tap is somebody else's")
        except OSError as why:
            sock.close()
            if isinstance(why, ConnectionRefusedError):  # left behind by one that was killed
                try:
                    os.unlink(self.path)
                except OSError:
                    pass
            return False
        self.is_connected = True
        self._lines = LineSocket(sock, self._take, self._gone, bounds.COMMAND_BYTES, 512 << 20)
        return True

    def close(self) -> None:
        """Listens no more."""
        if self._lines is not None:
            self._lines.close()

    # --- what it says ------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        try:
            line = read_line(data)
        except ValueError as why:
            log.debug("A line of a tap cannot be read: %s", why)
            return
        if isinstance(line, TapLine):
            self.take_line(line)
        else:
            self._take_own(line)

    def take_line(self, line: Line) -> None:
        """A message, or a word about some that were lost."""
        if line.lost is not None:
            self.lost += line.lost.count
            self._tell("gap", self, {"count": line.lost.count})
            return
        if line.i <= self._last_index:
            return  # it was here before the connection was lost
        self._last_index = line.i
        row = HubRow(self._store.last + 1, self.header.name, self._rows.row(line), self.masker)
        row.source = self.path
        if row.kind == "request":
            self._seqs[line.i] = row.seq
            if len(self._seqs) > 20_000:
                self._seqs.pop(next(iter(self._seqs)))
        elif row.kind == "response" and line.re:
            self._pair(row, line.re)
        self._store.add(row)
        self._summaries.add(row)
        self._patterns.add(row, self._store.maybe_row(row.request) if row.request else None)

    def _pair(self, row: HubRow, index: int) -> None:
        """Tells a request how it was answered."""
        request = self._store.maybe_row(self._seqs.pop(index, 0))
        if request is None:
            return
        row.request, request.answer = request.seq, row.seq
        request.status, request.ms = row.status, row.ms
        row.method, row.tool = row.method or request.method, row.tool or request.tool
        self._store.changed(request)

    def _take_own(self, facts: dict[str, Any]) -> None:
        what = facts.get("tap")
        if what == "hello":
            self._begin(facts)
        elif what == "held":
            self.held[facts["id"]] = facts
            self._tell("held", self, facts)
        elif what == "decided":
            self.held.pop(facts["id"], None)
            self._tell("decided", self, facts)
        elif what == "points":
            self.points = dict(facts.get("points") or {})
            self._tell("points", self, {})
        elif what == "tools":
            self.tools = facts
        elif what == "rules":
            self.rules = list(facts.get("rules") or [])
        elif what == "process":
            self.process = facts
        elif what == "log":
            self.log.append(facts)
            self._tell("log", self, facts)
        elif what == "alert" and facts.get("alert") not in self.alerts:
            self.alerts.append(facts["alert"])
            self._tell("alert", self, {})
        elif what == "answer":
            waiting = self._waiting.pop(facts.get("n", 0), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(facts)
        elif what == "ready":
            self.is_ready = True
            self._tell("ready", self, {})
        elif what == "bye":
            self.has_ended = True

    def _begin(self, facts: dict[str, Any]) -> None:
        header = msgspec.convert(facts, TapHeader)
        if header.run != self.header.run:
            self._last_index, self._rows, self._seqs = 0, Rows(tap_row), {}
        self.header = header
        settings = MaskSettings(tuple(header.mask_keys), tuple(header.mask_patterns))
        self.masker = Masker(settings)
        self.held.clear()

    def _gone(self) -> None:
        self.is_connected = self.is_ready = False
        self._lines = None
        self.held.clear()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result({"code": 503, "message": "The proxy is gone"})
        self._waiting.clear()
        self._tell("gone", self, {})

    # --- what it is asked --------------------------------------------------------------------------------

    async def ask(self, command: dict[str, Any], seconds: float = 10.0) -> dict[str, Any]:
        """What the proxy answers to a command."""
        if self._lines is None:
            return {"code": 503, "message": "The proxy is not there"}
        self._number += 1
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = waiting
        if not self._lines.send(msgspec.json.encode({**command, "n": self._number}) + b"\n"):
            return {"code": 503, "message": "The proxy does not listen"}
        try:
            return await asyncio.wait_for(waiting, seconds)
        except TimeoutError:
            return {"code": 504, "message": "The proxy does not answer"}

    def facts(self) -> dict[str, object]:
        """The proxy, for programs and pages."""
        header = self.header
        return {
            "key": self.key,
            "name": header.name,
            "pid": header.pid,
            "started": header.started,
            "version": header.version,
            "upstream": self.masker.text(header.upstream),
            "transport": header.transport,
            "config": header.config,
            "rules": header.rules,
            "connected": self.is_connected,
            "ended": self.has_ended,
            "lost": self.lost,
            "held": len(self.held),
            "breakpoints": self.points,
            "process": {name: value for name, value in self.process.items() if name != "tap"},
        }
