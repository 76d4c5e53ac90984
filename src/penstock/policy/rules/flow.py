"""What a session remembers of the answers that reached its client, as far as rules ask for it.

Kept for each condition that asks, so that a session holds no more than the rules have conditions. Places that
answers name are digests, at most so many, the oldest forgotten first; of their texts the last part is kept.
What the client named before any of these answers did is not copied from them; that is found when its call is
answered, so calls are not looked at on their way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from penstock import limits
from penstock.policy.learned.features import digest64, places_of_text
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.message_parts import member_place
from penstock.wire.mcp.message import Message

_WHOLE = frozenset({"address", "account", "path"})
"""Places that say all of where something goes. A host does not: another page of it may be somebody else's."""


class Copies:
    """What stood in the answers of some tools, and what the client had named before it stood in one."""

    __slots__ = ("has_forgotten", "named", "places", "tail")

    def __init__(self) -> None:
        self.places: dict[int, None] = {}
        self.named: set[int] = set()
        self.has_forgotten = False
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
            self.has_forgotten = True
        self.tail = f"{self.tail}\n{text}"[-limits.FLOW_TEXT :]

    def name(self, text: str) -> None:
        """Takes note of a text that the client has sent: what no answer has had yet is its own.

        Where that cannot be told any more, nothing becomes its own: who can push a place out of our memory
        could else have it named after that.
        """
        if self.has_forgotten:
            return
        for kind, place in places_of_text(text):
            key = digest64(kind, place)
            if kind not in _WHOLE or key in self.places or len(self.named) >= limits.FLOW_PLACES:
                continue
            if place.lower() not in self.tail.lower():  # nor as a part of something else
                self.named.add(key)

    def have(self, text: str, least: int, even_if_named: bool = False) -> bool:
        """Whether a place in `text`, or `least` of its characters in a row, came with an answer."""
        own: dict[str, None] = {}
        for kind, place in places_of_text(text):
            key = digest64(kind, place)
            if key in self.named and not even_if_named:
                own[place] = None
            elif key in self.places:
                return True
        if not least:
            return False
        for place in list(own)[: limits.FLOW_TRIES]:
            text = re.sub(re.escape(place), "\0", text, flags=re.IGNORECASE)
        return len(text) >= least and _have_in_common(text, self.tail, least)


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


def arguments_within(request: Message) -> Iterator[str]:
    """Every text in the arguments of a call; none where they cannot be read."""
    place = member_place(request, "params")
    if place is None or place.end - place.start > limits.FLOW_LOOKED_AT:
        return
    try:
        params = msgspec.json.decode(place.text[place.start : place.end])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if isinstance(params, dict):
        yield from _texts(params.get("arguments"))


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
