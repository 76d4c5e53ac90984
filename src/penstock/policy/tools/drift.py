"""What has become of a tool list since it was frozen: clients keep the old one, and people are told."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.policy.tools.catalog import ToolCatalog
from penstock.wire.mcp.replies import printable

_SHOWN = 20  # names in one sentence; an upstream may have thousands


def maybe_drift(frozen: ToolCatalog, found: ToolCatalog) -> str | None:
    """How `found` differs from what clients were shown, with both hashes of a tool that changed."""
    before = {tool.name: tool.raw for tool in frozen.allowed}
    after = {tool.name: tool.raw for tool in found.allowed}
    changed = [
        f"{printable(name)} (was {_hash(raw)}, is {_hash(after[name])})"
        for name, raw in before.items()
        if after.get(name, raw) != raw
    ]
    parts = [
        _sentence("Changed", changed),
        _sentence("New", (printable(name) for name in after if name not in before)),
        _sentence("Gone", (printable(name) for name in before if name not in after)),
    ]
    return " ".join(part for part in parts if part) or None


def _sentence(what: str, names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return f"{what}: {', '.join(listed[:_SHOWN])}{more}." if listed else ""


def _hash(raw: bytes) -> str:
    from hashlib import blake2b  # only where something has changed

    return blake2b(raw, digest_size=8).hexdigest()
