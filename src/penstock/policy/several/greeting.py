"""What several upstreams say of themselves, as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from penstock.policy.several.terms import FrontTerms
from penstock.wire.json.ambiguity import readable
from penstock.wire.mcp.eras import LEGACY_VERSIONS, META_SERVER, MODERN_VERSIONS

LISTED = ("tools", "prompts", "resources")


class Greeting(Struct, frozen=True):
    """The result of an upstream's initialize or server/discover, as far as it matters here."""

    version: str = msgspec.field(name="protocolVersion", default="")
    capabilities: dict[str, Any] = {}
    instructions: str = ""
    ttl: int | None = msgspec.field(name="ttlMs", default=None)
    scope: str | None = msgspec.field(name="cacheScope", default=None)

    def has(self, name: str) -> bool:
        """Whether it says that it has a capability."""
        return name in self.capabilities


def read_greeting(result: bytes) -> Greeting:
    """What an upstream says of itself; of one that says it badly, nothing."""
    try:
        return msgspec.json.decode(readable(result), type=Greeting)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Greeting()


def merged_capabilities(greetings: Iterable[Greeting], is_complete: bool) -> dict[str, Any]:
    """All that any of them can do. As long as some are not known, whatever is listed may still come."""
    out: dict[str, Any] = {}
    for greeting in greetings:
        _merge(out, greeting.capabilities)
    if not is_complete:
        for name in LISTED:
            out.setdefault(name, {})
    for name in LISTED:
        if isinstance(out.get(name), dict):
            out[name]["listChanged"] = True
    return out


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict):
            inner = into.setdefault(name, {})
            if isinstance(inner, dict):
                _merge(inner, value)
        elif into.get(name) in (None, False):
            into[name] = value


def merged_instructions(named: Iterable[tuple[str, Greeting]], front: FrontTerms) -> str:
    """What clients shall be told, each part with the name of who says it."""
    if front.instructions == "none":
        return ""
    if front.instructions != "merge":
        return front.instructions
    return "\n\n".join(f"[{name}] {one.instructions}" for name, one in named if one.instructions)


def initialize_result(
    asked: object, capabilities: dict[str, Any], instructions: str, front: FrontTerms, version: str
) -> bytes:
    """The answer to a legacy client, in the version that it asked for, if that is one."""
    result: dict[str, Any] = {
        "protocolVersion": asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[-1],
        "capabilities": capabilities,
        "serverInfo": {"name": front.name, "version": version},
    }
    if instructions:
        result["instructions"] = instructions
    return msgspec.json.encode(result)


def discover_result(
    greetings: list[Greeting],
    capabilities: dict[str, Any],
    instructions: str,
    front: FrontTerms,
    version: str,
) -> bytes:
    """The answer to a modern client."""
    result: dict[str, Any] = {
        "resultType": "complete",
        "supportedVersions": list(MODERN_VERSIONS),
        "capabilities": capabilities,
        **cache_terms((one.ttl, one.scope) for one in greetings),
        "_meta": {META_SERVER: {"name": front.name, "version": version}},
    }
    if instructions:
        result["instructions"] = instructions
    return msgspec.json.encode(result)


def cache_terms(terms: Iterable[tuple[int | None, str | None]]) -> dict[str, Any]:
    """How long, and by whom, a merged list may be kept: as the strictest of its parts says."""
    found = list(terms)
    times = [ttl for ttl, _ in found if isinstance(ttl, int) and ttl >= 0]
    least = min(times) if times and len(times) == len(found) else 0
    is_public = bool(found) and all(scope == "public" for _, scope in found)
    return {"ttlMs": least, "cacheScope": "public" if is_public else "private"}
