"""Plain progress: what is taken by its form alone is what the strict reader and the gate would let pass."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.gate.gate import Gate
from penstock.policy.exchange import Exchange
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD
from penstock.wire.http.sse import SseEvent, SseReader
from penstock.wire.json.ambiguity import check_text, members
from penstock.wire.mcp.message import Kind, Message, read_upstream_message
from penstock.wire.mcp.progress_events import end_of_progress

PLAIN = (
    b'{"jsonrpc":"2.0","method":"notifications/progress",'
    b'"params":{"progressToken":7,"progress":1,"total":10}}'
)
BY_SDKS = [
    PLAIN,
    b'{"method":"notifications/progress","params":{"progressToken":"a-1","progress":0.5,"total":1.0,'
    b'"message":"half [way] {there}, it\'s fine"},"jsonrpc":"2.0"}',
    b'{"method":"notifications/progress","params":{"progress":3,"total":4,"progressToken":-1},"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":3,"message":"",'
    b'"progressToken":""}}',
]
FRAMES = [
    b"data: %b\n\n",
    b"data:%b\r\n\r\n",
    b"event: message\ndata: %b\n\n",
    b"event: message\r\nid: a/7_9\r\ndata: %b\r\n\r\n",
    b"id:7\nevent:message\ndata: %b\r\n\n",
]
EVENTS = [frame % message for frame in FRAMES for message in BY_SDKS]
OTHERS = [
    PLAIN.replace(b'progress",', b'message",', 1),
    PLAIN.replace(b"2.0", b"2.1"),
    PLAIN.replace(b"2.0", b"2x0"),
    PLAIN.replace(b'"method"', b'"Method"'),
    PLAIN.replace(b'"method"', b'"id":1,"method"'),
    PLAIN.replace(b'"method"', b'"method":"x","method"'),
    PLAIN.replace(b'"progress":1', b'"progress":1,"progress":2'),
    PLAIN.replace(b'"total":10', b'"total":10,"progressToken":8'),
    PLAIN.replace(b'"total":10', b'"total":10,"tools":[]'),
    PLAIN.replace(b'"total":10', b'"total":10,"_meta":{}'),
    PLAIN.replace(b'"total":10', b'"message":"x","total":10'),
    PLAIN.replace(b'"total":10', b'"message":"the TOOLS"'),
    PLAIN.replace(b'"total":10', b'"message":"a\\u0074"'),
    PLAIN.replace(b'"total":10', b'"message":"a\\"'),
    PLAIN.replace(b'"total":10', b'"message":"\xc3\xa4"'),
    PLAIN.replace(b'"total":10', b'"message":"a\tb"'),
    PLAIN.replace(b'"total":10', b'"message":"a\x7fb"'),
    PLAIN.replace(b'"total":10', b'"message":"%b"' % (b"x" * 501)),
    PLAIN.replace(b'"total":10', b'"message":null'),
    PLAIN.replace(b":1,", b":01,"),
    PLAIN.replace(b":1,", b":1.,"),
    PLAIN.replace(b":1,", b":+1,"),
    PLAIN.replace(b":1,", b":1e5,"),
    PLAIN.replace(b":1,", b":%b," % (b"1" * 16)),
    PLAIN.replace(b":7,", b":null,"),
    PLAIN.replace(b":7,", b":[7],"),
    PLAIN.replace(b",", b", ", 1),
    PLAIN + b" ",
    PLAIN + PLAIN,
    PLAIN[:-1],
    b"[" + PLAIN + b"]",
    b" " + PLAIN,
]
OTHER_FRAMES = [
    b"\xef\xbb\xbfdata: %b\n\n",
    b": note\ndata: %b\n\n",
    b"retry: 1\ndata: %b\n\n",
    b"event: other\ndata: %b\n\n",
    b"event: messagex\ndata: %b\n\n",
    b"id: a\0b\ndata: %b\n\n",
    b"id: \xe2\x80\xa8\ndata: %b\n\n",
    b"id: %%b\ndata: %b\n\n".replace(b"%%b", b"1" * 201),
    b"data:  %b\n\n",
    b"data: %b\ndata: x\n\n",
    b"data: %b\n",
    b"data: %b\r\r",
    b"data: %b\n\r\n",
    b"\ndata: %b\n\n",
    b"Data: %b\n\n",
]


@pytest.mark.parametrize("event", EVENTS)
def test_what_sdks_write_is_taken_to_its_end(event):
    assert end_of_progress(event) == len(event)
    assert end_of_progress(event * 30 + b"data: x\n\n" + event) == len(event) * 30


@pytest.mark.parametrize(
    "event", [b"data: %b\n\n" % other for other in OTHERS] + [f % PLAIN for f in OTHER_FRAMES]
)
def test_whatever_else_comes_is_left(event):
    plain = b"data: %b\n\n" % PLAIN
    assert end_of_progress(event) == 0
    assert end_of_progress(plain + event) in (0, len(plain))  # 0: a word about tools spoils all of them


GATES = (Gate(ToolFilter()), Gate(ToolFilter(deny=("^admin_",))))
JUNK = st.sampled_from(
    [b'"', b"\\", b",", b"{", b"}", b"[", b"0", b"-", b".", b"\n", b"\r", b":", b" ", b"\0", b"\x85",
     b"tools", b"data: ", b"id: ", b"event: ", b'"id":1,', b'"progress":1', b'"total":2,',
     b"\\u0074", b"\xe2\x80\xa8"]
)  # fmt: skip
EDIT = st.tuples(st.floats(0, 1), st.integers(0, 9), st.one_of(JUNK, st.binary(max_size=2)))


@given(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=4), st.lists(EDIT, max_size=3))
@example([EVENTS[0]], [])
def test_what_is_taken_has_one_reading_and_passes_every_plain_gate(events, edits):
    stream = b"".join(events)
    for place, gone, junk in edits:
        at = int(place * len(stream))
        stream = stream[:at] + junk + stream[at + gone :]
    end = end_of_progress(stream)
    taken = SseReader(1 << 20).feed(stream[:end])
    assert b"".join(event.raw for event in taken if isinstance(event, SseEvent)) == stream[:end]
    for event in taken:
        assert isinstance(event, SseEvent)
        assert event.data is not None
        assert (event.event, event.retry, event.is_odd) == ("message", None, False)
        check_text(event.data)
        envelope = members(event.data)  # raises where there are two readings
        assert set(envelope) == {"jsonrpc", "method", "params"}
        assert set(members(envelope["params"])) <= {"progressToken", "progress", "total", "message"}
        message = read_upstream_message(event.data)
        assert isinstance(message, Message)
        assert (message.kind, message.method) == (Kind.NOTIFICATION, "notifications/progress")
        assert all(gate.upstream_says(message, Exchange()) is FORWARD for gate in GATES)


TAIL = [
    b"data: x\n\n",
    b": note\r\n\r\n",
    b"\ndata: y\n\n",
    b"data: z\r\r",
    b"\r\ndata: z\r\n\r\n",
    b"data: part",
]


@given(st.lists(st.sampled_from(EVENTS + TAIL), max_size=5), st.lists(st.floats(0, 1), max_size=5))
@example([TAIL[0], EVENTS[0], TAIL[2]], [])
@example([TAIL[3], EVENTS[0], TAIL[4]], [0.5])
@example([EVENTS[0], TAIL[4]], [])
@example([EVENTS[0], b"\xef\xbb\xbf" + TAIL[0]], [])
@example([TAIL[5], EVENTS[0]], [(len(TAIL[5]) + 0.5) / len(TAIL[5] + EVENTS[0])])
def test_a_reader_that_passes_over_them_finds_the_same_events_around_them(parts, places):
    stream = b"".join(parts)
    edges = [0, *sorted(int(place * len(stream)) for place in places), len(stream)]
    plain, quick = SseReader(1 << 20), SseReader(1 << 20)
    for begin, end in itertools.pairwise(edges):
        chunk = stream[begin:end]
        passed = quick.pass_over(chunk, end_of_progress)
        rest = quick.feed(chunk[passed:])
        every = plain.feed(chunk)
        assert every[len(every) - len(rest) :] == rest
        skipped = every[: len(every) - len(rest)]
        assert b"".join(event.raw for event in skipped if isinstance(event, SseEvent)) == chunk[:passed]


@pytest.mark.parametrize(
    ("event", "is_taken"),
    [
        (b"data: %b\n\n" % PLAIN.replace(b'"total":10', b'"message":"done!"'), True),
        (b"data: %b\n\n" % PLAIN.replace(b'"total":10', b'"total":0.%b' % (b"1" * 17)), True),
        (b"data: %b\n\n" % PLAIN.replace(b'"total":10', b'"total":0.%b' % (b"1" * 18)), False),
        (b"id: \ndata: %b\n\n" % PLAIN, True),
        (b"id: 1\n" * 4 + b"data: %b\n\n" % PLAIN, True),
        (b"id: 1\n" * 5 + b"data: %b\n\n" % PLAIN, False),
    ],
)
def test_where_the_form_ends(event: bytes, is_taken: bool) -> None:
    assert end_of_progress(event) == (len(event) if is_taken else 0)


def test_a_word_about_tools_behind_the_progress_is_the_business_of_who_reads_that() -> None:
    progress = b"data: %b\n\n" % PLAIN
    assert end_of_progress(progress + b'data: {"tools":[]}\n\n') == len(progress)
