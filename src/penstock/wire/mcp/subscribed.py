"""How many resources a session may be subscribed to, wherever its subscriptions have to be remembered."""

from __future__ import annotations

from collections.abc import Collection

from penstock import limits

TOO_MANY = "Too many subscriptions"


def has_room(known: Collection[str], more: Collection[str]) -> bool:
    """Whether somebody who is subscribed to `known` may be to `more`, too."""
    if len(known) + len(more) > limits.SUBSCRIPTIONS:
        return False
    return sum(map(len, known)) + sum(map(len, more)) <= limits.SUBSCRIBED_BYTES
