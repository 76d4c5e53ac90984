"""Alerts while traffic passes: looked for after the message has gone on, a few calls at a time.

A second thread would cost every call more than looking at it does: the two would hand the interpreter to each
other, and the C library would lock what it needs not lock for one. So there is none, but where sessions are
learned too, which writes large files, and while an alert is written to its file.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from penstock.errors import ConfigError
from penstock.gate.record import CallSeen
from penstock.learn.alerts import Alarm, Alert
from penstock.learn.events import (
    CALL,
    STOPPED,
    UNREADABLE,
    Event,
    called,
    decode_call,
    event_of_record,
    may_have_failed,
)
from penstock.learn.queued import Queued
from penstock.learn.usual import SeenCall
from penstock.observe import bounds
from penstock.observe.record import Record
from penstock.policy.exchange import Session
from penstock.policy.learned.baseline import Baseline
from penstock.wire.mcp.replies import one_line

if TYPE_CHECKING:
    from penstock.learn.learner import Learner

log = logging.getLogger("penstock")

_LARGE = 4_096  # a call of which a few may be too much to wait for more
_UNWRITTEN = 10_000  # times that alerts wait for a disk that stalls
_AT_ONCE = 16  # calls that are looked at before somebody else may run


class AlertFile:
    """Takes lines, and writes them in a thread that ends when all are written: a disk may stall."""

    def __init__(self, path: str) -> None:
        self._file = _open(path)
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._thread: threading.Thread | None = None

    def write(self, lines: bytes) -> None:
        """Has them written."""
        with self._lock:
            if len(self._waiting) >= _UNWRITTEN:
                log.warning("Alerts are not written: the disk does not take them. They stand above.")
                return
            self._waiting.append(lines)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-alerts", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                lines = b"".join(self._waiting)
                self._waiting.clear()
                if not lines:
                    self._thread = None
                    return
            try:
                os.write(self._file, lines)
            except OSError as why:  # they were said on stderr; what was looked at is not looked at again
                log.warning("Alerts could not be written: %s.", why.strerror or why)

    def close(self) -> None:
        """Lets go of the file once all is written, or leaves it where that takes too long."""
        thread = self._thread
        if thread is not None:
            thread.join(bounds.SINK_CLOSE_SECONDS)
            if thread.is_alive():
                log.warning("The last alerts could not be written in time.")
                return
        os.close(self._file)


class AlertSink:
    """Looks at what came by; tells of it on stderr and in a file."""

    def __init__(self, alarm: Alarm, path: str | None, learner: Learner | None = None) -> None:
        self._alarm = alarm
        self._learner = learner
        self._file = None if path is None else AlertFile(path)

    def write_batch(self, records: Sequence[Record | CallSeen]) -> None:
        """Looks at what came by: calls of one session that follow each other all at once."""
        alerts: list[Alert] = []
        for begin in range(0, len(records), _AT_ONCE):
            if begin:
                time.sleep(0)  # whoever waits for the interpreter goes first
            session: Session | None = None
            seen: list[CallSeen] = []
            calls: list[SeenCall] = []
            for record in records[begin : begin + _AT_ONCE]:
                if isinstance(record, Record):
                    alerts += self._look_at_calls(session, seen, calls)
                    session, seen, calls = None, [], []
                    alerts += self._look(record)
                    continue
                if record.session is not session:
                    alerts += self._look_at_calls(session, seen, calls)
                    session, seen, calls = record.session, [], []
                raw = record.raw
                try:
                    arguments = decode_call(raw).params.arguments
                except UNREADABLE:
                    arguments = called(raw)[1]
                seen.append(record)
                calls.append((record.tool, arguments, len(raw), record.received))
            alerts += self._look_at_calls(session, seen, calls)
        if alerts:
            self._tell(alerts)

    def _look_at_calls(
        self, session: Session | None, seen: list[CallSeen], calls: list[SeenCall]
    ) -> list[Alert]:
        """Looks at calls of a session, which stand in both lists."""
        alerts: list[Alert] = []
        while session is not None and calls:
            client = session.client_name or ""
            count = self._alarm.taken(session.id, client, calls)
            if count < len(calls):
                tool, arguments, size, received = calls[count]
                index = seen[count].index
                event = Event(session.id, client, received, index, tool, False, arguments, size)
                alerts += self._alarm.take(event)
            seen, calls = seen[count + 1 :], calls[count + 1 :]
        return alerts

    def _look(self, record: Record) -> list[Alert]:
        event = event_of_record(record)
        if event is None:
            if _is_refused(record):
                self._alarm.taint(record.session.id)
            return []
        alerts = self._alarm.take(event)
        if self._learner is not None:
            self._learner.note(event, self._alarm.maybe_scores(event.session))
            self._learner.look(event.time)
        return alerts

    def _tell(self, alerts: list[Alert]) -> None:
        for alert in alerts:
            about = f"session {alert.session[:8]}, {alert.kind}: {alert.why}"
            log.warning("Unusual: %s.", one_line(about), extra={"alert": structs.asdict(alert)})
        if self._file is not None:
            self._file.write(b"".join(msgspec.json.encode(alert) + b"\n" for alert in alerts))

    def write_lost(self, count: int, first: Record, last: Record) -> None:
        """Some were not looked at; the queue says how many."""
        if self._learner is not None:
            self._learner.forget_waiting(last.received)

    def close(self) -> None:
        """Lets go of the files."""
        if self._learner is not None:
            self._learner.close()
            self._learner = None
        if self._file is not None:
            self._file.close()
            self._file = None


class Alerting(Queued):
    """Tells of unusual sessions. It changes nothing and blocks nothing."""

    def __init__(
        self,
        baseline: Baseline,
        budget: float,
        watch: tuple[str, ...],
        path: str | None = None,
        learns_into: str | None = None,
    ) -> None:
        self._alarm = Alarm(baseline, budget, watch)
        learner = None if learns_into is None else _maybe_learner(learns_into)
        self._learns = learner is not None
        self._sink = AlertSink(self._alarm, path, learner)
        super().__init__("alerts", self._sink)
        self._loop: asyncio.AbstractEventLoop | None = None  # where there is no thread, and until we end
        self._waiting: list[Record | CallSeen] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False

    async def start(self) -> None:
        """Says which kinds are silent, and begins."""
        for sentence in self._alarm.silent():
            log.warning("Anomalies: %s.", sentence)
        if self._learns:
            await super().start()
        else:
            self._loop = asyncio.get_running_loop()

    @property
    def keep_call(self) -> Callable[[CallSeen], object] | None:
        """Straight to what waits. Who learns wants to hear of every answer and refusal too."""
        return None if self._learns else self._keep

    def saw(self, record: Record) -> None:
        """A message came by."""
        if self._learns:
            super().saw(record)
        elif record.method == CALL:
            self._keep_of(record)

    def _keep_of(self, record: Record) -> None:
        """As much of it as the look needs: of a call that passed what is kept without records too, and
        nothing of a small answer that has plainly not failed."""
        if record.verdict not in STOPPED:
            tool, raw = record.tool, record.raw
            if record.kind == "response":
                if len(raw) <= _LARGE and not may_have_failed(raw):
                    return
            elif tool and record.kind == "request" and record.sender == "client":
                self._keep(CallSeen(record.received, record.session, tool, raw, record.index))
                return
        self._keep(record)

    def _keep(self, seen: Record | CallSeen) -> None:
        waiting = self._waiting
        waiting.append(seen)
        if self._timer is None or len(waiting) >= _AT_ONCE or len(seen.raw) > _LARGE:
            self._arrange(len(waiting) >= _AT_ONCE or len(seen.raw) > _LARGE)

    def _arrange(self, is_enough: bool) -> None:
        """Sees to it that what waits is looked at: soon, if it is enough, and else within half a second."""
        loop = self._loop
        if loop is None:
            self._waiting.clear()
            return
        if self._timer is None:
            self._timer = loop.call_later(bounds.LEARN_SECONDS, self._look_in_time)
        if is_enough and not self._is_due:
            self._is_due = True
            loop.call_soon(self._look)

    def _look_in_time(self) -> None:
        self._timer = None
        if not self._is_due:
            self._look()

    def _look(self) -> None:
        """Looks at a few, and then lets others go first. A part of all that waits: where more came in a turn
        than the few, it would become more and more."""
        count = max(_AT_ONCE, len(self._waiting) // 4)
        some = self._waiting[:count]
        del self._waiting[:count]
        self._is_due = False
        try:
            self._sink.write_batch(some)
        except Exception:  # a fault in what watches must never end the watching
            log.exception("The alerts have failed.")
        if len(self._waiting) >= _AT_ONCE or (self._waiting and self._timer is None):
            self._arrange(is_enough=True)

    def close(self) -> None:
        """Looks at what waits, and ends."""
        super().close()
        if self._loop is None:
            return
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, []
        self._sink.write_batch(waiting)
        self._sink.close()

    def wants(self, record: Record) -> bool:
        """Who learns: calls, and their answers, and what else clients were refused."""
        return record.method == CALL or _is_refused(record)


def _is_refused(record: Record) -> bool:
    return record.verdict in STOPPED and record.sender == "client"


def _maybe_learner(path: str) -> Learner | None:
    """Who learns into the file; None where another process does: clients may well start several of us."""
    from penstock.learn.learner import Learner

    try:
        return Learner(path)
    except ConfigError as why:
        log.warning("Nothing is learned here: %s (%s).", why.headline, why.detail)
        return None


def _open(path: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open(path, flags, 0o600)
    except OSError as why:
        raise ConfigError(f"Cannot write the alerts: {path}", str(why.strerror or why)) from None
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
        os.close(file)
        raise ConfigError(f"Cannot write the alerts: {path}", "It must be a file that nobody else can read")
    return file
