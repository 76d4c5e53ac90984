"""The rows of a recording, with a word on stderr of how far reading it has come."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.observe.progress import Progress, size_of
from penstock.observe.reader import RecordingReader
from penstock.observe.rows import MessageRow, Rows


def told_rows(path: str, what: str = "messages read") -> Iterator[MessageRow]:
    """Every message of the recording at `path`."""
    progress = Progress(what, size_of([path]))
    try:
        yield from Rows().all(RecordingReader(path, progress.add))
    finally:
        progress.end()
