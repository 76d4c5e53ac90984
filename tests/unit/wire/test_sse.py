"""Server-sent events: the same events however the bytes arrive, and every byte accounted for."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.wire.http import sse
from penstock.wire.http.sse import Oversize, SseEvent, SseReader, encode_event, plainly
from slow_sse import by_the_long_way, fields_by_the_book

LIMIT = 1 << 20


def read(*chunks: bytes, limit: int = LIMIT) -> list[SseEvent | Oversize]:
    reader = SseReader(limit)
    return [event for chunk in chunks for event in reader.feed(chunk)]


def only(*chunks: bytes) -> SseEvent:
    (event,) = read(*chunks)
    assert isinstance(event, SseEvent)
    return event


LINES = st.sampled_from(
    [b"data: x", b"data:y", b"data", b"data:", b"data:  two", b": note", b":", b"event: ping", b"event:",
     b"id: 7", b"id: a\0b", b"id", b"retry: 10", b"retry: x", b"other: 1", b"\xef\xbb\xbfdata: bom", b"", b""]
)  # fmt: skip
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=12).map(lambda rows: b"".join(map(b"".join, rows)))
MIXED = st.one_of(STREAMS, st.text("\r\n:dat x", max_size=30).map(str.encode))


@given(MIXED, st.data())
@example(b"data: x\r\n\r\ndata: y\r\n\r\n", None)
@example(b"data: x\r\r\ndata: y\r\r", None)
def test_events_do_not_depend_on_how_the_bytes_arrive(stream, draw):
    whole = read(stream)
    assert read(*[stream[i : i + 1] for i in range(len(stream))]) == whole
    cuts = (
        sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=5))) if draw else [len(stream) // 2]
    )
    edges = [0, *cuts, len(stream)]
    assert read(*[stream[a:b] for a, b in itertools.pairwise(edges)]) == whole


@given(MIXED)
def test_the_events_are_the_stream_and_mean_what_the_standard_says(stream):
    events = read(stream)
    consumed = b"".join(event.raw for event in events)
    assert stream.startswith(consumed)
    dispatched = [(event.event, event.data) for event in events if event.data is not None]
    expected = fields_by_the_book(stream)
    # A last CR of a CRLF stream may still be followed by its LF: that one event is waited for.
    assert dispatched == expected or (stream.endswith(b"\r\n\r") and dispatched == expected[:-1])


def test_fields_are_read():
    event = only(b"event: ping\nid: 42\nretry: 1500\n: hello\ndata: a\ndata: b\n\n")
    assert (event.event, event.id, event.retry, event.data) == ("ping", b"42", 1500, b"a\nb")


def test_a_comment_is_an_event_without_data():
    event = only(b": ping - 2026\r\n\r\n")
    assert event.data is None
    assert event.raw == b": ping - 2026\r\n\r\n"


def test_an_id_alone_is_an_event_without_data():
    assert (only(b"id: 0\n\n").id, only(b"id: 0\n\n").data) == (b"0", None)


def test_an_empty_data_field_is_empty_data():
    assert only(b"data\n\n").data == b""
    assert only(b"data:\ndata:\n\n").data == b"\n"


def test_an_id_with_nul_is_ignored():
    assert only(b"id: a\0b\ndata: x\n\n").id is None


def test_the_byte_order_mark_counts_once_and_only_at_the_start():
    assert only(b"\xef", b"\xbb\xbfda", b"ta: x\n\n").data == b"x"
    first, second = read(b"\xef\xbb\xbfdata: x\n\n\xef\xbb\xbfdata: y\n\n")
    assert (first.data, second.data) == (b"x", None)


BREAKS = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\0", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("end", BREAKS)
@pytest.mark.parametrize("line", [": %s", "id: %s", "retry: %s", "x: %s", "x%s", "event: x%s"])
def test_a_line_that_some_end_earlier_makes_an_event_odd(line, end):
    event = only((line % f"1{end}data: 2{end}{end}").encode() + b"\ndata: {}\n\n")
    assert event.is_odd
    assert end.encode() not in plainly(event).raw


def test_every_end_of_a_line_that_python_knows_is_an_odd_one():
    ends = {chr(code) for code in range(0x3000) if len(f"a{chr(code)}b".splitlines()) > 1}
    assert ends - {"\n", "\r"} <= set(BREAKS)


@pytest.mark.parametrize(
    "name",
    [
        *(" data", "data ", "DATA", "Event", "\tid", "re\u200btry", "\ufeffdata", " " * 999 + "data"),
        *("RETRY", "retry ", "iD", "\x7fid", "e\x01vent", "\x7f DATA\x1f", "d\u00e4ta"),
    ],
)
def test_a_field_that_some_take_for_another_makes_an_event_odd(name):
    event = read(b"\n", f"{name}: x\n\n".encode())[1]
    assert event.is_odd
    assert plainly(event).raw == b""


def test_two_types_make_an_event_odd():
    assert only(b"event: message\nevent: x\ndata: 1\n\n").is_odd
    event = only(b"event: x\nevent: message\ndata: 1\n\n")
    assert (event.is_odd, event.event, plainly(event).raw) == (
        True,
        "message",
        b"event: message\ndata: 1\n\n",
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"event: message\nevent: message\nid: 7\nretry: 5\n: \xc3\xa4\nx: y\ndata: {}\n\n",
        'data: "\u2028\x85\x0b"\n\n'.encode(),
        b'event: message\ndata: "\x0b"\n\n',
        b'retry: 5\ndata: "\x0b"\n\n',
        b'retry: 5\nevent: message\ndata: "\x0b"\n\n',
        b": data: 1\n\n",
        b"event: x\n\n",
        b"event: x\ndata: {}\n\n",
        b"event:\nevent: x\ndata: {}\n\n",
        b"!id: 1\nidX: 2\nXdata: 3\ndata: {}\n\n",
    ],
)
def test_what_everybody_reads_alike_is_not_odd(raw):
    assert not only(raw).is_odd


def test_a_line_that_some_end_earlier_counts_in_data_that_is_no_message():
    """There the rest of the line could be a type: who ends lines so would read a message after all."""
    event = only(b"event: x\ndata: 1\x0bevent: message\n\n")
    assert event.is_odd
    assert plainly(event).raw == b""


def test_what_made_an_event_odd_is_not_made_good_by_what_follows():
    for odd in (b"DATA: 1", b": \x0b", b"event: x"):
        for more in (b"event: message", b"id: 7", b": note", b"x: y"):
            assert only(b"event: message\n%b\n%b\ndata: {}\n\n" % (odd, more)).is_odd


@pytest.mark.parametrize("count", [1, 60, 61, 62, 63, 64, 65, 3000])
@pytest.mark.parametrize("filler", [b"data: x", b": note", b"x: y"])
def test_an_event_of_many_lines_is_read_like_one_of_few(count, filler):
    long = b"data: " + b"z" * 70_000
    for more in ([], [long], [b"data", long, long]):
        lines = [b"data: a", b"event: message", *[filler] * count, *more, b"id: 7", b"retry: 5", b"data: b"]
        data = b"\n".join(line[6:] for line in lines if line.startswith(b"data"))
        raw = b"\n".join(lines) + b"\n\n"
        assert only(raw) == SseEvent(raw, "message", data, b"7", 5)
        for place in (0, 1, len(lines) // 2, len(lines)):
            odd = b"\n".join([*lines[:place], b": \x0b", *lines[place:]]) + b"\n\n"
            assert only(odd) == SseEvent(odd, "message", data, b"7", 5, True)


def test_only_the_message_of_an_odd_event_is_left():
    event = plainly(only(b"id: 7\nretry: 5\n: \x0b\ndata: {\ndata: }\n\n"))
    assert event == only(event.raw)
    assert event.raw == b"event: message\nid: 7\nretry: 5\ndata: {\ndata: }\n\n"


UNITS = [b"::\n", b"data:\n", b"data:ab\n", b"x:\r\n", b": \x0b\n", b"event:\r"]
LONG_LINE = b": %b\n" % (b"x" * 70_000)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("first", [b"", LONG_LINE])
def test_an_event_of_very_many_lines_means_what_it_means_by_the_book(first, unit):
    stream = first + unit * (100_000 // len(unit)) + b"\n\n"
    found = [(event.event, event.data) for event in read(stream) if event.data is not None]
    assert found == fields_by_the_book(stream)


@pytest.mark.parametrize(
    ("first", "unit"), [*((b"", unit) for unit in UNITS), (LONG_LINE, UNITS[0]), (LONG_LINE, UNITS[2])]
)
def test_an_event_of_very_many_lines_takes_no_more_than_four_times_its_size(first, unit):
    stream = first + unit * (LIMIT // len(unit)) + b"\n\n"
    pieces = [stream[at : at + 65536] for at in range(0, len(stream), 65536)]
    reader = SseReader(2 * LIMIT)
    tracemalloc.start()
    try:
        events = [event for piece in pieces for event in reader.feed(piece)]
        assert tracemalloc.get_traced_memory()[1] < 4 * len(stream)
    finally:
        tracemalloc.stop()
    assert events[0].raw.strip(b"\r\n") == stream.strip(b"\r\n")


def test_an_unfinished_event_is_not_given():
    assert read(b"data: x\n") == []
    assert read(b"data: x") == []


def test_bare_cr_events_are_given_at_once():
    assert only(b"data: x\r\r").data == b"x"
    assert [event.raw for event in read(b"data: x\r\r\r")] == [b"data: x\r\r", b"\r"]


def test_an_event_in_crlf_is_whole_when_the_lf_comes_late():
    reader = SseReader(LIMIT)
    assert reader.feed(b"data: x\r\n\r") == []
    (event,) = reader.feed(b"\n")
    assert event.raw == b"data: x\r\n\r\n"


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_an_event_over_the_limit_is_skipped_and_described(step):
    big = b"data: " + b"abcdefgh" * 1000 + b"\n\n"
    stream = b"data: before\n\n" + big + b"data: after\n\n"
    events = read(*[stream[i : i + step] for i in range(0, len(stream), step)], limit=4096)
    assert [type(event) for event in events] == [SseEvent, Oversize, SseEvent]
    assert events[1] == Oversize(len(big), big[:1024], big[-1024:])
    assert events[2].data == b"after"


def test_an_event_just_at_the_limit_is_kept():
    event = b"data: 123\n\n"
    assert read(event, limit=len(event))[0].data == b"123"
    assert read(event, limit=len(event) - 1) == [Oversize(len(event), event, event)]


def test_nothing_is_kept_of_an_event_over_the_limit():
    reader = SseReader(10_000)
    for _ in range(100):
        reader.feed(b"x" * 1000)
    assert len(reader._block.getvalue()) + len(reader._head) + len(reader._tail) <= 2048


def test_an_event_that_gets_too_big_is_not_copied():
    limit = 1024 * 1024
    reader = SseReader(limit)
    tracemalloc.start()
    try:
        for _ in range(17):
            reader.feed(b"x" * (limit // 16))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.6 * limit


@pytest.mark.parametrize(("size", "step"), [(1_000_000, 1), (64_000_000, 16_384)])
def test_a_huge_event_in_small_pieces_is_read_in_reasonable_time(size: int, step: int):
    # Rescanning or copying at each piece would take hours; the suite's own time limit is the judge.
    stream = b"data: " + b"x" * size + b"\n\n"
    reader = SseReader(1 << 30)
    found = [event for at in range(0, len(stream), step) for event in reader.feed(stream[at : at + step])]
    assert [len(event.data) for event in found] == [size]


def test_many_small_events_in_one_chunk_are_read_in_reasonable_time():
    assert len(read(b"data: x\n\n" * 1_000_000)) == 1_000_000


@given(st.binary(max_size=40).filter(lambda b: b"\0" not in b))
def test_what_we_write_is_what_a_reader_reads(data):
    expected = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    event = only(encode_event(data, event="ping", id=b"9", retry=3))
    assert (event.data, event.event, event.id, event.retry) == (expected, "ping", b"9", 3)
    assert only(encode_event(data)).event == "message"


def test_an_event_name_cannot_smuggle_a_line():
    with pytest.raises(ValueError):
        encode_event(b"x", event="a\ndata: y")
    with pytest.raises(ValueError):
        encode_event(b"x", id=b"a\rdata: y")


def test_every_short_stream_of_line_ends_reads_the_same_however_it_is_cut():
    """All of them, because each byte and its neighbours decide where an event ends."""
    for size in range(1, 8):
        for bytes_ in itertools.product((b"\r", b"\n", b"data:x"), repeat=size):
            stream = b"".join(bytes_)
            whole = read(stream)
            assert read(*bytes_) == whole
            assert b"".join(event.raw for event in whole) == stream[: sum(len(event.raw) for event in whole)]
            dispatched = [(event.event, event.data) for event in whole if event.data is not None]
            expected = fields_by_the_book(stream)
            assert dispatched == expected or (stream.endswith(b"\r\n\r") and dispatched == expected[:-1])


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_feed_that_comes_late_belongs_to_the_line_before_or_to_nobody(end):
    first, second = b"data: 1" + end + end, b"data: 2" + end + end
    stream = first + second
    for cut in range(1, len(stream)):
        events = read(stream[:cut], stream[cut:])
        assert [(event.raw, event.data) for event in events] == [(first, b"1"), (second, b"2")]


@pytest.mark.parametrize("step", [1, 100, 1000, 1024, 1025, 3000])
def test_the_edges_of_an_event_too_big_do_not_depend_on_how_it_arrives(step):
    body = bytes(65 + n % 26 for n in range(5000))
    for size in (900, 1000, 1024, 1500, 2500, 5000):
        big = b"data: " + body[:size] + b"\n\n"
        chunks = [big[i : i + step] for i in range(0, len(big), step)]
        for limit in (10, 500, 899):
            reader = SseReader(limit)
            for _ in range(2):  # what one leaves behind, the next would show
                found = [event for chunk in chunks for event in reader.feed(chunk)]
                assert found == [Oversize(len(big), big[:1024], big[-1024:])]
            (small,) = reader.feed(b"data: s\n\n")
            assert small == SseEvent(b"data: s\n\n", data=b"s")


@pytest.mark.parametrize("step", [1, 4, 100])
def test_the_limit_is_exact_however_an_event_arrives(step):
    event = b"data: 1234567\n\n"
    chunks = [event[i : i + step] for i in range(0, len(event), step)]
    assert read(*chunks, *chunks, limit=len(event)) == [SseEvent(event, data=b"1234567")] * 2
    assert read(*chunks, limit=len(event) - 1) == [Oversize(len(event), event, event)]


def test_after_an_event_too_big_a_mark_is_no_mark():
    big, _ = read(b"data: 123456789\n\n\xef\xbb\xbfdata: y\n\n", limit=14)
    assert isinstance(big, Oversize)
    assert read(b"data: 123456789\n\n\xef\xbb\xbfdata: y\n\n", limit=14)[1].data is None


@pytest.mark.parametrize(
    ("stream", "wanted"),
    [
        (b":data: x\n\n", ("message", None, None, None)),
        (b";data: x\n\n", ("message", None, None, None)),
        (b": data\ndata: y\n\n", ("message", b"y", None, None)),
        (b"\xff:x\ndata: y\n\n", ("message", b"y", None, None)),
        (b"event: \xff\ndata: y\n\n", ("\ufffd", b"y", None, None)),
        (b"retry: 10\n\n", ("message", None, None, 10)),
        (b"retry: 1x\n\n", ("message", None, None, None)),
        (b"retry:\n\n", ("message", None, None, None)),
        (b"retry: -1\n\n", ("message", None, None, None)),
        (b"other: 10\n\n", ("message", None, None, None)),
        (b"retry: %b\n\n" % (b"1" * 30), ("message", None, None, int("1" * 18))),
        (b"id: 5\nid\n\n", ("message", None, b"", None)),
        (b"data:x\r\ndata: y\rdata:  z\n\n", ("message", b"x\ny\n z", None, None)),
    ],
)
def test_fields_are_read_by_the_book(stream, wanted):
    event = only(stream)
    assert (event.event, event.data, event.id, event.retry) == wanted


@pytest.mark.parametrize(
    ("data", "written"),
    [
        (b"x", b"data: x\n\n"),
        (b"", b"data: \n\n"),
        (b"a\nb", b"data: a\ndata: b\n\n"),
        (b"a\rb", b"data: a\ndata: b\n\n"),
        (b"a\r\nb\n", b"data: a\ndata: b\ndata: \n\n"),
    ],
)
def test_data_is_written_line_by_line(data, written):
    assert encode_event(data) == written
    assert encode_event(data, event="e", id=b"i", retry=5) == b"event: e\nid: i\nretry: 5\n" + written


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b"])
def test_a_name_or_id_with_a_line_end_or_nul_is_refused(bad):
    for options in ({"event": bad}, {"id": bad.encode()}):
        with pytest.raises(ValueError, match=r"^an event name or id cannot hold a line end or NUL$"):
            encode_event(b"x", **options)


OBJECT = b'data: {"jsonrpc":"2.0"}'


@pytest.mark.parametrize(
    ("raw", "passed"),
    [
        (b": x\xe2\x80\xa8%b\n\n" % OBJECT, b""),
        (b"id: 5\x0b%b\ndata: {}\n\n" % OBJECT, b"event: message\ndata: {}\n\n"),
        (b"event: x\x0c%b\ndata: {}\n\n" % OBJECT, b""),
        (b"event: x\n%b\n %b\n\n" % (OBJECT, OBJECT), b""),
        (b"retry: 5\x1e%b\ndata: {}\n\n" % OBJECT, b"event: message\ndata: {}\n\n"),
        (b"DATA: {}\ndata: {\ndata: }\n\n", b"event: message\ndata: {\ndata: }\n\n"),
    ],
)
def test_an_object_outside_the_data_is_left_out_for_those_who_read_otherwise(
    raw: bytes, passed: bytes
) -> None:
    (event,) = SseReader(1000).feed(raw)
    assert isinstance(event, SseEvent)
    assert event.is_odd
    assert plainly(event).raw == passed
    if passed:
        (again,) = SseReader(1000).feed(passed)
        assert again == plainly(event)


@pytest.mark.parametrize(
    "raw", [b": ping\n\n", b"id: 5\nevent: message\ndata: {}\n\n", b"x: y\ndata: {\ndata\ndata: }\n\n"]
)
def test_an_event_with_objects_in_its_data_alone_is_not_odd(raw: bytes) -> None:
    (event,) = SseReader(1000).feed(raw)
    assert isinstance(event, SseEvent)
    assert not event.is_odd


PLAIN_LINES = st.sampled_from(
    [b"event: message", b"event:message", b"id: 7", b"id:", b"id:  7", b"id: \xc3\xa9", b"event: message ",
     b"event: ping", b"data: {}", b"data:{}", b"data:", b"data:  x", b"data", b"data: \x0b", b"datax: 1",
     b": c", b"", b""]
)  # fmt: skip
PLAIN = st.lists(st.tuples(PLAIN_LINES, ENDS), max_size=8).map(lambda rows: b"".join(map(b"".join, rows)))


@pytest.mark.parametrize("small", [1, 2, 20, 4096])
@pytest.mark.parametrize("few", [1, 64])
@given(stream=st.one_of(MIXED, PLAIN), pieces=st.integers(1, 40))
def test_whichever_way_line_ends_are_looked_for_the_events_are_the_same(small, few, stream, pieces):
    """The shortcuts for what is short, and for what has few lines, at any length."""
    expected = by_the_long_way(stream)
    kept = sse._SMALL_BYTES, sse._FEW_LINES
    sse._SMALL_BYTES, sse._FEW_LINES = small, few
    try:
        found = read(*[stream[at : at + pieces] for at in range(0, len(stream), pieces)])
    finally:
        sse._SMALL_BYTES, sse._FEW_LINES = kept
    assert found == expected


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize(
    "head", [b"", b"event: message<>", b"id: 5<>event: message<>", b"event: x<>", b": c<>"]
)
@pytest.mark.parametrize("tail", [b"", b"<>data: more", b"<>id: 6", b"\rx"])
def test_a_large_event_means_what_a_small_one_means(head, tail, end):
    for size in (1, 4_000, 5_000, 70_000):
        stream = (head + b"data: " + b"x" * size + tail + b"<><>").replace(b"<>", end)
        whole = read(stream)
        assert whole[0] == sse._read_fields(whole[0].raw, True)
        assert read(*[stream[at : at + 1_000] for at in range(0, len(stream), 1_000)]) == whole


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_large_event_takes_its_own_room_and_that_of_its_data(end):
    stream = b"event: message" + end + b"data: " + b"x" * 3_000_000 + end + end
    reader = SseReader(10_000_000)
    chunks = [stream[at : at + 65_536] for at in range(0, len(stream), 65_536)]
    tracemalloc.start()
    found = [event for chunk in chunks for event in reader.feed(chunk)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 1
    assert peak < 2.3 * len(stream)


def test_a_large_event_is_not_kept_as_it_came_where_nobody_wants_it():
    small, large = b"id: 1\ndata: x\n\n", b"id: 2\ndata: %b\n\n" % (b"x" * 5_000)
    reader = SseReader(LIMIT, is_raw_wanted=False)
    first, second = reader.feed(small + large)
    assert (first.raw, first.data, first.id) == (small, b"x", b"1")
    assert (second.raw, second.data, second.id) == (b"", b"x" * 5_000, b"2")
    (third,) = reader.feed(b"retry: 5\n" + small)
    assert third.raw == b"retry: 5\n" + small
    (odd,) = reader.feed(b"retry: 5\nevent: a\nevent: b\ndata: %b\n\n" % (b"x" * 5_000))
    assert (odd.raw, odd.event, odd.retry, odd.is_odd) == (b"", "b", 5, True)


@given(st.binary(max_size=20))
@example(b"")
@example(b"a\nb\rc")
def test_a_plain_event_of_ours_is_written_as_any_other(data):
    with_id = encode_event(data, "message", b"7")
    assert encode_event(data, "message") == with_id.replace(b"id: 7\n", b"", 1)


def test_a_message_is_written_with_all_that_it_was_given():
    assert encode_event(b"x", "message") == b"event: message\ndata: x\n\n"
    assert encode_event(b"x", "message", b"7") == b"event: message\nid: 7\ndata: x\n\n"
    assert encode_event(b"x", "message", retry=5) == b"event: message\nretry: 5\ndata: x\n\n"
    assert encode_event(b"x", "message", b"", 0) == b"event: message\nid: \nretry: 0\ndata: x\n\n"
