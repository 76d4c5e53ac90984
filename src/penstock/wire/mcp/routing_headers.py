"""The headers of an HTTP request that must say the same as its body."""

from __future__ import annotations

import base64
import re

import msgspec
from msgspec import Raw

from penstock.errors import ClientProtocolError
from penstock.wire.mcp.eras import META_VERSION
from penstock.wire.mcp.mcp_headers import NAMED_BY, Mirror, maybe_mirrored_text, maybe_modern_version
from penstock.wire.mcp.message import INVALID_PARAMS, Message

HEADER_MISMATCH = -32020
"""The code that the 2026-07-28 revision gives to headers that differ from the body."""

_decode_text = msgspec.json.Decoder(str).decode


def check_routing_headers(message: Message, fields: dict[bytes, bytes], is_required: bool) -> None:
    """Raises ClientProtocolError where a routing header is missing, repeated or says something else."""
    if message.method is None:
        refuse_routing_headers(fields, message.id_token)
        return
    if is_required:
        version = maybe_modern_version(message.params)
        if version is None:
            reason = f"Invalid params: _meta must name {META_VERSION}"
            raise ClientProtocolError(INVALID_PARAMS, reason, message.id_token)
        _compare(message, fields.get(b"mcp-protocol-version"), version, "MCP-Protocol-Version", True)
    _compare(message, fields.get(b"mcp-method"), message.method, "Mcp-Method", is_required)
    naming = NAMED_BY.get(message.method)
    if naming is not None:
        name = _maybe_text(message, naming)
        if name is not None:
            # Of tasks only the extension asks for it, and not every client of the core knows that.
            is_of_core = is_required and naming != "taskId"
            _compare(message, fields.get(b"mcp-name"), name, "Mcp-Name", is_of_core)


def refuse_routing_headers(fields: dict[bytes, bytes], id_token: bytes | None = None) -> None:
    """The same for what is no single request or notification, so that no such header can be right."""
    if b"mcp-method" in fields or b"mcp-name" in fields:
        reason = "Header mismatch: the body has no method of its own"
        raise ClientProtocolError(HEADER_MISMATCH, reason, id_token)


def decode_header(value: bytes) -> str:
    """The text in a header value: plain, or `=?base64?...?=` where it would not travel otherwise."""
    if value[:9] == b"=?base64?" and value[-2:] == b"?=":
        inner = value[9:-2]
        decoded = base64.b64decode(inner)
        if base64.b64encode(decoded) != inner:
            raise ValueError("not canonical base64")
        return decoded.decode()
    return value.decode("ascii")


def maybe_mirror_mismatch(
    mirrors: tuple[Mirror, ...], arguments: Raw | None, fields: dict[bytes, bytes]
) -> str | None:
    """The first header of a tools/call that does not say what its argument says; None when all do."""
    for mirror in mirrors:
        text = maybe_mirrored_text(arguments, mirror) if arguments is not None else None
        value = fields.get(mirror.header.lower())
        if text is None and value is None:
            continue
        if text is None or value is None or not _says(value, text, mirror.is_integer):
            return mirror.header.decode()
    return None


def _says(value: bytes, text: str, is_integer: bool) -> bool:
    try:
        said = decode_header(value)
    except ValueError:
        return False
    if said == text:
        return True
    # 42.0 says the integer 42; nothing is rounded, so digits beyond a double's still count.
    whole = _INTEGRAL.fullmatch(said)
    return is_integer and whole is not None and whole[1] == text


_INTEGRAL = re.compile(r"(-?[0-9]+)\.0+")


def _compare(message: Message, value: bytes | None, expected: str, name: str, is_required: bool) -> None:
    if value is None:
        if is_required:
            reason = f"Header mismatch: {name} is missing"
            raise ClientProtocolError(HEADER_MISMATCH, reason, message.id_token)
        return
    try:
        is_same = decode_header(value) == expected
    except ValueError:
        is_same = False
    if not is_same:
        reason = f"Header mismatch: {name} does not say what the body says"
        raise ClientProtocolError(HEADER_MISMATCH, reason, message.id_token)


def _maybe_text(message: Message, param: str) -> str | None:
    token = (message.params or {}).get(param)
    try:
        return None if token is None else _decode_text(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
