"""Reading recordings: one line at a time, however large the file and however its end was torn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import IO

import msgspec

from penstock.errors import ConfigError
from penstock.observe.recording import FORMAT, Line, decode_line

log = logging.getLogger("penstock")

_LINE_BYTES = 256 << 20  # no line is longer: a message of 10 MiB may be six times as long when escaped


class Unreadable(ConfigError):
    """A file that is no recording, or one that we cannot read."""


def open_recording(path: str, noun: str = "recording") -> IO[bytes]:
    """The file at `path`, unpacked if it is packed. Raises Unreadable, which calls it a `noun`."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except IsADirectoryError:
        raise Unreadable(f"Cannot read the {noun}: {path}", "It is a folder; name the file") from None
    except OSError as why:
        raise Unreadable(f"Cannot read the {noun}: {path}", str(why.strerror or why)) from None
    if path.endswith(".gz"):
        import gzip

        return gzip.open(file)  # type: ignore[return-value]
    if path.endswith(".zst"):
        return _unpack_zst(file, path, noun)
    return file


def _unpack_zst(file: IO[bytes], path: str, noun: str) -> IO[bytes]:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        return zstd.open(file)  # type: ignore[no-any-return,unused-ignore]
    except ImportError:
        pass
    try:
        import io

        import zstandard
    except ImportError:
        raise Unreadable(
            f"Cannot read the {noun}: {path}", "For .zst files: pip install zstandard, or unzstd it first"
        ) from None
    return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file))  # type: ignore[type-var,return-value,unused-ignore]


class RecordingReader:
    """The lines of one recording. `damaged` counts those that cannot be read."""

    def __init__(self, path: str, on_progress: Callable[[int], None] | None = None) -> None:
        self.path = path
        self.damaged = 0
        self.is_torn = False
        self.header: Line | None = None  # of the run that was read last
        self._on_progress = on_progress

    def __iter__(self) -> Iterator[Line]:
        """Messages and `lost` lines, in order; headers are kept in `header`."""
        with open_recording(self.path) as file:
            yield from self.lines(file)
        self.tell_damage()

    def lines(self, file: IO[bytes]) -> Iterator[Line]:
        """The same of an open file, without a word about damage."""
        is_first = True
        for data in self._raw_lines(file):
            if self._on_progress is not None:
                self._on_progress(len(data))
            line = self._take(data, is_first)
            is_first = False
            if line is not None:
                yield line

    def take(self, data: bytes) -> Iterator[Line]:
        """The message in one more line of a file that is followed."""
        line = self._take(data, False)
        if line is not None:
            yield line

    def _raw_lines(self, file: IO[bytes]) -> Iterator[bytes]:
        try:
            while data := file.readline(_LINE_BYTES):
                yield data
        except (OSError, EOFError, msgspec.DecodeError) as why:
            self.is_torn = True  # a packed file that ends too soon
            log.debug("%s: %s", self.path, why)

    def _take(self, data: bytes, is_first: bool) -> Line | None:
        line = maybe_line(data)
        if line is None:
            if not data.endswith(b"\n"):
                self.is_torn = True
            elif is_first:
                raise Unreadable(f"This is no recording: {self.path}", "Its first line is not one of ours")
            else:
                self.damaged += 1
            return None
        if line.penstock:
            self._take_header(line)
            return None
        return line

    def _take_header(self, line: Line) -> None:
        if line.penstock != "recording":
            raise Unreadable(f"This is no recording: {self.path}", f"It is a Penstock {line.penstock} file")
        if line.v > FORMAT:
            raise Unreadable(
                f"Cannot read {self.path}: made by a newer Penstock",
                f"Its format is {line.v}; this one knows {FORMAT}",
            )
        self.header = line

    def tell_damage(self) -> None:
        """Warns about what could not be read."""
        if self.damaged:
            log.warning("%s: %d damaged lines were skipped.", self.path, self.damaged)
        if self.is_torn:
            log.warning("%s: its last line is not whole and was left out.", self.path)


def maybe_line(data: bytes) -> Line | None:
    """The line in `data`, if it is whole."""
    if not data.endswith(b"}\n"):
        return None
    try:
        line = decode_line(data)
        return line if line.is_whole and (line.penstock or line.i > 0) else None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError):
        return None
