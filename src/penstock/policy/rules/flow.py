"""What a session remembers of the answers that reached its client, as far as rules ask for it.

Kept for each condition that asks, so that a session holds no more than the rules have conditions. Places that
answers name are digests, at most so many, the oldest forgotten first; of their texts the last part is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from penstock import limits
from penstock.policy.learned.features import digest64, places_of_text
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.message_parts import member_place
from penstock.wire.mcp.message import Message


class Copies:
    """What stood in the answers of some tools."""

    __slots__ = ("places", "tail")

    def __init__(self) -> None:
        self.places: dict[int, None] = {}
        self.tail = ""

    def add(self, text: str) -> None:
        """Takes note of a text that the client has got."""
        places = self.places
        for kind, place in places_of_text(text):
            key = digest64(kind, place)
            places.pop(key, None)
            places[key] = None
        while len(places) > limits.FLOW_PLACES:
            del places[next(iter(places))]
        self.tail = f"{self.tail}\n{text}"[-limits.FLOW_TEXT :]

    def have(self, text: str, least: int) -> bool:
        """Whether a place in `text`, or `least` of its characters in a row, came with an answer."""
        if any(digest64(kind, place) in self.places for kind, place in places_of_text(text)):
            return True
        return bool(least) and len(text) >= least and _have_in_common(text, self.tail, least)


def _have_in_common(text: str, other: str, least: int) -> bool:
    """Whether `least` characters in a row stand in both.

    So many in a row hold a whole piece of half the length, wherever pieces of `text` begin: each piece is
    looked for, and what stands round it is compared where it is found.
    """
    size = max(1, least // 2)
    for start in range(0, min(len(text), limits.FLOW_TEXT) - size + 1, size):
        piece = text[start : start + size]
        place = other.find(piece)
        tries = 0
        while place >= 0 and tries < limits.FLOW_TRIES:
            left = 0
            while left < start and left < place and text[start - left - 1] == other[place - left - 1]:
                left += 1
            right = size
            while (
                start + right < len(text)
                and place + right < len(other)
                and text[start + right] == other[place + right]
            ):
                right += 1
            if left + right >= least:
                return True
            tries += 1
            place = other.find(piece, place + 1)
    return False


class Flow:
    """What one session remembers, by the key of the condition that asks."""

    __slots__ = ("answered", "copies")

    def __init__(self) -> None:
        self.answered: set[tuple[str, ...]] = set()
        self.copies: dict[tuple[str, ...], Copies] = {}


def flow_of(context: Context) -> Flow:
    """The memory of the message's session."""
    session = context.session
    if session.flow is None:
        session.flow = Flow()
    found: Flow = session.flow
    return found


def texts_within(message: Message) -> Iterator[str]:
    """Every text in the result or error of a response, names of members left out."""
    for member in ("result", "error"):
        place = member_place(message, member)
        if place is None:
            continue
        token = place.text[place.start : place.end][: limits.FLOW_LOOKED_AT]
        try:
            yield from _texts(msgspec.json.decode(token))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield token.decode("utf-8", "replace")  # cut short, or read by others in another way


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
