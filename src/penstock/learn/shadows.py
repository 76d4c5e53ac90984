"""Shadow rule sets: each message is judged by them after the live verdict, on paper. Nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from msgspec import Raw

from penstock.learn.events import STOPPED
from penstock.learn.queued import Queued
from penstock.observe import bounds
from penstock.observe.record import Record
from penstock.observe.recording import Line

log = logging.getLogger("penstock")

JudgedLine = tuple[str, str]
"""The word of a verdict, and the rule it is by."""
JudgeLine = Callable[[Line], JudgedLine | Awaitable[JudgedLine] | None]


class ShadowSink:
    """Judges what came by, in the thread that writes."""

    def __init__(self, sets: list[tuple[str, JudgeLine]]) -> None:
        self._sets = sets
        self._index = 0
        self._indexes: dict[int, int] = {}  # of requests, by the record they were told with
        self.counts: Counter[tuple[str, str, str]] = Counter()  # set, what is different, rule
        self.judged = 0
        self.is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None  # of the thread that writes

    def write_batch(self, records: list[Record]) -> None:
        """Judges them, in one loop for all: nothing that is judged on paper waits for long."""
        if not records:
            return
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._judge(records))

    async def _judge(self, records: list[Record]) -> None:
        for record in records:
            line = self._line(record)
            self.judged += 1
            for name, judge in self._sets:
                found = judge(line)
                if found is None:
                    continue
                word, rule = found if isinstance(found, tuple) else await found
                was, is_now = record.verdict in STOPPED, word in STOPPED
                if is_now and not was:
                    self.counts[name, "would have stopped", rule] += 1
                elif was and not is_now:
                    self.counts[name, "would have passed", record.why.rule if record.why else ""] += 1

    def _line(self, record: Record) -> Line:
        time.sleep(0)  # whoever waits for the interpreter goes first
        self._index += 1
        asked = 0
        if record.request is not None:
            asked = self._indexes.pop(id(record.request), 0)
        elif record.kind == "request":
            if len(self._indexes) >= bounds.OPEN_REQUESTS:
                self._indexes.pop(next(iter(self._indexes)))
            self._indexes[id(record)] = self._index
        session = record.session
        return Line(
            i=self._index,
            t=record.received,
            s=session.id,
            sender=record.sender,
            kind=record.kind,
            verdict=record.verdict,
            by=record.why.rule if record.why is not None else "",
            applied=list(record.why.rules) if record.why is not None else [],
            re=asked,
            era=session.era.value if session.era is not None else "",
            client=session.client_name or "",
            n=len(record.raw),
            msg=Raw(record.raw),
        )

    def write_lost(self, count: int, first: Record, last: Record) -> None:
        """Some were not judged; the queue says how many."""

    def close(self) -> None:
        """Says what would have been different."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._loop is not None:
            self._loop.close()
        log.info("Shadow sets have judged %d messages.", self.judged)
        for (name, what, rule), count in sorted(self.counts.items()):
            log.info("Shadow set %s %s %d messages (rule %s).", name, what, count, rule or "-")


class Shadowing(Queued):
    """Hands every message to the shadow sets."""

    def __init__(self, sets: list[tuple[str, JudgeLine]]) -> None:
        self.sink = ShadowSink(sets)
        super().__init__("shadow sets", self.sink)

    def read_differences(self) -> list[tuple[dict[str, str], float]]:
        """What each set would have stopped or passed, by rule."""
        return [
            ({"set": name, "what": what, "rule": rule}, count)
            for (name, what, rule), count in sorted(self.sink.counts.copy().items())
        ]

    def read_judged(self) -> list[tuple[dict[str, str], float]]:
        """How many messages they have judged."""
        return [({}, self.sink.judged)]

    def wants(self, record: Record) -> bool:
        """What clients and upstreams say, where it can be read."""
        return record.sender != "penstock" and record.kind != "other"
