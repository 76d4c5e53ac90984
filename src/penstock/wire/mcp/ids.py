"""When two spellings of a JSON-RPC id mean the same request.

Ids travel as they were written. To find the request that a response belongs to, spellings must be compared
the way peers compare them: a JavaScript server turns the id 1.0 into 1 and rounds a 40-digit one.
"""

from __future__ import annotations

import re

import msgspec

_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


def exact_key(token: bytes) -> bytes:
    """Like id_key, but large integers that a double cannot tell apart stay apart."""
    if token.isdigit():
        return token
    return token if token[1:].isdigit() and token != b"-0" else id_key(token)


def id_key(token: bytes) -> bytes:
    """The same bytes for every spelling of one id; strings and numbers stay apart."""
    if token.isdigit() and len(token) < 16:
        return token
    if token[:1] == b'"':
        if b"\\" not in token:
            return token
        try:
            return _encode(_decode_text(token))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return token
    try:
        # float takes any number of digits; int would refuse more than 4,300 of them.
        number = float(token)
    except ValueError:
        return token
    if number.is_integer() and abs(number) < 1e15:
        return b"%d" % int(number)
    return repr(number).encode()


_ID = (
    rb'("(?:[ !#-\[\]-~]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"'
    rb"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
)
_LEADING_ID = re.compile(
    rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*"id"\s*:\s*' + _ID + rb"\s*,"
)
_TRAILING_ID = re.compile(rb'"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*' + _ID + rb"\s*\}\s*\Z")
_EDGE = 1024


def maybe_id_at_edges(head: bytes, tail: bytes) -> bytes | None:
    """The id of a message that cannot be read, when it stands at one of its edges, as SDKs write it."""
    found = _LEADING_ID.match(head[:_EDGE]) or _TRAILING_ID.search(tail[-_EDGE:])
    return found[1] if found else None
