"""When two spellings of a JSON-RPC id mean the same request.

Ids travel as they were written. To find the request that a response belongs to, spellings must be compared
the way peers compare them: a JavaScript server turns the id 1.0 into 1 and rounds a 40-digit one.
"""

from __future__ import annotations

import re

import msgspec

_PLAIN = re.compile(rb'0|-?[1-9][0-9]{0,14}|"[^"\\]*"|null').fullmatch
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


def id_key(token: bytes) -> bytes:
    """The same bytes for every spelling of one id; strings and numbers stay apart."""
    if _PLAIN(token):
        return token
    if token[:1] == b'"':
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
