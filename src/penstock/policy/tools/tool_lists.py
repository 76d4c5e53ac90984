"""What a program could take for a list of tools, and whether a hidden tool is in it.

Tool lists are answered from the catalog, so none should ever come by. This is for upstreams that send one
unasked, as a notification, as the answer to something else, in an error, beside the members that the protocol
knows, or on a resumed stream.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from penstock.policy.tools.tool_filter import ToolFilter
from penstock.wire.json.ambiguity import (
    INHERITED,
    Crowded,
    checked_members,
    elements,
    folded,
    last_members,
)
from penstock.wire.json.member_names import places_called
from penstock.wire.json.nesting import nests_too_deep
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message
from penstock.wire.mcp.replies import INVALID_ANSWER

if TYPE_CHECKING:
    from json import JSONDecoder


def shows_hidden_tools(message: Message, choice: ToolFilter) -> bool:
    """Whether something that the upstream sends lists a tool that the client must not see.

    A result is a tool list when it has `tools` at its top, as the schema says; what a tool returns further
    down is its own affair. Nothing else has any business with tools, at any depth.
    """
    if message.result is not None and USUAL_NAMES.issuperset(message.result):
        return False  # the hot path: no member is called tools, nor anything like it
    if not _may_list(message.raw):
        return False
    try:
        return any(
            _part_lists_hidden(name, value, message, choice) for name, value in message.envelope.items()
        )
    except ValueError:
        return True  # something about tools that we cannot read for certain, and others perhaps can


def text_lists_hidden_tools(text: bytes, choice: ToolFilter) -> bool:
    """The same for what is no message at all, such as the body of an error: JSON that lists a hidden tool.

    Words about tools are free; only a list that a program could take for one is not. Some programs read one
    value and stop, some read one after another, and some pass over what stands before the first.
    """
    if b"\0" not in text and not _may_list(text):  # in UTF-16 and UTF-32 every other byte is a NUL
        return False
    try:
        return any(_lists_hidden_anywhere(reading, choice) for reading in _readings(text))
    except (ValueError, RecursionError):
        return True  # too deep, too much or broken where a list begins; and others read on


def member_lists_hidden_tools(name: str, value: bytes | Raw, choice: ToolFilter) -> bool:
    """The same for one member of an object that is passed on with others."""
    return text_lists_hidden_tools(b"{%b:%b}" % (msgspec.json.encode(name), value), choice)


def shown_error(error: bytes, choice: ToolFilter) -> bytes:
    """The upstream's error object as a client may see it: as it is, unless it lists hidden tools."""
    if not text_lists_hidden_tools(error, choice):
        return error
    return msgspec.json.encode({"code": INTERNAL_ERROR, "message": INVALID_ANSWER})


def _may_list(text: bytes) -> bool:
    """Whether a member could be called tools, however it is spelt."""
    return not text.isascii() or b"\\u" in text or b"tools" in text.lower()


def _part_lists_hidden(name: str, value: Raw, message: Message, choice: ToolFilter) -> bool:
    """Whether one of the outermost members has a list with a hidden tool in it. Raises ValueError."""
    if name == "result" and memoryview(value)[0] == _OPEN_BRACE:
        return _result_lists_hidden(value, choice)
    if name == "params" and message.method == _SAMPLING and message.kind is Kind.REQUEST:
        return False  # tools offered to the client's own model, not the upstream's to be called
    # With its name: one that is no member of the protocol may be called tools itself.
    text = b"{%b:%b}" % (msgspec.json.encode(name), value)
    return _may_list(text) and _lists_hidden_anywhere(text, choice)


def _result_lists_hidden(result: Raw, choice: ToolFilter) -> bool:
    """Whether the list at the top of `result` has a hidden tool in it. Raises ValueError."""
    found, text = last_members(result)
    if not any(folded(name) in _LIST_NAMES for name in found):
        return False
    return any(
        _is_hidden(entry, choice)
        for name, value in checked_members(result, found, text).items()
        if folded(name) == "tools"
        for entry in _entries_of(value)
    )


def _entries_of(tools: Raw) -> Iterator[object]:
    """The entries of what is called tools; a large list is read one by one. Raises ValueError."""
    if memoryview(tools)[0] == _OPEN_BRACKET:
        for entry in elements(tools):
            yield _decode_pairs(entry)
    elif len(memoryview(tools)) <= _DEEP_BYTES:
        yield from _entries(_decode_pairs(bytes(tools)))
    else:
        raise Crowded("what is called tools is too large to look at")


def _readings(text: bytes) -> list[bytes]:
    """`text`, and where it has NULs also what is left without them: JSON in UTF-16 or UTF-32 behind some byte
    that makes us guess another coding."""
    return [text, text.replace(b"\0", b"")] if b"\0" in text else [text]


def _lists_hidden_anywhere(text: bytes, choice: ToolFilter) -> bool:
    """Whether a list called tools has a hidden tool in it, at any depth. Raises ValueError when it is too
    deep or too large to tell."""
    if len(text) <= _DEEP_BYTES:
        words = _decoded(text)
        _refuse_depth(words.encode("utf-8", "surrogatepass"))
        found, is_broken = _values(words)
        if any(_is_hidden(tool, choice) for content in found for tool in _listed(content)):
            return True
        return is_broken and _seems_to_list_hidden(words, choice)
    # Too large for a tree, so only the lists are made one.
    _refuse_depth(text)
    from penstock.wire.json.json_walk import value_end  # its patterns take a while to compile

    room = _DEEP_BYTES
    for start in places_called("tools", rb"[\[{]", text):
        end = value_end(text, start)
        room -= end - start
        if room < 0:
            return True  # nobody has so much to say about tools that was not asked
        if any(_is_hidden(tool, choice) for tool in _entries(_decode_pairs(text[start:end]))):
            return True
    return False


def _is_hidden(entry: object, choice: ToolFilter) -> bool:
    """Whether what stands in a list of tools is a hidden one: by its name, be it there once or twice, bare,
    or wrapped in something that has no name. With a lock every one is: only the catalog compares digests."""
    if choice.lock is not None and isinstance(entry, str | _Pairs):
        return True
    if isinstance(entry, str):
        return choice.maybe_denial(entry, False) is not None
    if not isinstance(entry, _Pairs):
        return isinstance(entry, list) and any(_is_hidden(inner, choice) for inner in entry)
    names = [name for key, name in entry if folded(key) == "name" and isinstance(name, str)]
    if any(choice.maybe_denial(name, _says_read_only(entry)) is not None for name in names):
        return True
    return any(
        _is_hidden(inner, choice)
        for key, inner in entry
        if isinstance(inner, _Pairs) and (not names or folded(key) in INHERITED)
    )


def _says_read_only(tool: _Pairs) -> bool:
    annotations = [inner for name, inner in tool if name == "annotations" and isinstance(inner, _Pairs)]
    return [hint for inner in annotations for name, hint in inner if name == "readOnlyHint"] == [True]


def _listed(content: object) -> Iterator[object]:
    """Everything that stands in a list called tools, however deep it lies."""
    if isinstance(content, _Pairs):
        for name, inner in content:
            if folded(name) == "tools":
                yield from _entries(inner)
            yield from _listed(inner)
    elif isinstance(content, list):
        for inner in content:
            yield from _listed(inner)


def _entries(tools: object) -> Iterator[object]:
    """The entries of what is called tools: of a list, or of an object that has them by their names."""
    if isinstance(tools, _Pairs):
        for name, inner in tools:
            if isinstance(inner, _Pairs):
                is_tool = any(folded(key) == "inputschema" for key, _ in inner)
                yield _Pairs([("name", name), *inner]) if is_tool else inner
    elif isinstance(tools, list):
        yield from tools


class _Pairs(list[tuple[str, object]]):
    """An object with all its members, also those that stand twice."""


def _decode_pairs(text: bytes) -> object:
    words = _decoded(text)
    _refuse_depth(words.encode("utf-8", "surrogatepass"))
    return _decoder().decode(words)


def _decoded(text: bytes) -> str:
    from json import detect_encoding

    coding = detect_encoding(text)
    try:
        return text.decode(coding, "surrogatepass")
    except UnicodeDecodeError:
        return text.decode(coding, "replace")


def _values(words: str) -> tuple[list[object], bool]:
    """The objects and arrays in `words`, whatever stands around them, and whether one of them breaks off;
    then those inside it are given. Raises Crowded when that takes too long."""
    decode = _decoder().raw_decode
    values: list[object] = []
    is_broken = False
    work = 8 * _DEEP_BYTES  # each of a thousand brackets may be followed to the end of the text
    place = _begin(words, 0)
    while place >= 0:
        try:
            content, end = decode(words, place)
            values.append(content)
        except ValueError as why:
            # A text without its closing quote was followed to the end, whatever the error says.
            is_open = "Unterminated" in str(why)
            work -= _FAILURE_WORK + (len(words) if is_open else getattr(why, "pos", len(words))) - place
            if work < 0:
                raise Crowded("too much that is nearly JSON") from None
            is_broken = True
            end = place + 1
        place = _begin(words, end)
    return values, is_broken


def _seems_to_list_hidden(words: str, choice: ToolFilter) -> bool:
    """Whether who reads broken JSON as far as it goes may find a list with a hidden tool in it."""
    if _LIST_BEGINS(words) is None:
        return False
    names = (found[1] for found in _SAYS_NAME(words))
    return any(choice.maybe_denial(_unescaped(name), False) is not None for name in names)


def _unescaped(name: str) -> str:
    try:
        return str(_decoder().decode(f'"{name}"'))
    except ValueError:
        return name


def _begin(words: str, start: int) -> int:
    """Where the next object or array may begin; -1 when none does."""
    found = _OPENING(words, start)
    return found.start() if found else -1


def _refuse_depth(text: bytes) -> None:
    """Raises Crowded for JSON deeper than a message may be: words never are, and JavaScript reads on."""
    if _begins_json(text) and nests_too_deep(text):
        raise Crowded("it nests too deep to look at")


@functools.cache
def _decoder() -> JSONDecoder:
    from json import JSONDecoder  # the only reader at hand that shows repeated names

    return JSONDecoder(object_pairs_hook=_Pairs, parse_int=str, parse_float=str)


USUAL_NAMES = frozenset({"content", "isError", "structuredContent", "_meta", "resultType"})
"""Whose members have no other names, that result lists no tools."""
_LIST_NAMES = INHERITED | {"tools"}
_SAMPLING = "sampling/createMessage"
_begins_json = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*[\[{]").match
_LIST_BEGINS = re.compile(r"""(?i)["']?tools["']?\s*+:\s*+[\[{]""").search
_SAYS_NAME = re.compile(r"""(?i)["']?name["']?\s*+:\s*+["']((?:[^"'\\]|\\.)*+)["']""", re.DOTALL).finditer
_OPENING = re.compile(r"""\[(?=\s*+["\[{\]0-9tfnNI-])|\{(?=\s*+["}])""").search
_FAILURE_WORK = 1_024  # json counts the lines before each error
_OPEN_BRACE = ord("{")
_OPEN_BRACKET = ord("[")
_DEEP_BYTES = 256 * 1024  # above this, a tree of the whole message would cost more than the look is worth
