"""The headers of an HTTP request that must say the same as its body."""

from __future__ import annotations

import base64
import binascii

import msgspec

from penstock.errors import ClientProtocolError
from penstock.wire.eras import META_VERSION
from penstock.wire.message import INVALID_PARAMS, Message

HEADER_MISMATCH = -32020
"""The code that the 2026-07-28 revision gives to headers that differ from the body."""

NAMING_PARAM = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Which member of params the Mcp-Name header repeats."""

_decode_text = msgspec.json.Decoder(str).decode


def check_routing_headers(message: Message, fields: dict[bytes, bytes], is_required: bool) -> None:
    """Raises ClientProtocolError where a routing header is missing, repeated or says something else."""
    if message.method is None:
        return
    if is_required:
        version = maybe_meta_version(message)
        if version is None:
            reason = f"Invalid params: _meta must name {META_VERSION}"
            raise ClientProtocolError(INVALID_PARAMS, reason, message.id_token)
        _compare(message, fields.get(b"mcp-protocol-version"), version, "MCP-Protocol-Version", True)
    _compare(message, fields.get(b"mcp-method"), message.method, "Mcp-Method", is_required)
    naming = NAMING_PARAM.get(message.method)
    if naming is not None:
        name = _maybe_text(message, naming)
        if name is not None:
            _compare(message, fields.get(b"mcp-name"), name, "Mcp-Name", is_required)


def maybe_meta_version(message: Message) -> str | None:
    """The protocol version in the `_meta` of a modern request."""
    meta = (message.params or {}).get("_meta")
    if meta is None:
        return None
    try:
        version = msgspec.json.decode(meta, type=dict[str, msgspec.Raw]).get(META_VERSION)
        return None if version is None else _decode_text(version)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decode_header(value: bytes) -> str:
    """The text in a header value: plain, or `=?base64?...?=` where it would not travel otherwise."""
    if value[:9] == b"=?base64?" and value[-2:] == b"?=":
        inner = value[9:-2]
        decoded = base64.b64decode(inner, validate=True)
        if base64.b64encode(decoded) != inner:
            raise ValueError("not canonical base64")
        return decoded.decode()
    return value.decode("ascii")


def encode_header(text: str) -> bytes:
    """`text` as a header value, in base64 where it would not travel otherwise."""
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?"):
        return text.encode()
    return b"=?base64?%b?=" % base64.b64encode(text.encode("utf-8", "surrogatepass"))


def _compare(
    message: Message, value: bytes | None, expected: str | None, name: str, is_required: bool
) -> None:
    if value is None:
        if is_required:
            reason = f"Header mismatch: {name} is missing"
            raise ClientProtocolError(HEADER_MISMATCH, reason, message.id_token)
        return
    try:
        is_same = expected is not None and decode_header(value) == expected
    except (ValueError, binascii.Error, UnicodeDecodeError):
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
