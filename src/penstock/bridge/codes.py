"""Error codes that mean one thing in one era and another, or nothing, in the other."""

from __future__ import annotations

from penstock.bridge.envelope import maybe_members, maybe_value, with_members
from penstock.wire.mcp.message import INTERNAL_ERROR, INVALID_PARAMS, Message

RESOURCE_NOT_FOUND = -32002
"""What the legacy era says of a resource that is not there; the modern one says INVALID_PARAMS."""
UNSUPPORTED_VERSION = -32022
URL_NEEDED = -32042
_SPEC_CODES = range(-32099, -32019)
_MODERN_OWN = frozenset({-32021, URL_NEEDED})


def code_of(answer: Message) -> int | None:
    """The code of an error; None of a result."""
    error = maybe_members(answer.envelope.get("error"))
    code = maybe_value(error.get("code")) if error is not None else None
    return code if isinstance(code, int) else None


def for_legacy(answer: Message, asked: Message) -> bytes:
    """An error of a modern upstream, with the code that a legacy client knows."""
    error = maybe_members(answer.envelope.get("error"))
    if error is None or asked.method != "resources/read" or code_of(answer) != INVALID_PARAMS:
        return answer.raw
    data = maybe_members(error.get("data"))
    uri = (asked.params or {}).get("uri")
    if data is None or uri is None or bytes(data.get("uri", b"")) != bytes(uri):
        return answer.raw
    return _with_code(answer, RESOURCE_NOT_FOUND)


def for_modern(answer: Message, asked: Message) -> bytes:
    """An error of a legacy upstream, with a code that the modern revision leaves to it."""
    code = code_of(answer)
    if code == RESOURCE_NOT_FOUND:
        is_read = asked.method == "resources/read"
        return _with_code(answer, INVALID_PARAMS if is_read else INTERNAL_ERROR)
    if code in _SPEC_CODES and code not in _MODERN_OWN:
        return _with_code(answer, INTERNAL_ERROR)
    return answer.raw


def _with_code(answer: Message, code: int) -> bytes:
    error = with_members(bytes(answer.envelope["error"]), {"code": b"%d" % code})
    return with_members(answer.raw, {"error": error})


def names_modern(answer: Message, versions: tuple[str, ...]) -> bool:
    """Whether the refusal of a version says that a modern one is spoken."""
    error = maybe_members(answer.envelope.get("error"))
    if error is None or code_of(answer) != UNSUPPORTED_VERSION:
        return False
    data = maybe_members(error.get("data"))
    supported = maybe_value(data.get("supported")) if data is not None else None
    return isinstance(supported, list) and any(version in supported for version in versions)
