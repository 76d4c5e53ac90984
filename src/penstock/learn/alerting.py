"""Alerts while traffic passes: looked for in the thread that writes, after the message has gone on."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from penstock.errors import ConfigError
from penstock.gate.record import CallSeen
from penstock.learn.alerts import Alarm, Alert
from penstock.learn.events import CALL, STOPPED, Event, arguments_of, event_of_record
from penstock.learn.queued import Queued
from penstock.learn.usual import SeenCall
from penstock.observe.record import Record
from penstock.policy.exchange import Session
from penstock.policy.learned.baseline import Baseline
from penstock.wire.mcp.replies import one_line

if TYPE_CHECKING:
    from penstock.learn.learner import Learner

log = logging.getLogger("penstock")

_LARGE = 4_096  # a call of which a few may be too much to wait for more
_AT_ONCE = 16  # calls that are looked at before somebody else may run


class AlertSink:
    """Looks at what came by, in the thread that writes; tells of it on stderr and in a file."""

    def __init__(self, alarm: Alarm, path: str | None, learner: Learner | None = None) -> None:
        self._alarm = alarm
        self._learner = learner
        self._file = None if path is None else _open(path)

    def write_batch(self, records: list[Record | CallSeen]) -> None:
        """Looks at what came by: calls of one session that follow each other all at once."""
        alerts: list[Alert] = []
        for begin in range(0, len(records), _AT_ONCE):
            if begin:
                time.sleep(0)  # whoever waits for the interpreter goes first
            session: Session | None = None
            calls: list[SeenCall] = []
            for record in records[begin : begin + _AT_ONCE]:
                if record.session is not session or isinstance(record, Record):
                    alerts += self._look_at_calls(session, calls)
                    session, calls = None, []
                    if isinstance(record, Record):
                        alerts += self._look(record)
                        continue
                    session = record.session
                raw = record.raw
                calls.append((record.tool, arguments_of(raw), len(raw), record.received))
            alerts += self._look_at_calls(session, calls)
        if alerts:
            self._tell(alerts)

    def _look_at_calls(self, session: Session | None, calls: list[SeenCall]) -> list[Alert]:
        alerts: list[Alert] = []
        while session is not None and calls:
            client = session.client_name or ""
            count = self._alarm.taken(session.id, client, calls)
            if count < len(calls):
                tool, arguments, size, received = calls[count]
                event = Event(session.id, client, received, 0, tool, False, arguments, size)
                alerts += self._alarm.take(event)
            calls = calls[count + 1 :]
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
        if self._file is None:
            return
        try:
            os.write(self._file, b"".join(msgspec.json.encode(alert) + b"\n" for alert in alerts))
        except OSError as why:  # they were said on stderr; what was looked at is not looked at again
            log.warning("Alerts could not be written: %s.", why.strerror or why)

    def write_lost(self, count: int, first: Record | CallSeen, last: Record | CallSeen) -> None:
        """Some were not looked at; the queue says how many."""
        if self._learner is not None:
            self._learner.forget_waiting(last.received)

    def close(self) -> None:
        """Lets go of the files."""
        if self._learner is not None:
            self._learner.close()
            self._learner = None
        if self._file is not None:
            os.close(self._file)
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
        super().__init__("alerts", AlertSink(self._alarm, path, learner))

    async def start(self) -> None:
        """Says which kinds are silent, and begins."""
        for sentence in self._alarm.silent():
            log.warning("Anomalies: %s.", sentence)
        await super().start()

    @property
    def keep_call(self) -> Callable[[CallSeen], object] | None:
        """Straight into the queue. Who learns wants to hear of every answer and refusal too."""
        return None if self._learns else self._keep

    def _keep(self, seen: CallSeen) -> None:
        thread = self._thread
        if thread is not None:
            self._queue.add(seen)
            if not thread.is_awake or len(seen.raw) > _LARGE:
                thread.told()

    def wants(self, record: Record) -> bool:
        """Calls, and their answers; where somebody learns, what else clients were refused."""
        return record.method == CALL or (self._learns and _is_refused(record))


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
