"""Depth is counted to the level, and never too low."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.json import nesting
from penstock.wire.json.ambiguity import NotAnArray, NotAnObject, NotJson, check_text, elements, members
from penstock.wire.json.nesting import left_open, nests_deeper, unescaped_marks


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
    original, nesting._SCAN_BYTES = nesting._SCAN_BYTES, scan
    try:
        assert nests_deeper(raw, levels) == (_naive_depth(raw) > levels)
    finally:
        nesting._SCAN_BYTES = original


@pytest.mark.parametrize("depth", [127, 128, 129, 1_000, 100_000])
@pytest.mark.parametrize("wide", [0, 50_000])
def test_the_limit_holds_at_any_width(depth: int, wide: int) -> None:
    raw = b"[" * (depth - 1) + b"[]" + b",[]" * wide + b"]" * (depth - 1)
    assert nests_deeper(raw, 128) == (depth > 128)


@pytest.mark.parametrize(
    "runs",
    [
        (100, 100),
        (100, 50, 78, 128),
        (100, 99, 100, 101),
        (100, 50, 50, 50, 78, 128),
        (30, 20, 90, 60, 88, 128),
        (128, 127, 20, 21),
        (20, 10, 118, 120, 30, 38),
    ],
)
@pytest.mark.parametrize("tail", [b"", b",[]" * 3])
def test_depth_is_exact_however_it_goes_up_and_down_before(runs: tuple[int, ...], tail: bytes) -> None:
    """Long runs, which are counted by the run."""
    raw = b"".join(b"[]"[place % 2 : place % 2 + 1] * run for place, run in enumerate(runs))
    raw = b"[%b%b]" % (raw, tail)
    deepest = _naive_depth(raw)
    assert not nests_deeper(raw, deepest)
    assert nests_deeper(raw, deepest - 1)


def test_brackets_that_never_close_are_too_deep() -> None:
    assert nests_deeper(b"[" * 50_000, 128)


_LEAVES = [
    b'""',
    b'"X"',
    b'"]"',
    b'"[[["',
    b'"\\\\"',
    b'"\\""',
    b'"\\\\\\"["',
    b'"{\\\\"',
    b"1",
    b"[]",
    b"{}",
]


def _nest(dice: Random, depth: int) -> bytes:
    """A value that is just so deep."""
    if not depth:
        return dice.choice(_LEAVES[:-2])
    inner = [_nest(dice, depth - 1), dice.choice(_LEAVES if depth > 1 else _LEAVES[:-2])]
    dice.shuffle(inner)
    if dice.random() < 0.5:
        return b"[" + b",".join(inner) + b"]"
    return b'{"a\\"[":%b,"}":%b}' % tuple(inner)


@pytest.mark.parametrize("scan", [1, 2, 3, 5, 8, 64, 64 * 1024])
def test_nesting_is_counted_to_the_level_wherever_slices_end(
    scan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nesting, "_SCAN_BYTES", scan)
    dice = Random(scan)
    for depth in (1, 2, 3, 7, 8, 9, 10, 12, 20):
        for _ in range(6):
            raw = _nest(dice, depth)
            assert _naive_depth(raw) == depth
            assert not nests_deeper(raw, depth)
            assert nests_deeper(raw, depth - 1)


@pytest.mark.parametrize("surplus", [1, 2, 5_000])
@pytest.mark.parametrize("depth", [100, 128, 129, 1_000, 5_000])
def test_closing_more_than_was_opened_hides_no_depth(depth: int, surplus: int) -> None:
    """Found by fuzzing: it was taken for no JSON at once, and the decoder had no stack left to notice."""
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        raw = opening * depth + b"1" + closing * (depth + surplus)
        assert nests_deeper(raw, 128) == (depth > 128)
        assert nests_deeper(b"[" + raw, 128) == (depth > 127)
        if depth > 128:
            with pytest.raises(NotJson, match="128 levels"):
                check_text(raw)
        else:
            for read in (members, elements):
                with pytest.raises((NotJson, NotAnObject, NotAnArray)):
                    read(raw)


@pytest.mark.parametrize("scan", [1, 3, 16, 64 * 1024])
def test_depth_is_counted_up_to_where_text_stops_being_json(
    scan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nesting, "_SCAN_BYTES", scan)
    for depth in (127, 128, 129):
        for tail in (b"]", b"]]]", b"]}[", b'"', b"\\", b"x", b"]" * 200):
            assert nests_deeper(b"[" * depth + b"]" * depth + tail, 128) == (depth > 128)


def test_depth_goes_on_from_slice_to_slice_where_text_stops_being_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nesting, "_SCAN_BYTES", 400)
    for more, is_deeper in ((28, False), (29, True)):
        text = b" " * 300 + b"[" * 100 + b"[" * more + b"]" * 200
        assert nests_deeper(text, 128) is is_deeper


def test_brackets_are_counted_also_after_a_slice_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "_SCAN_BYTES", 400)
    assert not nests_deeper(b'"%b"' % (b"[" * 500), 128)
    assert nests_deeper(b" " * 400 + b"[" * 129 + b"]" * 129, 128)


@given(st.lists(st.sampled_from([b"[", b"]"]), max_size=60), st.integers(1, 6))
def test_depth_is_what_counting_one_by_one_says(brackets: list[bytes], levels: int) -> None:
    text = b"".join(brackets)
    closed = text.count(b"]") - text.count(b"[")
    text = b"[" * max(0, closed) + text + b"]" * max(0, -closed)
    depths = list(itertools.accumulate(1 if byte == 0x5B else -1 for byte in text))
    if min(depths, default=0) >= 0:
        assert nests_deeper(text, levels) is (max(depths, default=0) > levels)


_PIECES = [
    *(b"[", b"]", b"{", b"}", b'"', b"\\", b'\\"', b"\\\\", b"\\n", b"\\u0041", b",", b":", b"1"),
    *(b"[[", b"]]", b'""', b'"a"', b'"["', b'"]"', b'"}{"', b'"a":', b"x", b"\xc3\xa9"),
]


def _depth_before_the_fault(raw: bytes) -> int:
    """How deep a decoder gets that reads from the front and stops where the text is no JSON any more."""
    text = raw.decode()
    try:
        json.loads(text)
    except json.JSONDecodeError as why:
        text = text[: why.pos]
    return _naive_depth(text.encode())


@given(st.lists(st.sampled_from(_PIECES), max_size=60), st.integers(1, 9), st.integers(0, 6))
@settings(max_examples=1_500)
def test_of_any_text_at_least_as_many_levels_are_counted_as_a_decoder_sees(
    pieces: list[bytes], scan: int, levels: int
) -> None:
    raw = b"[" * levels + b"".join(pieces)
    original, nesting._SCAN_BYTES = nesting._SCAN_BYTES, scan
    try:
        for text in (raw, memoryview(raw)):
            if _depth_before_the_fault(raw) > levels:
                assert nests_deeper(text, levels)
    finally:
        nesting._SCAN_BYTES = original


_STRINGS = st.lists(st.sampled_from([*"[]{}abn/u", '"', "\\", "\n", "é", "", "[["]), max_size=6).map("".join)
_DENSE = st.recursive(
    st.integers(0, 9) | _STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_STRINGS, inner, max_size=4),
    max_leaves=40,
)


@given(_DENSE, st.sampled_from([1, 2, 3, 4, 5, 7, 11, 16, 29, 64]), st.booleans(), st.booleans())
@settings(max_examples=1_500)
def test_the_level_is_the_same_wherever_slices_end_and_whatever_strings_hold(
    value: Any, scan: int, is_ascii: bool, is_compact: bool
) -> None:
    separators = (",", ":") if is_compact else None
    raw = json.dumps(value, ensure_ascii=is_ascii, separators=separators).encode()
    deepest = _naive_depth(raw)
    original, nesting._SCAN_BYTES = nesting._SCAN_BYTES, scan
    try:
        for text in (raw, memoryview(raw)):
            assert not nests_deeper(text, deepest)
            assert not deepest or nests_deeper(text, deepest - 1)
    finally:
        nesting._SCAN_BYTES = original


def never(*_: Any) -> Any:
    raise AssertionError("It was looked at more closely than it had to be.")


@pytest.mark.parametrize("size", [4_096, 4_097, 100_000])
@pytest.mark.parametrize("bracket", [b"[", b"{"])
def test_as_many_brackets_as_there_may_be_levels_are_let_pass_unlooked_at(
    size: int, bracket: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count, is_deeper in ((129, True), (128, False)):
        if not is_deeper:
            monkeypatch.setattr(nesting, "_outside_strings", never)
        text = (bracket * count).ljust(size)
        assert nests_deeper(text, 128) is is_deeper
        both = (b"[" * (count // 2) + b"{" * (count - count // 2)).rjust(size)
        assert nests_deeper(both, 128) is is_deeper


def test_slices_of_a_view_are_looked_at_and_the_whole_is_not_copied() -> None:
    raw = b"[%b[]]" % (b'{"a":["b","]"]},' * 100_000)
    view = memoryview(raw)
    tracemalloc.start()
    assert not nests_deeper(view, 128)
    assert not nests_deeper(raw, 128)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1024 * 1024


def _naively_left_open(brackets: bytes, depth: int, levels: int) -> tuple[int, bytes] | None:
    closed, opened = 0, b""
    for at in range(len(brackets)):
        bracket = brackets[at : at + 1]
        if bracket in b"[{":
            opened += bracket
        elif opened:
            opened = opened[:-1]
        else:
            closed += 1
        if closed > depth or depth - closed + len(opened) > levels:
            return None
    return closed, opened


def _check_left_open(brackets: bytes, depth: int, levels: int) -> None:
    found = left_open(brackets, depth, levels)
    assert found == _naively_left_open(brackets, depth, levels), (brackets, depth, levels)


def test_what_a_fragment_leaves_open_is_what_counting_one_by_one_says() -> None:
    for size, kinds in ((9, b"[]"), (6, b"[]{}")):
        for brackets in itertools.product(kinds, repeat=size):
            for depth, levels in ((0, 2), (1, 1), (2, 3), (3, 9)):
                _check_left_open(bytes(brackets), depth, levels)


@pytest.mark.parametrize("wide", [0, 3, 40])
def test_what_nests_in_a_fragment_is_counted_to_the_level_however_deep_and_wide(wide: int) -> None:
    dice = Random(wide)
    for deepest in range(1, 34):
        nest = b""
        for _ in range(deepest):
            ends = dice.choice([(b"[", b"]"), (b"{", b"}")])
            nest = ends[0] + nest + b"[]" * dice.randint(0, wide) + ends[1]
        for ends in ((b"", b""), (b"}]", b""), (b"", b"[{"), (b"]", b"{[{")):
            brackets = ends[0] + nest + ends[1]
            for levels in range(max(2, deepest), deepest + 6):
                _check_left_open(brackets, 2, levels)


def test_marks_are_found_outside_strings_and_none_in_an_escape() -> None:
    pieces = (b"[", b"}", b'"', b"a", b'\\"', b"\\\\", b"\\n")
    for chosen in itertools.product(pieces, repeat=5):
        for began in (False, True):
            in_string, marks = began, b""
            for piece in chosen:
                if piece == b'"':
                    in_string = not in_string
                elif not in_string and piece[:1] == b"\\":
                    break  # no JSON: a backslash stands only in strings
                elif not in_string and piece != b"a":
                    marks += piece
            else:
                assert unescaped_marks(b"".join(chosen), began) == (marks, in_string), (chosen, began)


@pytest.mark.parametrize(
    ("brackets", "depth", "bound"),
    [
        (b"[]", 4, 8),  # peeled in two turns, each of which may be two levels
        (b"[{}]", 4, 10),
        (b"[{", 4, 8),
        (b"]", 4, 6),
        (b"][", 4, 6),
        (b"]]{[{", 4, 7),
    ],
)
def test_levels_in_a_fragment_are_counted_one_by_one_only_near_the_limit(
    brackets: bytes, depth: int, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(nesting, "_peak", never)
        assert left_open(brackets, depth, bound) == _naively_left_open(brackets, depth, bound)
        with pytest.raises(AssertionError):
            left_open(brackets, depth, bound - 1)
    _check_left_open(brackets, depth, bound - 1)


def test_a_fragment_that_ends_too_deep_is_refused_without_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "_peak", never)
    for brackets, depth in ((b"[[[", 4), (b"][[[[", 4), (b"[" * 7, 0)):
        assert left_open(brackets, depth, 6) is None


def _tree(levels: int) -> bytes:
    """Of which the innermost level is half."""
    return b"[%b]" % (2 * _tree(levels - 1)) if levels else b""


def _chain(levels: int, leaves: int) -> bytes:
    return b"[" * levels + b"[]" * leaves + b"]" * levels


@pytest.mark.parametrize(
    ("nest", "left", "left_in_a_fragment"),
    [
        (_tree(5), b"", b""),
        (_tree(11), _tree(3), _tree(3)),  # eight levels are peeled, and no more
        (_chain(40, 1), _chain(39, 1), _chain(39, 1)),  # each level takes away too little
        (_chain(88, 12), _chain(87, 1), _chain(87, 1)),  # 24 of 200 are less than an eighth
        (_chain(84, 12), _chain(82, 1), _chain(83, 1)),  # and of 192 they are just that
    ],
)
def test_levels_are_peeled_as_long_as_that_takes_away_much(
    nest: bytes, left: bytes, left_in_a_fragment: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is counted by its runs."""
    seen: list[bytes] = []

    class Runs:
        def findall(self, left: bytes) -> list[bytes]:
            seen.append(left)
            return []

    monkeypatch.setattr(nesting, "_RUN", Runs())
    monkeypatch.setattr(nesting, "_TYPED_RUN", Runs())
    nesting._peak(nest, 0, 0)
    left_open(nest, 3, 999)
    left_open(nest.replace(b"[]", b"{}"), 3, 999)
    assert seen[:2] == [left, left_in_a_fragment]
    assert len(seen[2]) <= len(left_in_a_fragment)  # where kinds take turns, two levels may go at once


def test_a_slice_is_looked_at_in_one_go_and_is_as_large_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    slices: list[int] = []
    outside_strings = nesting._outside_strings

    def noted(marks: bytes, in_string: bool) -> tuple[bytes, bool]:
        slices.append(len(marks))
        return outside_strings(marks, in_string)

    monkeypatch.setattr(nesting, "_outside_strings", noted)
    assert not nests_deeper(memoryview(b"[]" * 70_000), 128)
    assert slices == [65_536, 65_536, 8_928]


class _Searched(bytes):
    """A text that is searched and not counted."""

    def count(self, *_: Any) -> int:
        return never()  # type: ignore[no-any-return]


class _Counted(bytes):
    """A text that is counted and not searched."""

    def find(self, *_: Any) -> int:
        return never()  # type: ignore[no-any-return]


def test_brackets_are_counted_in_short_texts_and_searched_for_in_long_ones() -> None:
    assert not nests_deeper(_Counted(b"[]".ljust(4_096)), 128)
    assert not nests_deeper(_Searched(b"[]".ljust(4_097)), 128)
