"""Whose answer a message is, seen at a glance: large ones are not read twice."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from penstock.errors import UpstreamProtocolError
from penstock.wire.json.nesting import nests_too_deep
from penstock.wire.mcp.message import Kind, Message, read_upstream_message

_SMALL_BYTES = 16 * 1024
_EDGE_BYTES = 1024
_ID = rb'("(?:[^"\\]|\\.)*+"|-?[0-9][0-9.eE+-]*|null)'
_LEADING = re.compile(
    rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*' + _ID + rb'\s*,\s*"(?:result|error)"\s*:'
)
_OPENING = re.compile(rb'\s*\{\s*"(?:result|error)"\s*:')
# After the id only one brace closes, so it is the outermost object's.
_TRAILING = re.compile(rb'"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*' + _ID + rb"\s*\}\s*\Z")
_ABSENT = Raw(b"")


class _Envelope(Struct, gc=False):
    """What tells a response; whatever else there is, is not kept."""

    id: Raw = Raw(b"null")
    method: Raw = _ABSENT
    result: Raw = _ABSENT
    error: Raw = _ABSENT


_decode = msgspec.json.Decoder(_Envelope).decode


def maybe_response_id(raw: bytes) -> bytes | None:
    """The id of the response in `raw`, as written; None when it is no response or cannot be read.

    A look, not a check: the relay still reads the message strictly.
    """
    if len(raw) > _SMALL_BYTES:
        found = _LEADING.match(raw, 0, _EDGE_BYTES)
        if found is None and _OPENING.match(raw, 0, _EDGE_BYTES):
            found = _TRAILING.search(raw, len(raw) - _EDGE_BYTES)
        if found is not None:
            return found[1]
    if nests_too_deep(raw):
        return None
    try:
        seen = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _maybe_id_read_strictly(raw)
    if seen.method is not _ABSENT or (seen.result is _ABSENT and seen.error is _ABSENT):
        return None
    return bytes(seen.id)


def _maybe_id_read_strictly(raw: bytes) -> bytes | None:
    """For what the plain decoder does not take: half a surrogate pair in some text, for instance."""
    try:
        message = read_upstream_message(raw)
    except UpstreamProtocolError:
        return None
    if not isinstance(message, Message) or message.kind is not Kind.RESPONSE:
        return None
    return message.id_token or b"null"
