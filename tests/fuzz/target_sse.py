"""The reader of server-sent events: the same however the bytes arrive, and as the standard has them."""

from __future__ import annotations

from penstock.wire.http.sse import Oversize, SseEvent, SseReader
from penstock.wire.mcp.message import Kind, Message, read_upstream_message
from penstock.wire.mcp.progress_events import end_of_progress
from slow_sse import fields_by_the_book


def check(data: bytes) -> None:
    """The first three bytes say where to cut and how small the limit is; the rest is the stream."""
    cut, step, small = (*data[:3], 0, 0, 0)[:3]
    stream = data[3:]
    for limit in (1 << 20, 8 + small):
        whole = _read([stream], limit)
        place = cut * len(stream) // 256
        pieces = [stream[i : i + step + 1] for i in range(0, len(stream), step + 1)]
        assert _read([stream[:place], stream[place:]], limit) == whole
        assert _read(pieces, limit) == whole
        assert _read([stream[i : i + 1] for i in range(len(stream))], limit) == whole
        sizes = sum(event.size if isinstance(event, Oversize) else len(event.raw) for event in whole)
        assert sizes <= len(stream)
        assert all(len(event.raw) <= limit for event in whole if isinstance(event, SseEvent))
    _check_progress(stream)
    events = [event for event in _read([stream], 1 << 20) if isinstance(event, SseEvent)]
    assert stream.startswith(b"".join(event.raw for event in events))
    dispatched = [(event.event, event.data) for event in events if event.data is not None]
    expected = fields_by_the_book(stream)
    # A last CR of a CRLF stream may still be followed by its LF: that one event is waited for.
    assert dispatched == expected or (stream.endswith(b"\r\n\r") and dispatched == expected[:-1])


def _check_progress(stream: bytes) -> None:
    """What is known by its form alone is nothing but progress, and read as it would be without."""
    reader = SseReader(1 << 20)
    end = reader.pass_over(stream, end_of_progress)
    taken = [event for event in _read([stream[:end]], 1 << 20) if isinstance(event, SseEvent)]
    assert b"".join(event.raw for event in taken) == stream[:end]
    for event in taken:
        message = read_upstream_message(event.data or b"")
        assert isinstance(message, Message)
        assert message.method == "notifications/progress"
        assert (message.kind, event.event, event.is_odd) == (Kind.NOTIFICATION, "message", False)
    assert taken + reader.feed(stream[end:]) == _read([stream], 1 << 20)


def _read(chunks: list[bytes], limit: int) -> list[SseEvent | Oversize]:
    reader = SseReader(limit)
    return [event for chunk in chunks for event in reader.feed(chunk)]
