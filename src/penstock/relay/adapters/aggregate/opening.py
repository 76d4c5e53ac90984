"""How a session was opened: with which words an upstream is greeted in the client's place."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from penstock import __version__
from penstock.bridge.envelope import maybe_members, with_members, without_members
from penstock.policy.several.terms import QUESTIONS
from penstock.relay.upstream_probe import CAPABILITIES
from penstock.wire.json.ambiguity import Members
from penstock.wire.mcp.eras import (
    LEGACY_VERSIONS,
    META_CAPABILITIES,
    META_CLIENT,
    META_VERSION,
    MODERN_VERSIONS,
    Era,
)

_CLIENT = {"name": "penstock", "version": __version__}


class Opening(Struct, frozen=True):
    """The era, and what the client said of itself: the params of initialize, or a modern `_meta`."""

    era: Era
    words: bytes

    def for_asks(self, asks: frozenset[str]) -> bytes:
        """The words for an upstream that may ask only so much of the client."""
        if len(asks) == len(QUESTIONS):
            return self.words
        place = "capabilities" if self.era is Era.LEGACY else META_CAPABILITIES
        return without_questions(self.words, place, asks)


def own_opening(era: Era) -> Opening:
    """The words when there is no client yet: an upstream shall show all that it has."""
    if era is Era.LEGACY:
        words: dict[str, object] = {
            "protocolVersion": LEGACY_VERSIONS[-1],
            "capabilities": CAPABILITIES,
            "clientInfo": _CLIENT,
        }
    else:
        words = {META_VERSION: MODERN_VERSIONS[-1], META_CLIENT: _CLIENT, META_CAPABILITIES: CAPABILITIES}
    return Opening(era, msgspec.json.encode(words))


def without_questions(words: bytes, place: str, asks: frozenset[str]) -> bytes:
    """`words` whose member `place` names capabilities, without those for being asked more than `asks`."""
    found: Members | None = maybe_members(words)
    capabilities: Raw | None = (found or {}).get(place)
    if capabilities is None or maybe_members(capabilities) is None:
        return words
    kept = without_members(bytes(capabilities), *(name for name in QUESTIONS if name not in asks))
    return with_members(words, {place: kept})
