"""How much of a translated session may be under way. Requests are kept whole: they may have to be retried."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import limits
from penstock.wire.mcp.message import Message

TOO_MUCH = "Too much is under way in this session"
_SMALL_BYTES = 4 * 1024


def has_room(message: Message, count: int, others: Iterable[Message]) -> bool:
    """Whether one more request may be under way beside `count` others. Small ones are only counted."""
    if count >= limits.TRANSLATED_REQUESTS:
        return False
    if len(message.raw) <= _SMALL_BYTES:
        return True
    return sum(len(one.raw) for one in others) + len(message.raw) <= limits.PENDING_BYTES
