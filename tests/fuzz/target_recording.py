"""The reader of recordings: a file is read, or it is said that it is none; what is read can be looked at."""

from __future__ import annotations

import io

from penstock.observe.filter_words import NUMBER_FIELDS, WORD_FIELDS
from penstock.observe.reader import RecordingReader, Unreadable, maybe_line
from penstock.observe.rows import MessageRow, Rows


def check(data: bytes) -> None:
    """`data` is the file."""
    reader, rows, read = RecordingReader("fuzzed"), Rows(), 0
    try:
        for line in reader.lines(io.BytesIO(data)):
            read += 1
            look(rows.row(line))
    except Unreadable as why:
        assert why.headline
        assert str(why).isprintable() or "\n" in str(why)
    ends = data.count(b"\n")
    assert read + reader.damaged <= ends, data
    assert reader.is_torn or not data or data.endswith(b"\n") or read < ends + 1, data
    for piece in data.split(b"\n"):
        maybe_line(piece + b"\n")


def look(row: MessageRow) -> None:
    """Asks for all that there is to know about a line."""
    assert isinstance(row.line.raw, bytes)
    assert row.line.sent is None or isinstance(row.line.sent, bytes)
    for field in WORD_FIELDS:
        assert all(isinstance(word, str) for word in row.words(field))
    for field in NUMBER_FIELDS:
        row.number(field)
    assert isinstance(row.text(), str)
    for part in ("arg", "result"):
        for path in ("a", "a.b", "*", "content.0.text"):
            row.inner(part, path)
    assert (row.is_error, row.is_tool_error, row.argument_names, row.tokens) is not None
