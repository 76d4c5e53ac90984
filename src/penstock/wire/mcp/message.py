"""Finding out what a message is without disturbing a byte of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock import limits
from penstock.errors import ClientProtocolError, ProtocolError, UpstreamProtocolError
from penstock.wire.json import digests
from penstock.wire.json import fast_path as plain
from penstock.wire.json.ambiguity import (
    Ambiguous,
    Members,
    NotAnObject,
    NotJson,
    check_text,
    elements,
    folded,
    is_sound,
    last_members,
    members,
)
from penstock.wire.json.nesting import nests_too_deep
from penstock.wire.mcp.ids import maybe_id_at_edges
from penstock.wire.mcp.replies import over_limit

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

    __hash__ = int.__hash__  # that of enums is a function of Python's


# Looking a member up in its enumeration costs more than the comparison.
_REQUEST, _NOTIFICATION, _RESPONSE = Kind.REQUEST, Kind.NOTIFICATION, Kind.RESPONSE


class Message(Struct, gc=False):
    """One JSON-RPC message: its bytes, and as much as had to be looked at."""

    raw: bytes  # exactly as received
    kind: Kind
    id_token: bytes | None  # as written: 1.0, 1 and "1" stay distinct
    method: str | None
    members: Members | None = None  # what `envelope` gives, once somebody has asked
    inner: Members | UnsetType | None = UNSET  # what `params` gives, likewise
    tool: str | None = None  # the name in params, where reading the message has already told
    result: Collection[str] | None = None  # the names of the members of the result, likewise

    @property
    def envelope(self) -> Members:
        """The outermost members, each as written."""
        if self.members is None:
            self.members = members(self.raw)
        return self.members

    @property
    def has_result(self) -> bool:
        """Whether this is a response that is no error."""
        return self.result is not None or "result" in self.envelope

    @property
    def params(self) -> Members | None:
        """The members of params, when it is an object and the client sent it."""
        if self.inner is UNSET:
            params = self.envelope.get("params")
            self.inner = members(params) if params is not None else None
        return self.inner


class Batch(Struct, frozen=True, gc=False):
    """Several messages that came as one JSON array."""

    raw: bytes
    parts: list[bytes]


_BLANK = b" \t\r\n"
_OPEN_BRACE = ord("{")
_NOTICE = b'{"jsonrpc":"2.0","method":"'
_ID_STARTS = frozenset(b'"-0123456789'[i : i + 1] for i in range(12))
_SOLE_ID_BYTES = 64 * 1024
_decode_text = msgspec.json.Decoder(str).decode


def read_client_message(raw: bytes) -> Message | Batch:
    """The message a client sent, read so strictly that no other reading is left.

    Raises ClientProtocolError with the code and the sentence that the client may be told.
    """
    # The hot path: one look is enough for what is plain (wire/json/fast_path.py).
    if (len(raw) <= limits.MESSAGE_LEAST_BYTES or _is_unjudged(raw)) and is_sound(raw):
        try:
            request = plain.decode_request(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _read_client_strictly(raw)
        if plain.spelt_request_bytes(request, len(raw)) == len(raw):
            params = request.params
            tool = None if params is UNSET or params.name is UNSET else params.name
            id_token = plain.encode(request.id)  # as it stands, four times as fast as bytes()
            if id_token[:1] in _ID_STARTS:
                return Message(raw, _REQUEST, id_token, request.method, None, UNSET, tool)
    return _read_client_strictly(raw)


def _is_unjudged(raw: bytes) -> bool:
    """Whether a large message was not judged while it arrived, and may be as large as it is."""
    return len(raw) <= limits.MESSAGE_BYTES and not digests.has(raw)


def _read_client_strictly(raw: bytes) -> Message | Batch:
    if len(raw) > limits.MESSAGE_LEAST_BYTES and (digest := digests.maybe_take(raw)) is not None:
        judged = _maybe_judged(raw, digest, read_client_message)
        if judged is not None:
            return judged
    envelope = _read_envelope(raw, ClientProtocolError)
    if isinstance(envelope, Batch):
        if len(envelope.parts) > limits.BATCH_MESSAGES:
            reason = f"Invalid request: a batch of more than {limits.BATCH_MESSAGES} messages"
            raise ClientProtocolError(INVALID_REQUEST, reason)
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
    if len(raw) > plain.COPIED_BYTES:
        return _read_large(raw)
    if is_sound(raw):
        if raw.startswith(_NOTICE):  # else one that is raised in vain costs more than all the rest
            return _read_unasked(raw)
        try:
            answer = plain.decode_result(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _read_unasked(raw)
        if len(plain.encode(answer)) == len(raw):
            id_token = plain.encode(answer.id)
            if id_token[:1] in _ID_STARTS:
                return Message(raw, _RESPONSE, id_token, None, None, None, None, answer.result)
    return _read_upstream_strictly(raw)


def _read_large(raw: bytes) -> Message | Batch:
    if (digest := digests.maybe_take(raw)) is not None:
        return _maybe_judged(raw, digest, read_upstream_message) or _read_upstream_strictly(raw)
    from penstock.wire.json.large_result import maybe_large_result  # many a session has none

    answer = maybe_large_result(raw) if len(raw) <= limits.MESSAGE_BYTES else None
    if answer is not None:
        id_token = bytes(answer.id)
        if id_token[:1] in _ID_STARTS:
            return Message(raw, _RESPONSE, id_token, None, None, None, None, answer.names)
    return _read_upstream_strictly(raw)


def _maybe_judged(raw: bytes, digest: bytes, read: Callable[[bytes], Message | Batch]) -> Message | None:
    """The message in `raw` by its digest (wire/json/arrival.py); None where `raw` itself has to be read.

    Values in the digest are not those of the message, so of these none is kept but what was seen to be whole.
    """
    from penstock.wire.json.arrival import LONGEST_WORD

    try:
        short = read(digest)
    except ProtocolError:
        return None  # whoever sent it hears what is wrong with the whole of it
    if isinstance(short, Batch) or len(raw) > limits.MESSAGE_BYTES:
        return None
    tool = short.tool if short.members is None else _maybe_tool(short)
    if any(len(word) >= LONGEST_WORD for word in (short.id_token, short.method, tool) if word is not None):
        return None
    names = short.result if short.members is None else _maybe_names(short.members.get("result"))
    inner = None if short.inner is None else UNSET
    found = None if names is None else tuple(names)
    return Message(raw, short.kind, short.id_token, short.method, None, inner, tool, found)


def _maybe_tool(request: Message) -> str | None:
    """The name in params, as the plain reading would tell it."""
    token = bytes(request.inner.get("name", b"")) if request.inner else b""
    is_plain = token[:1] == b'"' and b"\\" not in token
    return _decode_text(token) if is_plain and request.id_token not in (None, b"null") else None


def _maybe_names(result: Raw | None) -> Collection[str] | None:
    """The names of the members of a result, if that is an object that has one reading."""
    try:
        return None if result is None else members(result).keys()
    except (Ambiguous, NotJson, NotAnObject):
        return None


def _read_unasked(raw: bytes) -> Message | Batch:
    """A small message that is sound but no plain result: perhaps a plain notification or request."""
    try:
        notice = plain.decode_notice(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _read_upstream_strictly(raw)
    if len(plain.encode(notice)) == len(raw):
        id_token = plain.encode(notice.id)
        if not id_token:
            return Message(raw, _NOTIFICATION, None, notice.method, None, None)
        if id_token[:1] in _ID_STARTS:
            return Message(raw, _REQUEST, id_token, notice.method, None, None)
    return _read_upstream_strictly(raw)


def _read_upstream_strictly(raw: bytes) -> Message | Batch:
    envelope = _read_envelope(raw, UpstreamProtocolError)
    if isinstance(envelope, Batch):
        return envelope
    return _classify(raw, envelope, None, UpstreamProtocolError)


def _read_envelope(raw: bytes, blame: type[ProtocolError]) -> Members | Batch:
    if len(raw) > limits.MESSAGE_BYTES:
        raise blame(INVALID_REQUEST, f"Invalid request. {over_limit(len(raw))}")
    try:
        check_text(raw)
        return Batch(raw, elements(raw)) if is_batch(raw) else members(raw)
    except NotJson as why:
        raise blame(PARSE_ERROR, f"Parse error: {why}", maybe_id_at_edges(raw, raw)) from None
    except Ambiguous as why:
        raise blame(INVALID_REQUEST, f"Invalid request: {why}", maybe_sole_id(raw)) from None
    except NotAnObject:
        raise blame(INVALID_REQUEST, "Invalid request: it is not an object") from None


def is_batch(raw: bytes) -> bool:
    """Whether `raw` can only be a batch. Within another there is none: at each of 128 levels, all that lies
    below would be read again."""
    return raw.lstrip(_BLANK)[:1] == b"["


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
        return Message(raw, _RESPONSE, id_token, None, envelope, params)
    if has_answer:
        raise blame(INVALID_REQUEST, "Invalid request: both a request and a response", id_token)
    try:
        method = _decode_text(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise blame(INVALID_REQUEST, "Invalid request: method must be a string", id_token) from None
    kind = _NOTIFICATION if id_token is None else _REQUEST
    return Message(raw, kind, id_token, method, envelope, params)


def _maybe_id_token(envelope: Members) -> bytes | None:
    token = bytes(envelope.get("id", b""))
    if token[:1] in _ID_STARTS:
        return token
    return b"null" if token == b"null" else None


def maybe_sole_id(raw: bytes) -> bytes | None:
    """The id of a message that was refused, for the answer to it, unless there are two."""
    if len(raw) > _SOLE_ID_BYTES or nests_too_deep(raw):
        return None
    import json  # the only reader at hand that shows repeated names; loaded only for refusals

    try:
        pairs = json.loads(raw, object_pairs_hook=list, parse_int=str, parse_float=str)
    except ValueError:
        return None
    ids = [name for name, _ in pairs if folded(name) == "id"]
    return _maybe_id_token(last_members(raw)[0]) if ids == ["id"] else None
