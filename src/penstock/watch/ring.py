"""The last messages, for a hub that comes later: few, and of large ones the beginning only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import structs

from penstock.gate.record import Passed, told
from penstock.observe.record import Record
from penstock.watch import bounds

_HEAD = bounds.RING_HEAD


class CutRecord(Record):
    """A record of whose message only the beginning was kept."""

    size: int = 0  # of the whole message


class Ring:
    """Records, oldest out. So many of so many bytes at most are never more than `bounds.RING_BYTES`."""

    def __init__(self) -> None:
        self._kept: deque[Passed | Record] = deque(maxlen=bounds.RING_MESSAGES)
        self.append = self._kept.append  # for one that is small, and so is its request

    def add(self, record: Record) -> None:
        """Takes one more, and keeps nothing large alive: not what was sent for it, nor what it belongs to."""
        if _is_large(record):
            size = len(record.raw)
            facts = structs.asdict(record) | {"raw": record.raw[:_HEAD], "sent": None, "size": size}
            record = CutRecord(**facts)
        if record.request is not None and _is_large(record.request):
            record = structs.replace(record, request=_stub(record.request))
        if record.batch is not None and _is_large(record.batch):
            record = structs.replace(record, batch=_stub(record.batch))
        self.append(record)

    def __iter__(self) -> Iterator[Record]:
        return map(told, self._kept)


def _is_large(record: Record) -> bool:
    return len(record.raw) > _HEAD or (record.sent is not None and len(record.sent) > _HEAD)


def _stub(record: Record) -> Record:
    """What others refer to: its number and its method."""
    return structs.replace(record, raw=b"", sent=None, request=None, batch=None)
