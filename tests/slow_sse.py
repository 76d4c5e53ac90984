"""Server-sent events as the WHATWG steps have them, word for word, one byte at a time: slow and plain."""

from __future__ import annotations

from penstock.wire.http import sse
from penstock.wire.http.sse import SseEvent


def lines_of(stream: bytes) -> list[bytes]:
    """The finished lines of `stream`, without a byte order mark before the first."""
    text = stream[3:] if stream.startswith(b"\xef\xbb\xbf") else stream
    lines, line, i = [], b"", 0
    while i < len(text):
        byte = text[i : i + 1]
        if byte in b"\r\n":
            if text[i : i + 2] == b"\r\n":
                i += 1
            lines.append(line)
            line = b""
        else:
            line += byte
        i += 1
    return lines


def fields_by_the_book(stream: bytes) -> list[tuple[str, bytes]]:
    """What a browser would dispatch: event types and data."""
    dispatched, event_type, data = [], b"", b""
    for line in lines_of(stream):
        if line == b"":
            if data:
                dispatched.append((event_type.decode("utf-8", "replace") or "message", data[:-1]))
            event_type, data = b"", b""
            continue
        name, value = line, b""
        if b":" in line:
            cut = line.index(b":")
            name, value = line[:cut], line[cut + 1 :]
            if value.startswith(b" "):
                value = value[1:]
        if name == b"data":
            data += value + b"\n"
        elif name == b"event":
            event_type = value
    return dispatched


def by_the_long_way(stream: bytes) -> list[SseEvent]:
    """The events of a whole stream: line by line, and each read without a shortcut."""
    events, begin, at = [], 0, 0
    ends = [b"\r\n"]  # how the line before ended, unless we are within one
    while at < len(stream):
        end = b"\r\n" if stream.startswith(b"\r\n", at) else stream[at : at + 1]
        if end not in (b"\r\n", b"\r", b"\n"):
            ends, at = [], at + 1
            continue
        # An LF behind the CR of a blank line belongs to it only where the line before ended in CRLF.
        if end == b"\r\n" and ends and ends[0] != b"\r\n":
            end = b"\r"
        if end == b"\n" and stream[at - 1 : at] == b"\r":
            ends, at = [b"\r\n"], at + 1  # one that does not: the next event begins with it
            continue
        if end == b"\r" and ends == [b"\r\n"] and at + 1 == len(stream):
            break  # its LF may still come
        at += len(end)
        if ends:
            events.append(sse._read_fields(stream[begin:at], not events))
            begin = at
        ends = [end]
    return events
