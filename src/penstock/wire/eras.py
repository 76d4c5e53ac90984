"""The two eras of MCP and what tells them apart."""

from __future__ import annotations

import enum

import msgspec

from penstock.wire.ambiguity import Members

LEGACY_VERSIONS = ("2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)

BATCH_VERSION = "2025-03-26"
"""The only revision in which JSON-RPC batches are allowed."""

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


class Era(enum.Enum):
    """Which wire a conversation speaks."""

    LEGACY = "legacy"  # initialize, sessions, requests from the server
    MODERN = "modern"  # no handshake; every request carries its own _meta


def maybe_modern_meta(params: Members | None) -> bytes | None:
    """The `_meta` of a modern request, as written; None in a request of the legacy era."""
    meta = params.get("_meta") if params else None
    if meta is None:
        return None
    try:
        named = msgspec.json.decode(meta, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return bytes(meta) if META_VERSION in named else None
