"""What an upstream says of itself when it is greeted, as far as it matters here."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.wire.json.ambiguity import readable


class Capabilities(Struct, frozen=True):
    """What it says that it can do; whatever else it says is not kept."""

    tools: Raw | UnsetType = UNSET


class ServerInfo(Struct, frozen=True):
    """The result of initialize or of server/discover."""

    version: object = msgspec.field(name="protocolVersion", default=None)
    capabilities: Capabilities = Capabilities()

    @property
    def has_tools(self) -> bool:
        """Whether it says that it has tools."""
        return self.capabilities.tools is not UNSET


def maybe_server_info(result: Raw) -> ServerInfo | None:
    """The server_info in `result`; None when it is none."""
    try:
        return msgspec.json.decode(readable(result), type=ServerInfo)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
