"""What was changed in clients' files, with a copy of each as it was: the way back.

A record and its backup lie in the state folder, never beside the file: some clients load whatever lies there,
and project folders are committed. They are written before the file is, so that no change is without them.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from penstock.errors import ConfigError
from penstock.home.state_folder import make_folder, write_private

_KEPT = 20  # records of one file


class Change(Struct, frozen=True):
    """One entry that a change was about."""

    name: str
    path: tuple[str | int, ...]
    before: dict[str, Any] | None = None


class Record(Struct, frozen=True):
    """One change of one file."""

    id: str
    when: float
    action: str  # wrap, unwrap or undo
    path: str
    client: str
    before: str  # digests of the whole file
    after: str
    entries: tuple[Change, ...]


class Journal:
    """The records of one user."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "changes"

    def add(
        self,
        action: str,
        path: Path,
        client: str,
        digests: tuple[str, str],
        entries: list[Change],
        old: bytes,
    ) -> Record:
        """Writes a record and the backup that belongs to it."""
        make_folder(self._folder.parent)
        make_folder(self._folder)
        record = Record(self._new_id(), time.time(), action, str(path), client, *digests, tuple(entries))
        try:
            write_private(self._backup(record.id), old)
            write_private(self._folder / f"{record.id}.json", msgspec.json.encode(record))
        except OSError as why:
            raise ConfigError(
                f"Cannot keep a backup in {self._folder}", f"{why.strerror or why}; nothing was written"
            ) from None
        self._forget_old(str(path))
        return record

    def records(self) -> list[Record]:
        """All records, the oldest first; what cannot be read does not count."""
        out = []
        for file in self._folder.glob("*.json"):
            try:
                out.append(msgspec.json.decode(file.read_bytes(), type=Record))
            except (OSError, msgspec.DecodeError):
                continue
        return sorted(out, key=lambda record: record.when)

    def backup(self, record: Record) -> bytes:
        """The file as it was before the change. Raises ConfigError."""
        try:
            return self._backup(record.id).read_bytes()
        except OSError as why:
            raise ConfigError(f"The backup of {record.id} cannot be read", str(why.strerror)) from None

    def find(self, wanted: str | None) -> Record:
        """The record with this id, or the newest that can be undone. Raises ConfigError."""
        records = [record for record in self.records() if record.action != "undo"]
        undone = {record.entries[0].name for record in self.records() if record.action == "undo"}
        if wanted is None:
            left = [record for record in records if record.id not in undone]
            if not left:
                raise ConfigError("There is nothing to undo", "No change of penstock wrap or unwrap is left")
            return left[-1]
        for record in records:
            if record.id == wanted:
                return record
        newest = ", ".join(record.id for record in records[-5:])
        told = f"The newest are {newest}" if newest else "Penstock has changed nothing here yet"
        raise ConfigError(f"There is no change called {wanted}", told)

    def drop(self, record: Record) -> None:
        """Forgets a change that did not come about."""
        for path in (self._folder / f"{record.id}.json", self._backup(record.id)):
            path.unlink(missing_ok=True)

    def _backup(self, record_id: str) -> Path:
        return self._folder / f"{record_id}.before"

    def _new_id(self) -> str:
        while True:
            found = os.urandom(2).hex()
            if not (self._folder / f"{found}.json").exists():
                return found

    def _forget_old(self, path: str) -> None:
        for record in [record for record in self.records() if record.path == path][:-_KEPT]:
            self.drop(record)
