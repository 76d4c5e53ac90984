"""What a condition may look at beside the message."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from penstock.policy.exchange import Exchange, Headers, Session

__all__ = ["Context", "Direction", "Headers"]

Direction = Literal["client", "upstream"]
"""Who sent the message."""


class Context(Struct):
    """What a condition sees beside the message."""

    session: Session
    direction: Direction
    now: float  # on the monotonic clock
    exchange: Exchange | None = None  # of a request: its own; of a response: that of its request
    wall: float = 0.0  # seconds since the epoch
    changes: Any = None  # what rules set in a session that other instances serve too, as a list
    looks: Any = None  # what the rules have found in the message so far (message_parts.Looks)
