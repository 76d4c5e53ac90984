"""A message passes only when no other reader could see something else in it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire import ambiguity
from penstock.wire.ambiguity import Ambiguous, NotAnObject, NotJson, check_text, folded, members, nests_deeper

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
_CLEAN_NAMES = st.sampled_from(
    [
        *ambiguity.RESERVED,
        "a",
        "B",
        "x-y",
        "Ünicode",
        "日本",
        "reason",
        "requestId",
        'quo"te',
        "back\\slash",
        "",
    ]
)
_OBJECTS = st.dictionaries(_CLEAN_NAMES, _VALUES, max_size=8)
_SEEDS = st.integers(0, 2**32)
_BLANKS = ["", " ", "\t ", "\r", "  \n "]


def _spelt(pairs: list[tuple[str, Any]], dice: Random) -> bytes:
    """An object with these members, in one of its many spellings."""
    parts = []
    for name, value in pairs:
        key = "".join(_escaped(char) if dice.random() < 0.3 else _plain(char) for char in name)
        text = json.dumps(value, ensure_ascii=dice.random() < 0.5)
        blank = dice.choices(_BLANKS, k=4) if dice.random() < 0.5 else [""] * 4
        parts.append(f'{blank[0]}"{key}"{blank[1]}:{blank[2]}{text}{blank[3]}')
    return ("{" + ",".join(parts) + "}").encode()


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _plain(char: str) -> str:
    return json.dumps(char, ensure_ascii=False)[1:-1]


@given(_OBJECTS, _SEEDS)
@settings(max_examples=100)
def test_a_clean_object_reads_as_json_reads_it(wanted: dict[str, Any], seed: int) -> None:
    raw = _spelt(list(wanted.items()), Random(seed))
    check_text(raw)
    found = members(raw)
    assert list(found) == list(json.loads(raw))
    assert {name: json.loads(bytes(value)) for name, value in found.items()} == json.loads(raw)
    assert all(bytes(value) in raw for value in found.values())


@given(_OBJECTS.filter(bool), _VALUES, _SEEDS)
@settings(max_examples=100)
def test_a_name_that_stands_twice_is_refused_in_any_spelling_and_place(
    clean: dict[str, Any], value: Any, seed: int
) -> None:
    dice = Random(seed)
    pairs = list(clean.items())
    pairs.insert(dice.randint(0, len(pairs)), (dice.choice(sorted(clean)), value))
    with pytest.raises(Ambiguous):
        members(_spelt(pairs, dice))


_DISGUISES = [
    lambda name: name.upper(),
    lambda name: name.title() if name[0] != "_" else name.upper(),
    lambda name: name + " ",
    lambda name: "\t" + name,
    lambda name: name + "\0",
    lambda name: name + "\0more",
    lambda name: name[:2] + "\u200b" + name[2:],
    lambda name: "\ufeff" + name,
    lambda name: "".join(chr(ord(char) + 0xFEE0) for char in name),
    lambda name: name[:1] + "\u00ad" + name[1:],
    lambda name: name + "\ufe0f",
    lambda name: name + "\u3000",
]


@pytest.mark.parametrize("disguise", range(len(_DISGUISES)))
@given(_OBJECTS, st.sampled_from(sorted(ambiguity.RESERVED)), _VALUES, _SEEDS)
@settings(max_examples=12)
def test_a_name_that_merely_looks_reserved_is_refused_even_alone(
    disguise: int, clean: dict[str, Any], name: str, value: Any, seed: int
) -> None:
    dice = Random(seed)
    clean.pop(name, None)
    pairs = list(clean.items())
    pairs.insert(dice.randint(0, len(pairs)), (_DISGUISES[disguise](name), value))
    with pytest.raises(Ambiguous):
        members(_spelt(pairs, dice))


@pytest.mark.parametrize(
    "name",
    [
        "param\u017f",
        "na\u1d50e",
        "ｎame",
        "\u212ard",
        "\u212aRD",
        "na me",
        "\x7fname",
        "n\x1eame\t",
        "na\ue000me",
    ],
)
def test_letters_that_some_reader_folds_are_folded(name: str) -> None:
    assert folded(name) in {"params", "name", "krd"}


@pytest.mark.parametrize("name", ["__proto__", "constructor", "__PROTO__", "prototype"])
def test_names_that_reach_into_a_readers_own_objects_are_refused(name: str) -> None:
    with pytest.raises(Ambiguous):
        members(b'{"name":"a","%b":{"name":"b"}}' % name.encode())


def test_what_lies_deeper_belongs_to_the_tool_and_passes() -> None:
    raw = b'{"name":"a","arguments":{"name":1,"name":2,"Name":3,"__proto__":4}}'
    assert bytes(members(raw)["arguments"]) == b'{"name":1,"name":2,"Name":3,"__proto__":4}'


def test_an_equal_value_does_not_hide_a_repeated_name() -> None:
    with pytest.raises(Ambiguous):
        members(b'{"a":1, "a":1}')
    with pytest.raises(Ambiguous):
        members(b'{"a":1,"a":1}')


@pytest.mark.parametrize("first", [b"12", b"1.5", b"1e9", b"10"])
@pytest.mark.parametrize("rest", [b"", b',"b":{},"b":[]', b',"Name":2'])
def test_a_number_that_begins_like_a_later_one_does_not_hide_a_repeated_name(
    first: bytes, rest: bytes
) -> None:
    for blank in (b"", b" "):
        with pytest.raises(Ambiguous):
            members(b'{"a":%b%b%b,"a":1}' % (first, blank, rest))


def test_large_objects_are_checked_as_small_ones_are() -> None:
    filler = b'"filler":"' + b"x" * 40_000 + b'"'
    assert list(members(b'{"name":1,' + filler + b',"b":2}')) == ["name", "filler", "b"]
    for twice in (b'{"name":1,%b,"name":2}', b'{"n\\u0061me":1,%b,"name":1}', b'{"name":1,"Name":2,%b}'):
        with pytest.raises(Ambiguous):
            members(twice % filler)


@pytest.mark.parametrize("half", [b"\\ud800", b"\\udc00", b"\\ud800\\ud800", b"\\uDBFFx", b"\\\\\\ud800"])
def test_a_lone_half_of_a_pair_is_json_and_passes_in_values(half: bytes) -> None:
    raw = b'{"name":"echo","arguments":{"a":"%b"}}' % half
    assert list(members(raw)) == ["name", "arguments"]


def test_a_lone_half_of_a_pair_in_a_name_hides_nothing() -> None:
    with pytest.raises(Ambiguous):
        members(b'{"name\\ud800":1}')


def test_two_names_that_differ_in_a_lone_half_only_are_refused() -> None:
    with pytest.raises(Ambiguous):
        members(b'{"a\\ud800":1,"a\\ud801":2}')


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b'{"a":1}{"b":2}',
        b'{"a":1} {"b":2}',
        b'{"a":1},{"b":2}',
        b'{"a":1}x',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":01}',
        b'{"a":0x10}',
        b'{"a":1.}',
        b'{"a":.5}',
        b'{"a":+1}',
        b'{"a":1,}',
        b"{'a':1}",
        b"{a:1}",
        b'{"a":1/**/}',
        b'{"a":"\x01"}',
        b'{"a":"\n"}',
        b'\xef\xbb\xbf{"a":1}',
        b'\0{"a":1}',
        b'{"a":"\\x41"}',
        b'{"a":"\\u12"}',
        b'{"a":tru}',
        '{"a":1}'.encode("utf-16-le"),
        '{"a":1}'.encode("utf-32-be"),
    ],
)
def test_what_is_not_strictly_json_is_refused(raw: bytes) -> None:
    with pytest.raises(NotJson):
        members(raw)


@pytest.mark.parametrize("raw", [b"[]", b"1", b'"{}"', b"null", b"true"])
def test_what_is_no_object_is_told_apart_from_what_is_no_json(raw: bytes) -> None:
    with pytest.raises(NotAnObject):
        members(raw)


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_bytes_that_are_not_utf8_are_refused_wherever_they_stand(
    bad: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for scan in (4, 7, 64 * 1024):
        monkeypatch.setattr(ambiguity, "_SCAN_BYTES", scan)
        for place in range(9):
            with pytest.raises(NotJson, match="UTF-8"):
                check_text(b'{"a":"' + b"x" * place + bad + b'yyyyyy"}')


def test_characters_cut_by_a_scan_border_are_whole_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ambiguity, "_SCAN_BYTES", 3)
    check_text('{"a":"日本語🎉é"}'.encode())


def _naive_depth(raw: bytes) -> int:
    deepest = depth = 0
    in_string = escaped = False
    for byte in raw.decode():
        if in_string:
            if escaped:
                escaped = False
            elif byte == "\\":
                escaped = True
            elif byte == '"':
                in_string = False
        elif byte == '"':
            in_string = True
        elif byte in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in "]}":
            depth -= 1
    return deepest


_TRICKY = st.text(st.sampled_from('[]{}"\\abc日'), max_size=12)
_NESTED = st.recursive(
    st.integers() | _TRICKY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TRICKY, inner, max_size=3),
    max_leaves=25,
)


@given(_NESTED, st.integers(0, 30), st.integers(1, 40), st.integers(8, 24), st.booleans())
@settings(max_examples=200)
def test_nesting_is_counted_as_a_naive_counter_counts_it(
    value: Any, wraps: int, scan: int, levels: int, is_ascii: bool
) -> None:
    raw = json.dumps(value, ensure_ascii=is_ascii).encode()
    raw = b"[1," * wraps + raw + b"]" * wraps
    original, ambiguity._SCAN_BYTES = ambiguity._SCAN_BYTES, scan
    try:
        assert nests_deeper(raw, levels) == (_naive_depth(raw) > levels)
    finally:
        ambiguity._SCAN_BYTES = original


@pytest.mark.parametrize("depth", [127, 128, 129, 1_000, 100_000])
@pytest.mark.parametrize("wide", [0, 50_000])
def test_the_limit_holds_at_any_width(depth: int, wide: int) -> None:
    raw = b"[" * (depth - 1) + b"[]" + b",[]" * wide + b"]" * (depth - 1)
    assert nests_deeper(raw, 128) == (depth > 128)


def test_brackets_that_never_close_are_too_deep() -> None:
    assert nests_deeper(b"[" * 50_000, 128)
