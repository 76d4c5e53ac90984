"""What a bridge wants done: messages to either side, and when it wants to be asked again."""

from __future__ import annotations

from msgspec import Struct

from penstock.wire.mcp.message import Message


class ToUpstream(Struct, frozen=True, gc=False):
    """Send this to the upstream."""

    raw: bytes
    of: Message | None = None  # the client's request on whose behalf it is sent


class ToClient(Struct, frozen=True, gc=False):
    """Give this to whoever hears the upstream."""

    raw: bytes
    to: bytes | None = None  # the id of the request to which it belongs, where that cannot be seen in it


class Tell(Struct, frozen=True, gc=False):
    """Tell people this."""

    text: str


Step = ToUpstream | ToClient | Tell
