"""What the upstream says of its tools (`readOnlyHint` and others), learnt from the lists that pass by."""

from __future__ import annotations

import msgspec

from penstock import limits
from penstock.policy.exchange import Session
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.message_parts import method_of, result_of
from penstock.wire.json.ambiguity import Ambiguous, NotAnArray, NotAnObject, NotJson, elements, members
from penstock.wire.mcp.message import Message

LIST = "tools/list"

DEFAULTS = {
    "readOnlyHint": b"false",
    "destructiveHint": b"true",
    "idempotentHint": b"false",
    "openWorldHint": b"true",
}
"""What MCP says is meant where a tool does not say it."""

_UNCLEAR = (Ambiguous, NotJson, NotAnObject, NotAnArray, KeyError, msgspec.DecodeError, UnicodeDecodeError)
_decode_text = msgspec.json.Decoder(str).decode


def annotation_of(tool: str, name: str, session: Session) -> bytes | None:
    """The JSON value of a tool's annotation; None when nobody can say."""
    known = session.annotations.get(tool)
    return None if known is None else known.get(name, DEFAULTS.get(name, b"null"))


def remember(message: Message, context: Context) -> None:
    """Takes note of the tools in a list that the client is about to see."""
    place = result_of(message)
    if method_of(message, context) != LIST or place is None:
        return
    known = context.session.annotations
    seen: set[str] = set()
    try:
        entries = elements(members(place.text[place.start : place.end])["tools"])
    except _UNCLEAR:
        known.clear()  # whatever the client makes of it, it is no longer what we knew
        return
    for entry in entries:
        try:
            tool = members(entry)
            name = _decode_text(tool["name"])
        except _UNCLEAR:
            continue
        if len(name) > limits.NAME_LENGTH or (len(known) >= limits.SESSION_TOOLS and name not in known):
            continue
        known[name] = None if name in seen else _annotations(tool.get("annotations", b"{}"))
        seen.add(name)


def _annotations(raw: bytes | msgspec.Raw) -> dict[str, bytes] | None:
    if len(bytes(raw)) > limits.ANNOTATIONS_BYTES:
        return None
    try:
        return {name: bytes(value) for name, value in members(bytes(raw)).items()}
    except _UNCLEAR:
        return None
