"""A message as an HTTP body: its own bytes, unless who reads lines would find a second message in them."""

from __future__ import annotations

import re

import msgspec

from penstock.wire.ambiguity import folded
from penstock.wire.ndjson import BREAKS_TO_BLANKS

_KEY = re.compile(rb'"([mM\\\x80-\xff \t](?:[^"\\]|\\.)*)"[ \t\r\n]*:')
"""The names of members that could be "method" to somebody: few begin so, and each is looked at once."""


def to_body(raw: bytes, has_method: bool) -> bytes:
    """`raw` for an HTTP upstream, which may hand it on to something that reads lines.

    Line breaks between tokens stay as they are, as pretty printers write them. But where an object inside the
    message has a `method` too, a line of its own could hold a whole call that was never judged: there they
    become blanks, as they do toward stdio. `has_method` says whether one such member is the message's own.
    """
    if 10 not in raw and 13 not in raw:  # LF and CR; as numbers they are found sooner
        return raw
    found = sum(_is_method(match[1]) for match in _KEY.finditer(raw))
    return raw.translate(BREAKS_TO_BLANKS) if found > has_method else raw


def _is_method(key: bytes) -> bool:
    try:
        name = msgspec.json.decode(b'"%b"' % key, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True  # text inside a string, cut where no name begins: a blank too many harms nobody
    return folded(name) == "method"
