"""An observer whose work is done in a thread of its own, after the message has gone on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.gate.record import Observer
from penstock.observe import bounds
from penstock.observe.record import Record
from penstock.observe.writing import Queue, Sink, WriterThread


class Queued(Observer):
    """Hands what it wants to a sink. What that falls behind with is dropped and counted."""

    def __init__(self, name: str, sink: Sink[Record]) -> None:
        self._queue = Queue(name, sink)
        self._thread: WriterThread | None = None

    def wants(self, record: Record) -> bool:
        """Whether the sink is to look at it."""
        raise NotImplementedError

    async def start(self) -> None:
        """Begins."""
        self._thread = WriterThread([self._queue], bounds.LEARN_SECONDS)

    def saw(self, record: Record) -> None:
        """A message came by."""
        if self._thread is not None and self.wants(record):
            self._queue.add(record)
            self._thread.told()

    def rules_changed(self, rules: str) -> None:
        """What was learned, and what only watches, does not depend on the rules in force."""

    def count_custom(self, read: Callable[[], Iterable[tuple[str, float]]]) -> None:
        """Nor on what they count."""

    def close(self) -> None:
        """Looks at what waits, and ends."""
        if self._thread is not None:
            self._thread.close(bounds.SINK_CLOSE_SECONDS)
            self._thread = None
