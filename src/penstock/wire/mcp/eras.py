"""The two eras of MCP and what tells them apart."""

from __future__ import annotations

import enum

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.wire.json.ambiguity import Members, readable

LEGACY_VERSIONS = ("2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)

BATCH_VERSION = "2025-03-26"
"""The only revision in which JSON-RPC batches are allowed."""

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_LEVEL = "io.modelcontextprotocol/logLevel"
META_SERVER = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class Era(enum.Enum):
    """Which wire a conversation speaks."""

    LEGACY = "legacy"  # initialize, sessions, requests from the server
    MODERN = "modern"  # no handshake; every request carries its own _meta

    __hash__ = (
        object.__hash__
    )  # that of enums is a function of Python's, and eras are in the keys of catalogs


def era_of_header(version: bytes | None) -> Era:
    """The era of an HTTP request, by its MCP-Protocol-Version header: absent or legacy, else modern."""
    return Era.LEGACY if version is None or version in _LEGACY_HEADERS else Era.MODERN


_LEGACY_HEADERS = frozenset(version.encode() for version in LEGACY_VERSIONS)


def maybe_modern_meta(params: Members | None) -> bytes | None:
    """What a modern request says of its sender in `_meta`, for a request of ours on the sender's behalf.

    None in a request of the legacy era. What belongs to that one request (a progress token, a trace) is
    left out.
    """
    meta = params.get("_meta") if params else None
    if meta is None:
        return None
    try:
        sender = decode_sender(readable(meta))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if sender.version is UNSET else msgspec.json.encode(sender)


class Sender(Struct, gc=False):
    """What the `_meta` of a modern request says of who sent it; whatever else there is, is not kept."""

    version: Raw | UnsetType = msgspec.field(name=META_VERSION, default=UNSET)
    client: Raw | UnsetType = msgspec.field(name=META_CLIENT, default=UNSET)
    capabilities: Raw | UnsetType = msgspec.field(name=META_CAPABILITIES, default=UNSET)


decode_sender = msgspec.json.Decoder(Sender).decode


def said_era(word: str) -> Era | None:
    """Which era the user says that the upstream speaks; None when it is to be asked."""
    return {"legacy": Era.LEGACY, "modern": Era.MODERN}.get(word)
