"""Large results in their plainest form, read in one pass and without a copy.

What makes a result large is nearly always one string in one block of content (a file, an image, JSON as
text), or structuredContent. The decoder's one pass shows which values are strings, and a string cannot nest
whatever brackets it has in it. So only values that are neither strings nor numbers are looked through for
their depth, as slices of the message.

That nothing is hidden between the values is told by the length, as for small messages (fast_path.py): the
members that were found, in their shortest spelling, make up the whole message to the byte. Whatever is not of
this form is not refused here, but read strictly in wire/mcp/message.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from penstock import limits
from penstock.wire.json.ambiguity import is_utf8
from penstock.wire.json.nesting import nests_deeper

_ABSENT = Raw(b"")
_STARTS_OF_SCALARS = b'"-0123456789tfn'


class _Block(Struct, forbid_unknown_fields=True, gc=False):
    """One block of content, of any kind that the protocol has."""

    type: Raw = _ABSENT
    text: Raw = _ABSENT
    data: Raw = _ABSENT
    mime: Raw = msgspec.field(name="mimeType", default=_ABSENT)
    annotations: Raw = _ABSENT
    meta: Raw = msgspec.field(name="_meta", default=_ABSENT)
    resource: Raw = _ABSENT
    uri: Raw = _ABSENT
    name: Raw = _ABSENT
    title: Raw = _ABSENT
    description: Raw = _ABSENT
    size: Raw = _ABSENT


class _BlockBody(Struct, forbid_unknown_fields=True, gc=False):
    """A result with one block: a table of very many could take seventeen times the message."""

    content: tuple[_Block]
    structured: Raw = msgspec.field(name="structuredContent", default=_ABSENT)
    is_error: Raw = msgspec.field(name="isError", default=_ABSENT)
    kind: Raw = msgspec.field(name="resultType", default=_ABSENT)
    meta: Raw = msgspec.field(name="_meta", default=_ABSENT)


class _BlockResult(Struct, forbid_unknown_fields=True, gc=False):
    jsonrpc: Literal["2.0"]
    id: Raw
    result: _BlockBody


class _Body(Struct, forbid_unknown_fields=True, gc=False):
    """What other large results have, by name, for the same reason."""

    content: Raw = _ABSENT
    structured: Raw = msgspec.field(name="structuredContent", default=_ABSENT)
    is_error: Raw = msgspec.field(name="isError", default=_ABSENT)
    kind: Raw = msgspec.field(name="resultType", default=_ABSENT)
    meta: Raw = msgspec.field(name="_meta", default=_ABSENT)
    contents: Raw = _ABSENT
    messages: Raw = _ABSENT
    ttl: Raw = msgspec.field(name="ttlMs", default=_ABSENT)
    scope: Raw = msgspec.field(name="cacheScope", default=_ABSENT)


class _Result(Struct, forbid_unknown_fields=True, gc=False):
    jsonrpc: Literal["2.0"]
    id: Raw
    result: _Body


_decode_block = msgspec.json.Decoder(_BlockResult).decode
_decode = msgspec.json.Decoder(_Result).decode
# Before anybody has counted, a decoder can run out of stack. That decides nothing: it is counted then.
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_RESULT_BYTES = len(b'{"jsonrpc":"2.0","id":,"result":{}}')
_CONTENT_BYTES = len(b'"content":[{}]')
_MEMBER_BYTES = len(b'"":')
_BODY_LEVELS = limits.NESTING - 2  # what a value in the result may have, within the message and the result
_BLOCK_LEVELS = limits.NESTING - 4  # and one in a block: within the content and the block as well


class LargeResult(Struct, frozen=True, gc=False):
    """What reading such a message has told: its id, and the names of the members of its result."""

    id: Raw
    names: list[str]


def maybe_large_result(raw: bytes) -> LargeResult | None:
    """The result in `raw`, if it is plain, UTF-8 and not too deep."""
    if not raw.isascii() and not is_utf8(raw):
        return None
    answer: _BlockResult | _Result
    try:
        answer = _decode_block(raw)
    except _FAILURES:
        try:
            answer = _decode(raw)
        except _FAILURES:
            return None
    body = answer.result
    found = list(_members(body))
    names = [name for name, _ in found]
    size = _RESULT_BYTES + len(memoryview(answer.id)) + _spelt_bytes(found)
    if isinstance(body, _BlockBody):
        block = list(_members(body.content[0]))
        size += _CONTENT_BYTES + _spelt_bytes(block) + bool(names)
        names.append("content")
        if _nest_deeper(block, _BLOCK_LEVELS):
            return None
    if size != len(raw) or _nest_deeper(found, _BODY_LEVELS):
        return None
    return LargeResult(answer.id, names)


def _members(holder: Struct) -> Iterator[tuple[str, memoryview]]:
    """The members that are there and were not taken apart."""
    for name, field in zip(holder.__struct_encode_fields__, holder.__struct_fields__, strict=True):
        value = getattr(holder, field)
        if value is not _ABSENT and isinstance(value, Raw):
            yield name, memoryview(value)


def _spelt_bytes(members: list[tuple[str, memoryview]]) -> int:
    """How long these members are in their shortest spelling, with the commas between them."""
    return sum(_MEMBER_BYTES + len(name) + len(value) for name, value in members) + max(0, len(members) - 1)


def _nest_deeper(members: list[tuple[str, memoryview]], levels: int) -> bool:
    return any(
        value[0] not in _STARTS_OF_SCALARS and nests_deeper(value, levels)
        for _, value in members
        if len(value) > 2 * levels  # what is opened is closed: so short a value cannot nest so deep
    )
