"""What the answer to initialize tells a relay."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from penstock.wire.ambiguity import readable


class Initialized(Struct):
    """What matters of it. A version of an odd type is none that we know."""

    version: object = msgspec.field(name="protocolVersion", default=None)
    capabilities: dict[str, Raw] = {}


def read_initialized(result: bytes | Raw) -> Initialized:
    """What `result` says; nothing when it cannot be read."""
    try:
        return msgspec.json.decode(readable(result), type=Initialized)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Initialized()
