"""The stage that keeps clients to the catalog, whatever they call and however they spell it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from penstock.policy.catalog import ToolCatalog
from penstock.policy.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, HOLD, Answer, Drop, Verdict
from penstock.wire.ambiguity import (
    Crowded,
    NotAnObject,
    elements,
    folded,
    last_members,
    members,
)
from penstock.wire.member_names import STRING, decoded, values_called
from penstock.wire.message import INVALID_PARAMS, METHOD_NOT_FOUND, Kind, Message
from penstock.wire.replies import error_reply, raw_error_reply, result_reply, tool_not_found

CALL = "tools/call"
LIST = "tools/list"
GATED = frozenset({CALL, LIST})
_REQUEST = Kind.REQUEST

_decode_text = msgspec.json.Decoder(str).decode


def judge(message: Message, catalog: ToolCatalog | None) -> Verdict:
    """What becomes of a client's request or notification; Hold while the catalog is on its way."""
    method = message.method
    if method == CALL and catalog is not None and message.tool in catalog.names:
        # The hot path. Whoever told the tool's name has seen an id and an object called params.
        return FORWARD
    if method not in GATED:
        if method is not None and _looks_gated(method):
            if message.kind is not _REQUEST:
                return Drop("a notification whose method merely looks like a tool method")
            return _protocol_error(message, METHOD_NOT_FOUND, "Method not found")
        return FORWARD
    if message.kind is not _REQUEST or message.id_token == b"null":
        return Drop(f"{method} without an id")
    if catalog is None:
        return HOLD
    return _list(message, catalog) if method == LIST else _call(message, catalog)


def _looks_gated(method: str) -> bool:
    is_plain = method.isascii() and method.islower() and method.isprintable() and " " not in method
    if is_plain and "tool" not in method:
        return False
    return folded_method(method) in GATED


def folded_method(method: str) -> str:
    """`method` as the laxest reader would take it."""
    return "/".join(part for part in folded(method).replace("\\", "/").split("/") if part)


def _call(message: Message, catalog: ToolCatalog) -> Verdict:
    assert message.id_token is not None
    name = message.tool
    if name is None:
        params = message.params
        if params is None:
            return _protocol_error(message, INVALID_PARAMS, "Invalid params: params must be an object")
        try:
            name = _decode_text(params["name"])
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
            return _protocol_error(message, INVALID_PARAMS, "Invalid params: name must be a string")
    if name in catalog.names:
        return FORWARD
    return Answer(tool_not_found(message.id_token, name))


def _list(message: Message, catalog: ToolCatalog) -> Verdict:
    assert message.id_token is not None
    if "params" in message.envelope and message.params is None:
        return _protocol_error(message, INVALID_PARAMS, "Invalid params: params must be an object")
    if message.params is not None and bytes(message.params.get("cursor", b"null")) != b"null":
        # The list has one page, so no cursor can be ours.
        return _protocol_error(message, INVALID_PARAMS, "Invalid params: unknown cursor")
    if catalog.refusal is not None:
        return Answer(raw_error_reply(message.id_token, catalog.refusal))
    return Answer(result_reply(message.id_token, catalog.result), is_list=True)


def _protocol_error(message: Message, code: int, reason: str) -> Answer:
    return Answer(error_reply(message.id_token, code, reason), code)


def shows_hidden_tools(message: Message, choice: ToolFilter) -> bool:
    """Whether something that the upstream sends lists a tool that the client must not see.

    Tool lists are answered from the catalog, so none should ever come by; this is for upstreams that send
    one unasked, as a notification, as the answer to something else, or on a resumed stream. A result is a
    tool list when it has `tools` at its top, as the schema says; what a tool returns further down is its own
    affair. What comes unasked has no business with tools at any depth.
    """
    if message.result is not None and message.result.keys() <= _USUAL_NAMES:
        return False  # the hot path: no member is called tools, nor anything like it
    raw = message.raw
    if raw.isascii() and b"\\u" not in raw and b"tools" not in raw.lower():
        return False  # no member can be called tools, however it is spelt
    if message.method == "sampling/createMessage":
        return False  # tools offered to the client's own model, not the upstream's to be called
    is_result = "result" in message.envelope
    body = message.envelope.get("result" if is_result else "params")
    if body is None or memoryview(body)[0] != _OPEN_BRACE:
        return False
    try:
        return _lists_hidden(body, choice) if is_result else _lists_hidden_anywhere(bytes(body), choice)
    except ValueError:
        return True  # something about tools that we cannot read for certain, and others perhaps can


def text_lists_hidden_tools(text: bytes, choice: ToolFilter) -> bool:
    """The same for what is no message at all, such as the body of an error: JSON that lists a hidden tool.

    Words about tools are free; only a list that a program could take for one is not.
    """
    if text.isascii() and b"\\u" not in text and b"tools" not in text.lower():
        return False
    try:
        return _lists_hidden_anywhere(text, choice)
    except (Crowded, RecursionError):
        return True  # words are not like this, and JavaScript reads on
    except ValueError:
        return False  # words


def _lists_hidden(body: Raw, choice: ToolFilter) -> bool:
    """Whether the list at the top of `body` has a hidden tool in it. Raises Ambiguous, as `members` does."""
    if not any(folded(name) in _LIST_NAMES for name in last_members(body)[0]):
        return False
    for name, value in members(body).items():
        if folded(name) == "tools" and memoryview(value)[0] == _OPEN_BRACKET:
            for entry in elements(value):
                try:
                    tool = members(entry)
                except NotAnObject:
                    continue
                shown = _decode_pairs(bytes(tool.get("name", b"null")))
                if _is_denied(shown, _says_read_only(tool.get("annotations")), choice):
                    return True
    return False


def _says_read_only(annotations: Raw | None) -> bool:
    if annotations is None:
        return False
    try:
        hint = members(annotations).get("readOnlyHint")
    except NotAnObject:
        return False
    return hint is not None and bytes(hint) == b"true"


def _lists_hidden_anywhere(text: bytes, choice: ToolFilter) -> bool:
    """Whether a list called tools has a hidden tool in it, at any depth. Raises ValueError, as json does."""
    if len(text) <= _DEEP_BYTES:
        return any(_is_hidden(tool, choice) for tool in _listed(_decode_pairs(text)))
    # Too large for a tree. There, a hidden name anywhere beside such a list is one too many.
    if not any(True for _ in values_called("tools", rb"\[", text)):
        return False
    return any(_is_denied(decoded(name), False, choice) for name in values_called("name", STRING, text))


def _is_denied(name: object, is_read_only: bool, choice: ToolFilter) -> bool:
    return isinstance(name, str) and choice.maybe_denial(name, is_read_only) is not None


def _is_hidden(tool: object, choice: ToolFilter) -> bool:
    """Whether any name of the members in `tool` is hidden, be it there once or twice."""
    if not isinstance(tool, _Pairs):
        return False
    annotations = [inner for name, inner in tool if name == "annotations" and isinstance(inner, _Pairs)]
    hints = [hint for inner in annotations for name, hint in inner if name == "readOnlyHint"]
    is_read_only = hints == [True]
    return any(folded(key) == "name" and _is_denied(name, is_read_only, choice) for key, name in tool)


def _listed(content: object) -> Iterator[object]:
    """Everything that stands in a list called tools, however deep it lies."""
    if isinstance(content, _Pairs):
        for name, inner in content:
            if folded(name) == "tools" and isinstance(inner, list):
                yield from inner
            yield from _listed(inner)
    elif isinstance(content, list):
        for inner in content:
            yield from _listed(inner)


class _Pairs(list[tuple[str, object]]):
    """An object with all its members, also those that stand twice."""


def _decode_pairs(text: bytes) -> object:
    import json  # the only reader at hand that shows repeated names

    return json.loads(text, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)


_USUAL_NAMES = frozenset({"content", "isError", "structuredContent", "_meta", "resultType"})
_LIST_NAMES = frozenset({"tools", "__proto__", "constructor", "prototype"})
_OPEN_BRACE = ord("{")
_OPEN_BRACKET = ord("[")
_DEEP_BYTES = 256 * 1024  # above this, a tree of the whole message would cost more than the look is worth
