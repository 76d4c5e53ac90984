"""The tap: the one observer behind the gate. It numbers records and hands each to whoever watches.

It runs in the loop, after the message was written, and does nothing there but append and count. A fault of
a watcher is told once and never reaches traffic.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable

from penstock.observe.record import Record, is_answered

log = logging.getLogger("penstock")

Watcher = Callable[[Record], None]

_OWN_REQUESTS = 100  # of ours under way: one list for each session that just began


class Tap:
    """Gives every record to every watcher."""

    def __init__(self, last_index: int = 0) -> None:
        """`last_index` is the last number that a recording already has."""
        self.number = itertools.count(last_index + 1).__next__
        self._time = 0.0
        self._own: dict[bytes, Record] = {}  # our own requests, by their ids
        self._watchers: list[Watcher] = []
        self._is_broken: set[int] = set()

    @property
    def is_shared(self) -> bool:
        """Whether more than one of them watches."""
        return len(self._watchers) > 1

    def add(self, watcher: Watcher) -> None:
        """Gives this one every record from now on."""
        self._watchers.append(watcher)

    def saw(self, record: Record) -> None:
        """A message came by. What we answered to it is a message of its own."""
        if record.request is None and (record.sender == "penstock" or self._own):
            self._pair(record)
        decided = record.received
        self._tell(record)
        if record.sent is not None and is_answered(record):
            decided += record.micros / 1e6
            reply = Record(
                decided,
                record.session,
                "penstock",
                "response",
                record.method,
                record.id_token,
                record.sent,
                "pass",
            )
            reply.request = record
            self._tell(reply)

    def _pair(self, record: Record) -> None:
        """Finds the request of an answer to what we asked ourselves: those go by no exchange."""
        if record.id_token is None:
            return
        if record.sender == "penstock" and record.kind == "request":
            if len(self._own) >= _OWN_REQUESTS:
                self._own.pop(next(iter(self._own)))
            self._own[record.id_token] = record
        elif record.sender == "upstream" and record.kind == "response" and self._own:
            record.request = self._own.pop(record.id_token, None)
            if record.request is not None:
                record.method = record.request.method

    def _tell(self, record: Record) -> None:
        record.index = self.number()
        if record.received < self._time:
            record.received = self._time  # the wall clock was set back; the recording's never is
        self._time = record.received
        watcher = None
        try:
            for watcher in self._watchers:
                watcher(record)
        except Exception:
            self._go_on_after(watcher, record)

    def _go_on_after(self, broken: Watcher | None, record: Record) -> None:
        """One of them failed: it is told once, and those behind it get the record all the same."""
        assert broken is not None
        self._complain(broken)
        for watcher in self._watchers[self._watchers.index(broken) + 1 :]:
            try:
                watcher(record)
            except Exception:
                self._complain(watcher)

    def _complain(self, watcher: Watcher) -> None:
        if id(watcher) not in self._is_broken:
            self._is_broken.add(id(watcher))
            log.exception("What watches the messages has failed; they go on.")
