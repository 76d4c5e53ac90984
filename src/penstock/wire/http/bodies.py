"""A message as an HTTP body: its own bytes, unless who reads lines would find a second message in them."""

from __future__ import annotations

from penstock import limits
from penstock.wire.json.ambiguity import Crowded
from penstock.wire.json.member_names import values_called
from penstock.wire.mcp.ndjson import BREAKS_TO_BLANKS


def to_body(raw: bytes, has_method: bool) -> bytes:
    """`raw` for an HTTP upstream, which may hand it on to something that reads lines.

    Line breaks between tokens stay as they are, as pretty printers write them. But where an object inside the
    message has a `method` too, a line of its own could hold a whole call that was never judged: there they
    become blanks, as they do toward stdio. `has_method` says whether one such member is the message's own.
    """
    if 10 not in raw and 13 not in raw:  # LF and CR; as numbers they are found sooner
        return raw
    try:
        found = sum(1 for _ in values_called("method", b"", raw))
    except Crowded:
        found = limits.PATH_PARTS
    return raw.translate(BREAKS_TO_BLANKS) if found > has_method else raw
