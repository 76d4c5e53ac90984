"""The recording as it is written: lines in the order of their numbers, over runs and rotations."""

from __future__ import annotations

import os
import time

from penstock import __version__
from penstock.observe.journal import Journal, rotated_files
from penstock.observe.masking import Masker
from penstock.observe.reader import maybe_line
from penstock.observe.record import Record
from penstock.observe.recording import FORMAT, Header, encode_record, header_line, lost_line
from penstock.observe.settings import RecordSettings


class Recorder:
    """Writes records to a journal. Opened before the upstream starts; ConfigError when it cannot be."""

    def __init__(self, settings: RecordSettings, rules: str = "", masker: Masker | None = None) -> None:
        """`rules` is the hash of the rules in force; `masker` is set where recordings are masked."""
        self._settings = settings
        self._masker = masker
        self._rules = rules
        self._run = os.urandom(4).hex()
        self._journal = Journal(settings.file, "recording")
        self.last_index = self._find_last()
        self._first_index = self._find_first()
        self._header_due = True

    @property
    def path(self) -> str:
        """Where it is written."""
        return self._journal.path

    def _find_last(self) -> int:
        for data in self._journal.last_lines():
            line = maybe_line(data)
            if line is not None and line.i:
                return line.i
        for _, path in reversed(rotated_files(self._journal.path)):
            with open(path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - (64 << 20)))
                for data in reversed(file.read().splitlines(keepends=True)):
                    line = maybe_line(data)
                    if line is not None and line.i:
                        return line.i
        return 0

    def _find_first(self) -> int:
        """The number that the file begins with, for its name once it is rotated."""
        if self._journal.is_empty:
            return self.last_index + 1
        with open(self._journal.path, "rb") as file:
            for data in file:
                line = maybe_line(data)
                if line is not None and line.i:
                    return line.i
        return self.last_index + 1

    def write_batch(self, records: list[Record]) -> None:
        """Writes the records, after what is due: a header, a rotation."""
        if self._journal.size >= self._settings.rotate and records:
            self._rotate(records[0].index)
        if not records:
            self._write_header([])
            return
        pieces: list[bytes] = []
        for record in records:
            pieces += encode_record(self._masker.masked_record(record) if self._masker else record)
        self._write_header(pieces)
        self.last_index = records[-1].index

    def _write_header(self, pieces: list[bytes]) -> None:
        if self._header_due or self._journal.is_empty:
            header = Header(
                penstock="recording",
                v=FORMAT,
                run=self._run,
                t=round(time.time(), 6),
                version=__version__,
                rules=self._rules,
                masked=self._masker is not None,
            )
            pieces = [header_line(header), *pieces]
        self._journal.write(pieces)
        self._header_due = False

    def _rotate(self, first: int) -> None:
        self._journal.rotate(self._first_index)
        self._first_index = first
        self._header_due = True
        old = self._journal.rotated()
        for _, path in old[: max(0, len(old) - self._settings.keep)]:
            os.unlink(path)

    def write_lost(self, count: int, first: Record, last: Record) -> None:
        """Writes the line that stands for records which were lost."""
        line = lost_line(last.index, last.received, count, first.index, last.index)
        self._write_header([line])
        self.last_index = last.index

    def close(self) -> None:
        """Lets go of the file."""
        self._journal.close()
