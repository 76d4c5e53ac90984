"""Whatever a client sends: for every parser behind, what goes up calls a tool of the catalog, or none."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

import hostile
from claims import NAMES, is_strict, readers_of, wrong_calls
from hostile import Choices, row_of
from memory_doors import DOORS, PipeDoor
from node_reader import maybe_node, node_reader
from penstock.errors import ClientProtocolError
from penstock.wire.json.ambiguity import folded
from penstock.wire.mcp.message import Batch, Kind, read_client_message
from penstock.wire.mcp.ndjson import LineSplitter, Oversize, to_line
from readers import LINE_READERS, calls

ROWS = st.binary(min_size=192, max_size=192)


def hostile_message(row: bytes, door: str) -> bytes:
    choose = Choices(row)
    choose.is_modern = door == "modern"
    return hostile.message(choose)


@pytest.mark.parametrize("door", DOORS)
@given(row=ROWS)
def test_what_goes_up_calls_only_what_is_in_the_catalog(door: str, row: bytes) -> None:
    raw = hostile_message(row, door)
    up, _ = DOORS[door]().take(raw)
    event("passed" if up else "stopped")
    for wire in up:
        assert not wrong_calls(wire, readers_of(door)), (raw, wire)
        assert is_strict(wire), (raw, wire)


@pytest.mark.node
@pytest.mark.skipif(maybe_node() is None, reason="there is no Node here")
@pytest.mark.parametrize("door", DOORS)
@given(row=ROWS)
def test_node_calls_only_what_is_in_the_catalog(door: str, row: bytes) -> None:
    for wire in DOORS[door]().take(hostile_message(row, door))[0]:
        assert not wrong_calls(wire, {"node": node_reader()})


@given(raw=st.binary(max_size=200))
@example(b"[1,2")
@example(b"\xef\xbb\xbf{}")
def test_bytes_of_any_kind_are_met_without_surprise(raw: bytes) -> None:
    for name, door in DOORS.items():
        up, _ = door().take(raw)
        for wire in up:
            assert not wrong_calls(wire, readers_of(name))


@given(row=ROWS)
def test_only_the_declared_refusal_comes_out_of_reading(row: bytes) -> None:
    raw = hostile.message(Choices(row))
    try:
        read = read_client_message(raw)
    except ClientProtocolError:
        return
    for part in read.parts if isinstance(read, Batch) else []:
        try:
            read_client_message(part)
        except ClientProtocolError:
            continue


@given(rows=st.lists(ROWS, min_size=1, max_size=4), cuts=st.lists(st.integers(0, 4000), max_size=8))
def test_a_stream_of_messages_is_cut_the_same_however_it_arrives(rows: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(hostile.message(Choices(row)) + b"\n" for row in rows)
    whole = _sent_up(stream, [])
    for wire in whole:
        assert not wrong_calls(wire, LINE_READERS), stream
    # A reader that takes the whole pipe for one text must not find more in it than one that takes lines.
    assert not wrong_calls(b"".join(whole), {"lines": LINE_READERS["str.splitlines"]}), stream
    assert _sent_up(stream, cuts) == whole
    assert _sent_up(stream, list(range(len(stream)))) == whole


def _sent_up(stream: bytes, cuts: list[int], keep: int = 1500) -> list[bytes]:
    door, lines = PipeDoor(), LineSplitter(keep, give_up=2 * keep)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    for start, end in itertools.pairwise(edges):
        for line in lines.feed(stream[start:end]):
            if not isinstance(line, Oversize):
                door.relay.from_client(line)
    return [to_line(raw) for raw in door.upstream.given]


# --- the other way round ------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
@given(row=ROWS)
def test_what_is_stopped_gets_one_answer_that_tells_nothing(door: str, row: bytes) -> None:
    raw = hostile_message(row, door)
    up, back = DOORS[door]().take(raw)
    said = b"".join(back)
    assert hostile.UNSPOKEN.encode() not in said
    assert b"Internal error" not in said, raw  # a fault of our own would be told so
    own_words = _unescaped(raw)
    for name in hostile.DENIED:
        assert name not in _unescaped(said) or name in own_words, (raw, said)
    if door == "pipe":
        _check_answers(raw, up, back)


def _check_answers(raw: bytes, up: list[bytes], back: list[bytes]) -> None:
    """A lone request goes up or is answered, once; nothing else is answered, but for what cannot be read."""
    try:
        message = read_client_message(raw)
    except ClientProtocolError:
        assert (up, len(back)) == ([], 1)
        assert json.loads(back[0])["error"]["code"] in (-32700, -32600)
        return
    if isinstance(message, Batch):
        return
    if message.kind is Kind.REQUEST and message.id_token != b"null":
        assert len(up) + len(back) == 1
    else:
        assert len(back) == 0 or (message.id_token == b"null" and len(back) == 1)


def _unescaped(raw: bytes) -> str:
    text = raw.replace(b"\0", b"").decode("utf-8", "replace")  # UTF-16 is not worth more than this
    text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), text)
    return text.replace("\\/", "/")


KEYS = st.text(max_size=8)
PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=20),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
TOKENS = st.one_of(
    st.integers().map(lambda number: b"%d" % number),
    st.text(max_size=12).map(lambda text: json.dumps(text).encode()),
    st.sampled_from([b"1.0", b"1e3", b"-0", b"123456789012345678901234567890"]),
)


def _names(value: object) -> Iterator[str]:
    """The names of members anywhere in `value`."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _names(inner)


@given(
    name=st.sampled_from(sorted(NAMES)),
    arguments=st.dictionaries(KEYS, PLAIN, max_size=4),
    token=TOKENS,
    is_ascii=st.booleans(),
    indent=st.sampled_from([None, 0, 2]),
    order=st.permutations(range(4)),
)
def test_an_ordinary_call_goes_up_byte_for_byte(
    name: str,
    arguments: dict[str, object],
    token: bytes,
    is_ascii: bool,
    indent: int | None,
    order: list[int],
) -> None:
    params = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=is_ascii, indent=indent)
    members = [b'"jsonrpc":"2.0"', b'"id":' + token, b'"method":"tools/call"', b'"params":' + _utf8(params)]
    raw = b"{" + b",".join(members[place] for place in order) + b"}"
    assert PipeDoor().take(raw) == ([to_line(raw)], [])
    # Toward HTTP line breaks stay, unless another member could be a method to somebody who reads lines.
    if "method" not in map(folded, _names(arguments)):
        assert DOORS["passthrough"]().take(raw)[0] == [raw]
    # On a pipe a line ends at LF and nowhere else.
    line = raw.replace(b"\n", b"\r")
    assert _sent_up(line + b"\n", [], keep=len(line)) == [to_line(line)]
    extra = b',"_meta":' + hostile.META % b""
    modern = raw.replace(b'"params":' + _utf8(params), b'"params":' + _utf8(params)[:-1] + extra + b"}")
    up, back = DOORS["modern"]().take(modern)
    assert not back
    # On a shared link the id is ours; nothing else changes.
    assert up == [to_line(modern.replace(b'"id":' + token, b'"id":1', 1))]


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace").replace(b"\\ud", b"\\ud")


@given(row=ROWS)
def test_a_shared_link_changes_the_numbers_and_nothing_else(row: bytes) -> None:
    raw = hostile_message(row, "modern")
    for wire in DOORS["modern"]().take(raw)[0]:
        was, now = (
            json.loads(text, object_pairs_hook=tuple, parse_float=str, parse_int=str) for text in (raw, wire)
        )
        _check_renumbered(was, now)


def _check_renumbered(was: tuple[tuple[str, Any], ...], now: tuple[tuple[str, Any], ...]) -> None:
    assert [name for name, _ in was] == [name for name, _ in now]
    for (name, before), (_, after) in zip(was, now, strict=True):
        if name in ("params", "_meta") and isinstance(before, tuple):
            _check_renumbered(before, after)
        elif name in ("id", "progressToken"):
            assert after in (before, "1")
        else:
            assert after == before


def test_without_a_gate_many_of_these_messages_would_get_through() -> None:
    """The generator and the readers see what they are meant to see, and much of it is not refused either."""
    messages = [hostile.message(Choices(row_of(seed))) for seed in range(600)]
    for which, read in LINE_READERS.items():
        running = sum(
            any(name in hostile.DENIED for value in read(raw) for name in calls(value)) for raw in messages
        )
        assert running >= 20, which
    only_some = 0
    for raw in messages:
        verdicts = {
            any(name in hostile.DENIED for value in read(raw) for name in calls(value))
            for read in LINE_READERS.values()
        }
        only_some += len(verdicts) == 2
    assert only_some >= 60  # two readers disagree
    assert sum(bool(PipeDoor().take(raw)[0]) for raw in messages) >= 60
