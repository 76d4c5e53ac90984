"""Server-sent events as the WHATWG steps have them, word for word, one byte at a time: slow and plain."""

from __future__ import annotations


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
