"""What a client calls itself."""

from __future__ import annotations

import msgspec

from penstock import limits
from penstock.wire.mcp.eras import decode_sender
from penstock.wire.mcp.message import Message


def maybe_client_name(message: Message) -> str | None:
    """What the client calls itself, at its handshake or in the `_meta` of a modern request."""
    params = message.params or {}
    try:
        info = params.get("clientInfo") if message.method == "initialize" else None
        if info is None and "_meta" in params:
            said = decode_sender(params["_meta"]).client
            info = None if said is msgspec.UNSET else said
        name = None if info is None else msgspec.json.decode(info, type=_ClientInfo).name
        return (
            None if name is None else name[: limits.NAME_LENGTH]
        )  # it is kept, and may be as long as a message
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class _ClientInfo(msgspec.Struct):
    name: str | None = None
