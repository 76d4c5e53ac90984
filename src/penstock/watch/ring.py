"""The last messages, for a hub that comes later: few, and of large ones the beginning only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from msgspec import structs

from penstock.gate.record import Passed, told
from penstock.observe.record import Record
from penstock.watch import bounds

_HEAD = bounds.RING_HEAD
_NAME = bounds.NAME_LENGTH
_TAIL = 64


class CutRecord(Record):
    """A record of whose message only the beginning was kept."""

    size: int = 0  # of the whole message
    tail: bytes = b""  # its end, where a result says that it failed


class Ring:
    """Records, oldest out. So many of so many bytes at most are never more than `bounds.RING_BYTES`."""

    def __init__(self) -> None:
        self._kept: deque[Passed | Record] = deque(maxlen=bounds.RING_MESSAGES)
        self.append = self._kept.append  # for one that is small, and so is its request

    def add(self, record: Record) -> None:
        """Takes one more, and keeps nothing large alive: not its names, nor what it answers or is part of."""
        if _is_large(record):
            raw = record.raw
            cut = {"raw": raw[:_HEAD], "sent": None, "size": len(raw), "tail": raw[-_TAIL:]}
            record = CutRecord(**structs.asdict(record) | _short_names(record) | cut)
        if record.request is not None and _is_large(record.request):
            record = structs.replace(record, request=_stub(record.request), **_short_names(record))
        if record.batch is not None and _is_large(record.batch):
            record = structs.replace(record, batch=_stub(record.batch))
        self.append(record)

    def __iter__(self) -> Iterator[Record]:
        return map(told, self._kept)


def _is_large(record: Record) -> bool:
    return len(record.raw) > _HEAD or (record.sent is not None and len(record.sent) > _HEAD)


def _stub(record: Record) -> Record:
    """What others refer to: its number and its method."""
    return structs.replace(record, raw=b"", sent=None, request=None, batch=None, **_short_names(record))


def _short_names(record: Record) -> dict[str, Any]:
    """What a message is called, which may be as long as the message. An answer has its request's."""
    token, method, tool = record.id_token, record.method, record.tool
    return {
        "id_token": token and token[:_NAME],
        "method": method and method[:_NAME],
        "tool": tool and tool[:_NAME],
    }
