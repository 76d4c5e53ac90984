"""Lines do not depend on how the bytes arrive, and no line holds more than its cap."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.mcp.ndjson import LineSplitter, Oversize, to_line

KEEP, GIVE_UP = 40, 100


def _chunks(data: bytes, borders: list[int]) -> list[bytes]:
    cuts = [0, *sorted(border % (len(data) + 1) for border in borders), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(cuts)]


def _told(splitter: LineSplitter, chunks: list[bytes]) -> list[object]:
    """What a reader is told: lines, and for each line too long its size, once it is known."""
    out: list[object] = []
    for chunk in chunks:
        for line in splitter.feed(chunk):
            if isinstance(line, bytes):
                out.append(line)
            elif line.is_ended:
                if not line.was_given_up:
                    out.append(("too long", line.size, line.head, line.tail))
            else:
                out.append("given up")
    return out


def _wanted(data: bytes) -> list[object]:
    out: list[object] = []
    *lines, _ = data.split(b"\n")
    for line in lines:
        if len(line) > KEEP:
            if len(line) <= GIVE_UP:
                out.append(("too long", len(line), line[:1024], line[-1024:]))
        elif line.strip(b" \t\r\n\0"):
            out.append(line.removesuffix(b"\r"))
    return out


_LINES = st.lists(
    st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"")) | st.just(b"  ") | st.just(b"a\r"),
    max_size=8,
)


@given(_LINES, st.lists(st.integers(0, 10_000), max_size=30))
@settings(max_examples=300)
def test_lines_do_not_depend_on_how_the_bytes_arrive(lines: list[bytes], borders: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines) + b"tail"
    wanted = _wanted(data)
    assert _told(LineSplitter(KEEP, GIVE_UP), [data]) == wanted
    assert _told(LineSplitter(KEEP, GIVE_UP), [data[i : i + 1] for i in range(len(data))]) == wanted
    assert _told(LineSplitter(KEEP, GIVE_UP), _chunks(data, borders)) == wanted


@given(st.integers(1, 300), st.lists(st.integers(0, 400), max_size=8))
@settings(max_examples=300)
def test_no_line_that_is_too_long_goes_unmentioned(size: int, borders: list[int]) -> None:
    line = b"x" * size
    told = _told(LineSplitter(KEEP, GIVE_UP), _chunks(line + b"\nafter\n", borders))
    assert told[-1] == b"after"
    assert told[:-1] == [line] if size <= KEEP else len(told) >= 2
    assert line in told or size > KEEP


def test_a_line_that_does_not_end_is_given_up_once_and_the_next_one_is_whole() -> None:
    splitter = LineSplitter(KEEP, GIVE_UP)
    told = _told(splitter, [b"x" * 30] * 10 + [b"\nnext\n"])
    assert told.count("given up") == 1
    assert told[-1] == b"next"


def test_only_a_line_feed_ends_a_line() -> None:
    inside = '{"a":"\u2028\u2029\x85\x1e\x0b\x0c\r"}'.encode()
    assert LineSplitter().feed(inside + b"\n") == [inside]


def test_a_carriage_return_before_the_end_belongs_to_the_line_end() -> None:
    assert LineSplitter().feed(b'{"a":\r1}\r\n{"b":2}\r\n') == [b'{"a":\r1}', b'{"b":2}']


def test_blank_lines_and_nul_bytes_are_skipped() -> None:
    assert LineSplitter().feed(b"\n \n\t\r\n\0\0\n{}\n") == [b"{}"]


@pytest.mark.parametrize("piece", [2, 7, 4096])
def test_a_line_in_crumbs_costs_no_more_memory_than_its_bytes(piece: int) -> None:
    keep = 64 * 1024
    crumb = bytes(range(65, 65 + min(piece, 26))) * (piece // min(piece, 26))
    splitter = LineSplitter(keep, 4 * keep)
    tracemalloc.start()
    try:
        for _ in range(keep // len(crumb) - 1):
            splitter.feed(bytes(bytearray(crumb)))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.5 * keep
    assert peak < 3 * keep


def test_past_its_cap_a_line_holds_only_its_edges() -> None:
    keep = 64 * 1024
    splitter = LineSplitter(keep, 100 * keep)
    tracemalloc.start()
    try:
        for _ in range(50):
            splitter.feed(b"x" * keep)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < keep // 4


@pytest.mark.parametrize(
    ("head", "tail", "token"),
    [
        (b'{"jsonrpc":"2.0","id":12,"result":{', b'"}}', b"12"),
        (b'{ "id" : "a\\"b" , "jsonrpc"', b'"}}', b'"a\\"b"'),
        (b'{"jsonrpc":"2.0","method":"tools/call","id":1.0,"params":', b"}}", b"1.0"),
        (b'{"result":{"x":"', b'"},"jsonrpc":"2.0","id":9}', b"9"),
        (b'{"params":{"id":1,', b'"id":1}}', None),
        (b'{"result":{"id":5,', b'{"jsonrpc":"2.0","id":5}}', None),
        (b'{"jsonrpc":"2.0","id":{"id":3,', b"}}", None),
        (b'{"jsonrpc":"2.0","id":01,"params":', b"}}", None),
        (b'{"jsonrpc":"2.0","id":"\x01","params":', b"}}", None),
        (b'{"jsonrpc":"2.0","id":"\xff","params":', b"}}", None),
    ],
)
def test_the_id_of_a_line_too_long_is_found_at_its_edges(
    head: bytes, tail: bytes, token: bytes | None
) -> None:
    assert Oversize(99, head, tail, True).id_token == token


def test_a_line_that_was_given_up_is_reported_again_only_when_its_end_tells_its_id() -> None:
    splitter = LineSplitter(KEEP, GIVE_UP)
    found = splitter.feed(b'{"result":"' + b"x" * 200) + splitter.feed(b'","jsonrpc":"2.0","id":4}\n')
    assert [(line.is_ended, line.id_token) for line in found if isinstance(line, Oversize)] == [
        (False, None),
        (True, b"4"),
    ]
    found = splitter.feed(b'{"id":4,"result":"' + b"x" * 200) + splitter.feed(b'"}\n')
    assert [(line.is_ended, line.id_token) for line in found if isinstance(line, Oversize)] == [
        (False, b"4"),
        (True, None),
    ]


@given(st.integers(KEEP + 1, 90), st.lists(st.integers(0, 400), max_size=20))
@settings(max_examples=200)
def test_the_edges_do_not_depend_on_how_the_bytes_arrive(size: int, borders: list[int]) -> None:
    line = bytes(33 + i % 90 for i in range(size))
    for chunks in (_chunks(line + b"\n", borders), [line[i : i + 1] for i in range(size)] + [b"\n"]):
        assert _told(LineSplitter(KEEP, GIVE_UP), chunks) == [("too long", size, line, line)]


def test_a_line_break_inside_a_message_becomes_a_blank() -> None:
    assert to_line(b'{"a":\r\n1}') == b'{"a":  1}\n'
    assert to_line(b'{"a":1}') == b'{"a":1}\n'


@pytest.mark.parametrize(
    ("raw", "line"),
    [(b'{"a":\n1}', b'{"a": 1}\n'), (b'{"a":\r1}', b'{"a": 1}\n'), (b"\r\n{}\n", b"  {} \n"), (b"", b"\n")],
)
def test_no_break_of_any_kind_is_left_inside_a_line(raw: bytes, line: bytes) -> None:
    assert to_line(raw) == line


@pytest.mark.parametrize("step", [1, 100, 1023, 1024, 1025, 2500, 5000, 9000])
def test_of_a_line_too_long_a_kilobyte_at_each_end_is_kept(step: int) -> None:
    line = b"".join(b"%04d" % number for number in range(2_000))
    data = b"{}\n" + line + b"\n" + line + b"\n{}\n"
    splitter = LineSplitter(3_000, 100_000)
    out = [line for at in range(0, len(data), step) for line in splitter.feed(data[at : at + step])]
    wanted = Oversize(len(line), line[:1024], line[-1024:], True)
    assert out == [b"{}", wanted, wanted, b"{}"]


@pytest.mark.parametrize("last", [1, 1_000, 1_023, 1_024, 1_025, 1_500, 2_047, 2_048, 2_500])
def test_the_piece_that_makes_a_line_too_long_may_be_its_last(last: int) -> None:
    line = b"".join(b"%04d" % number for number in range((3_000 + last) // 4 + 1))[: 3_000 + last]
    splitter = LineSplitter(3_000, 100_000)
    assert splitter.feed(line[:3_000]) == []
    assert splitter.feed(line[3_000:] + b"\n") == [Oversize(len(line), line[:1024], line[-1024:], True)]


def test_a_line_that_gets_too_long_is_not_copied() -> None:
    keep = 1024 * 1024
    splitter = LineSplitter(keep, 4 * keep)
    tracemalloc.start()
    try:
        for _ in range(17):
            splitter.feed(b"x" * (keep // 16))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.6 * keep


@pytest.mark.parametrize("step", [7, 50, 2_000])
def test_a_line_is_given_up_only_past_the_second_limit(step: int) -> None:
    for size, is_given_up in ((100, False), (101, True)):
        splitter = LineSplitter(KEEP, GIVE_UP)
        line = b"x" * size
        out = [told for at in range(0, size, step) for told in splitter.feed(line[at : at + step])]
        assert [(told.is_ended, told.size) for told in out if isinstance(told, Oversize)] == (
            [(False, size)] if is_given_up else []
        )


def test_a_line_of_exactly_the_limit_is_kept() -> None:
    for chunks in ([b"x" * KEEP + b"\n"], [b"x" * KEEP, b"\n"], [b"\n" + b"x" * KEEP + b"\n"]):
        assert _told(LineSplitter(KEEP, GIVE_UP), chunks) == [b"x" * KEEP]


def test_letters_are_no_blanks() -> None:
    assert LineSplitter().feed(b"X\nXX\n\0X\n") == [b"X", b"XX", b"\0X"]


def test_one_long_line_leaves_nothing_in_the_next() -> None:
    splitter = LineSplitter(KEEP, GIVE_UP)
    first, second = b"a" * 60, b"b" * 70
    for line in (first, second):
        assert _told(splitter, [line[:30], line[30:], b"\n"]) == [("too long", len(line), line, line)]


def test_an_end_that_was_not_seen_tells_no_id() -> None:
    tail = b'"jsonrpc":"2.0","id":4}'
    assert Oversize(99, b"XX", tail, False).id_token is None
    assert Oversize(99, b'{"id":4,"x":1', b"XX", True, True).id_token is None


def test_a_whole_line_that_follows_a_piece_does_not_push_it_out() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b'{"a":') == []
    assert splitter.feed(b'{"b":1}\n') == [b'{"a":{"b":1}']
    assert splitter.feed(b'{"c":1}\n') == [b'{"c":1}']


def test_lines_that_look_whole_are_measured_too() -> None:
    fits, too_long = b'{"a":12}', b'{"a":123}'
    for lines in ([fits], [too_long], [fits, too_long], [too_long, fits], [fits, fits, too_long]):
        told = LineSplitter(len(fits), 100).feed(b"".join(line + b"\n" for line in lines))
        assert [line if isinstance(line, bytes) else (line.size, line.head) for line in told] == [
            line if line == fits else (len(too_long), too_long) for line in lines
        ]


@pytest.mark.parametrize("line", [b'{"a":1}\r', b'"a":1}\r', b"{\r", b"}\r", b"x}\r", b"{x\r", b"\0{}\r"])
def test_what_ends_in_a_carriage_return_is_not_taken_as_it_is(line: bytes) -> None:
    assert LineSplitter().feed(line + b"\n") == [line[:-1]]
    assert LineSplitter().feed(b"{}\n" + line + b"\n") == [b"{}", line[:-1]]


@pytest.mark.parametrize("line", [b"}", b"{", b"x}", b"{x", b"[]", b'"a"', b"{}", b"{1}"])
def test_what_is_no_object_comes_out_as_it_is(line: bytes) -> None:
    assert LineSplitter().feed(line + b"\n") == [line]
    assert LineSplitter().feed(b"{}\n" + line + b"\n{}\n") == [b"{}", line, b"{}"]


def test_a_long_line_is_kept_once() -> None:
    line = b'{"a":"%b"}' % (b"x" * 4_000_000)
    pieces = [(line + b"\n")[at : at + 65_536] for at in range(0, len(line) + 1, 65_536)]
    splitter = LineSplitter()
    tracemalloc.start()
    found = [whole for piece in pieces for whole in splitter.feed(piece)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [line]
    assert peak < 1.5 * len(line)
