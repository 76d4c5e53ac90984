"""The last messages, for a hub that comes later: few, and of large ones the beginning only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import structs

from penstock.observe.record import Record
from penstock.watch import bounds

_HEAD, _MESSAGES, _BYTES = bounds.RING_HEAD, bounds.RING_MESSAGES, bounds.RING_BYTES


class Ring:
    """Records, oldest out."""

    def __init__(self) -> None:
        self._kept: deque[Record] = deque()
        self._bytes = 0
        self._whole: dict[int, int] = {}  # how long those are that were cut, by their numbers

    def add(self, record: Record) -> None:
        """Takes one more."""
        size = len(record.raw)
        if size > _HEAD:
            self._whole[record.index] = size
            record, size = structs.replace(record, raw=record.raw[:_HEAD]), _HEAD
        kept = self._kept
        kept.append(record)
        self._bytes += size
        while len(kept) > _MESSAGES or self._bytes > _BYTES:
            old = kept.popleft()
            self._bytes -= len(old.raw)
            if self._whole:
                self._whole.pop(old.index, None)

    def __iter__(self) -> Iterator[tuple[Record, int]]:
        """Each with the length of its whole message."""
        for record in self._kept:
            yield record, self._whole.get(record.index, len(record.raw))
