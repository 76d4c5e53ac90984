"""The short ways of reading an event: which events they take, and that those mean the same the long way."""

from __future__ import annotations

import itertools

import pytest

from arrivals import TEXT
from penstock import limits
from penstock.wire.http import sse
from penstock.wire.http.sse import Oversize, SseEvent, SseReader
from penstock.wire.json import digests
from penstock.wire.mcp.message import read_upstream_message
from slow_sse import by_the_long_way
from two_readings import outcome

LINES = [b"event: message", b"event:message", b"id: 7", b"id:", b"id:!~"]
ENDED = [line + end for line in LINES for end in (b"\n", b"\r\n")]
HEADS = [b"", *ENDED, *map(b"".join, itertools.permutations(ENDED[::3], 2)), b"id: 7\n" * 9]
DATA = [b"data: %b", b"data:%b", b"data:  %b"]
ENDS = [b"\n\n", b"\r\n\r\n", b"\r\n\n"]
PLAIN = [b"".join(parts) for parts in itertools.product(HEADS, DATA, ENDS)]
SMALL, LARGE = [b"", b"x", b'{"a": "\xc3\xa9\x0b"}', b"x" * 3_000], [b"x" * 5_000, b"{\x85}" * 2_000]
OTHERS = [
    *(
        b"event: messages\n",
        b"event:  message\n",
        b"Event: message\n",
        b"event:messag\n",
        b"event: message \n",
    ),
    *(b"xevent: message\n", b"event\n", b"event:\n", b"id: a b\n", b"id: \x7f\n", b"id: \x1f\n", b"id:  7\n"),
    *(
        b"id: \xc3\xa9\n",
        b"id: \x85\n",
        b"id: a\0\n",
        b"idx: 7\n",
        b"id\n",
        b"xid: 7\n",
        b"ID: 7\n",
        b"retry: 5\n",
    ),
    *(
        b"event: message\r",
        b"id: 7\r",
        b"\r",
        b"\n",
        b"\r\n",
        b": c\n",
        b": \x0b\n",
        b"\xef\xbb\xbf",
        b"datax: 1\n",
    ),
    *(b"data\n", b"data: y\n", b"data: y\r", b"event: message\ndata: y\r\n", b" ", b"x"),
]
BEHIND = [b"\ry", b"\r", b"\r\nid: 8", b"\nid: 8", b"\ndata: z", b"\ndata", b"\n:", b"\nevent: ping", b"\n\r"]


def read(*chunks: bytes) -> list[object]:
    reader = SseReader(1 << 20)
    return [event for chunk in chunks for event in reader.feed(chunk)]


def never(*_: object) -> list[SseEvent]:
    raise AssertionError("the long way")


def test_a_plain_event_that_is_here_whole_is_not_read_by_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [form % data for form in PLAIN for data in SMALL]
    streams += [b"".join(streams[at : at + 7]) for at in range(0, len(streams), 7)]
    expected = [by_the_long_way(stream) for stream in streams]
    monkeypatch.setattr(SseReader, "_feed_lines", never)
    for stream, events in zip(streams, expected, strict=True):
        assert read(stream) == events


@pytest.mark.parametrize("data", [*SMALL, *LARGE], ids=len)
def test_the_fields_of_a_plain_event_are_not_looked_for(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of one that comes in pieces, nor of a large one."""
    streams = [form % data for form in PLAIN]
    expected = [sse._read_fields(stream, True) for stream in streams]
    monkeypatch.setattr(sse, "_read_fields", never)
    for stream, event in zip(streams, expected, strict=True):
        assert read(stream[:3], stream[3:]) == [event]
        assert read(stream) == [event]


@pytest.mark.parametrize("data", [b"", b"x", b"\x0b", b"x" * 4_090, b"\x0b" * 5_000], ids=len)
def test_whatever_else_stands_around_its_data_an_event_means_what_it_means_the_long_way(data: bytes) -> None:
    for end in ENDS:
        events = [before + b"data: " + data + end for before in OTHERS]
        events += [before + b"event: message\ndata: " + data + end for before in OTHERS]
        events += [b"id: 7\ndata: " + data + behind + end for behind in BEHIND]
        for event in events:
            # What was there before decides whether a byte order mark is one.
            for stream in (event, b"data: 1\n\n" + event):
                expected = by_the_long_way(stream)
                assert read(stream) == expected
                assert read(stream[:12], stream[12:]) == expected


@pytest.mark.parametrize("step", [999, 70_000])
@pytest.mark.parametrize(
    ("before", "after", "is_judged"),
    [
        (b"data: ", b"\n\n", True),
        (b"event: message\r\nid: 7\r\ndata:", b"\r\n\r\n", True),
        (b"data: ", b"\ndata:  \n\n", False),
        (b"data: ", b"\nid: 9\n\n", False),
        (b"data: ", b"\n:\n\n", False),
        (b": hello\ndata: ", b"\n\n", False),
        (b"data: [\ndata: ", b"\ndata: ]\n\n", False),
    ],
)
def test_a_message_in_an_event_is_judged_while_it_arrives(
    before: bytes, after: bytes, is_judged: bool, step: int
) -> None:
    reader = SseReader(limits.MESSAGE_BYTES)
    stream = before + TEXT[: 2 * 60_000] + b'"}]}}' + after + b"data: {}\n\n"
    found = [event for at in range(0, len(stream), step) for event in reader.feed(stream[at : at + step])]
    large, small = found
    assert isinstance(large, SseEvent)
    assert isinstance(small, SseEvent)
    assert small.data == b"{}"
    assert large.data is not None
    assert digests.has(large.data) is is_judged
    assert outcome(read_upstream_message, large.data) == outcome(read_upstream_message, large.data)


@pytest.mark.parametrize("head", HEADS)
def test_a_message_in_any_plain_event_is_judged_while_it_arrives(head: bytes) -> None:
    data = TEXT[:70_000] + b'"}]}}'
    reader = SseReader(1 << 20)  # what one event leaves behind, the next would show
    for form, end in itertools.product(DATA[:2], ENDS):
        stream = head + form % data + end
        (event,) = [*reader.feed(stream[:69_000]), *reader.feed(stream[69_000:])]
        assert isinstance(event, SseEvent)
        assert event.data == data
        assert digests.has(event.data)


def test_after_an_event_too_big_a_large_message_is_judged_again() -> None:
    reader = SseReader(100_000)
    reader.feed(b"data: " + TEXT[:90_000])
    (big,) = reader.feed(TEXT[:30_000] + b"\n\n")
    assert isinstance(big, Oversize)
    stream = b"data: " + TEXT[:70_000] + b'"}]}}\n\n'
    (event,) = [*reader.feed(stream[:69_000]), *reader.feed(stream[69_000:])]
    assert isinstance(event, SseEvent)
    assert event.data is not None
    assert digests.has(event.data)


@pytest.mark.parametrize("lines", [0, 1, 62, 63, 64, 65, 66, 200])
def test_a_blank_line_is_found_wherever_it_is(lines: int) -> None:
    """Up to 4 KiB both line ends are looked for together, then 64 lines one by one, then both again."""
    for size in (1, *range(4_080, 4_110)):
        first = b": " + b"x" * size + b"\n" + b": c\n" * lines + b"\n"
        more = b": " + b"y" * size + b"\n\n"
        found = read(first + more + more)
        assert [event.raw for event in found if isinstance(event, SseEvent)] == [first, more, more]


@pytest.mark.parametrize(("size", "lines"), [(4_096, 0), (4_097, 64), (40_000, 64)])
def test_only_some_lines_of_a_large_chunk_are_looked_at_one_by_one(
    size: int, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bytes] = []
    look_up = sse._look_up

    def noted(text: bytes, places: list[int], which: int, what: bytes, at: int) -> int:
        looked.append(what)
        return look_up(text, places, which, what, at)

    monkeypatch.setattr(sse, "_look_up", noted)
    text = (b"x\r\n" * size)[: size - 1] + b"x"
    assert sse._Joints(text).next(0) == len(text)
    assert [looked.count(end) for end in (b"\n", b"\r", b"\n\n", b"\r\r")] == [lines, lines, 1, 1]


def test_an_event_of_just_four_kib_is_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"data: " + b"x" * (4_096 - 8) + b"\n\n"
    expected = SseEvent(raw, "message", raw[6:-2])
    monkeypatch.setattr(sse, "_maybe_long_event", never)
    assert read(raw[:9], raw[9:]) == [expected]
    reader = SseReader(4_096, is_raw_wanted=False)
    assert [*reader.feed(raw[:9]), *reader.feed(raw[9:])] == [expected]
    monkeypatch.setattr(SseReader, "_feed_lines", never)
    assert reader.feed(raw) == [expected]
