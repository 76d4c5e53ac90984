"""Finding out what a message is without disturbing a byte of it."""

from __future__ import annotations

import enum

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.errors import ClientProtocolError, ProtocolError, UpstreamProtocolError
from penstock.wire.ambiguity import (
    Ambiguous,
    Members,
    NotAnObject,
    NotJson,
    check_text,
    elements,
    folded,
    last_members,
    members,
)
from penstock.wire.ids import maybe_id_at_edges

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class Kind(enum.IntEnum):
    """What a message is in JSON-RPC."""

    REQUEST = 1
    NOTIFICATION = 2
    RESPONSE = 3


class Message(Struct, frozen=True, gc=False):
    """One JSON-RPC message: its bytes, and as much as had to be looked at."""

    raw: bytes  # exactly as received
    kind: Kind
    id_token: bytes | None  # as written: 1.0, 1 and "1" stay distinct
    method: str | None
    envelope: Members  # the outermost members, each as written
    params: Members | None  # the members of params, when it is an object and the client sent it


class Batch(Struct, frozen=True, gc=False):
    """Several messages that came as one JSON array."""

    raw: bytes
    parts: list[bytes]


_BLANK = b" \t\r\n"
_OPEN_BRACE = ord("{")
_ID_STARTS = frozenset(b'"-0123456789'[i : i + 1] for i in range(12))
_SOLE_ID_BYTES = 64 * 1024
_decode_text = msgspec.json.Decoder(str).decode


def read_client_message(raw: bytes) -> Message | Batch:
    """The message a client sent, read so strictly that no other reading is left.

    Raises ClientProtocolError with the code and the sentence that the client may be told.
    """
    envelope = _read_envelope(raw, ClientProtocolError)
    if isinstance(envelope, Batch):
        return envelope
    params = envelope.get("params")
    if params is None or memoryview(params)[0] != _OPEN_BRACE:
        return _classify(raw, envelope, None, ClientProtocolError)
    try:
        inner = members(params)
    except (Ambiguous, NotJson, NotAnObject) as why:
        id_token = _maybe_id_token(envelope)
        raise ClientProtocolError(INVALID_REQUEST, f"Invalid request: in params, {why}", id_token) from None
    return _classify(raw, envelope, inner, ClientProtocolError)


def read_upstream_message(raw: bytes) -> Message | Batch:
    """The message an upstream sent; only its envelope is looked at. Raises UpstreamProtocolError."""
    envelope = _read_envelope(raw, UpstreamProtocolError)
    if isinstance(envelope, Batch):
        return envelope
    return _classify(raw, envelope, None, UpstreamProtocolError)


def _read_envelope(raw: bytes, blame: type[ProtocolError]) -> Members | Batch:
    if len(raw) > limits.MESSAGE_BYTES:
        raise blame(INVALID_REQUEST, f"Invalid request: {len(raw)} bytes, over {limits.MESSAGE_BYTES}")
    try:
        check_text(raw)
        return members(raw)
    except NotJson as why:
        raise blame(PARSE_ERROR, f"Parse error: {why}", maybe_id_at_edges(raw, raw)) from None
    except Ambiguous as why:
        raise blame(INVALID_REQUEST, f"Invalid request: {why}", maybe_sole_id(raw)) from None
    except NotAnObject:
        if raw.lstrip(_BLANK)[:1] != b"[":
            raise blame(INVALID_REQUEST, "Invalid request: it is not an object") from None
    try:
        return Batch(raw, elements(raw))
    except NotJson as why:  # only its first byte has been looked at so far
        raise blame(PARSE_ERROR, f"Parse error: {why}") from None


def _classify(raw: bytes, envelope: Members, params: Members | None, blame: type[ProtocolError]) -> Message:
    id_token = _maybe_id_token(envelope)
    if bytes(envelope.get("jsonrpc", b"")) != b'"2.0"':
        raise blame(INVALID_REQUEST, 'Invalid request: jsonrpc must be "2.0"', id_token)
    if id_token is None and "id" in envelope:
        raise blame(INVALID_REQUEST, "Invalid request: id must be a string or a number")
    has_answer = "result" in envelope or "error" in envelope
    token = envelope.get("method")
    if token is None:
        if not has_answer or ("result" in envelope and "error" in envelope):
            raise blame(INVALID_REQUEST, "Invalid request: neither a request nor a response", id_token)
        return Message(raw, Kind.RESPONSE, id_token, None, envelope, params)
    if has_answer:
        raise blame(INVALID_REQUEST, "Invalid request: both a request and a response", id_token)
    try:
        method = _decode_text(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise blame(INVALID_REQUEST, "Invalid request: method must be a string", id_token) from None
    kind = Kind.NOTIFICATION if id_token is None else Kind.REQUEST
    return Message(raw, kind, id_token, method, envelope, params)


def _maybe_id_token(envelope: Members) -> bytes | None:
    token = bytes(envelope.get("id", b""))
    if token[:1] in _ID_STARTS:
        return token
    return b"null" if token == b"null" else None


def maybe_sole_id(raw: bytes) -> bytes | None:
    """The id of a message that was refused, for the answer to it, unless there are two."""
    if len(raw) > _SOLE_ID_BYTES:
        return None
    import json  # the only reader at hand that shows repeated names; loaded only for refusals

    try:
        pairs = json.loads(raw, object_pairs_hook=list, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    ids = [name for name, _ in pairs if folded(name) == "id"]
    return _maybe_id_token(last_members(raw)[0]) if ids == ["id"] else None
