"""Reading audits: their entries as rows for filters, and whether their chain holds."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from penstock.observe.audit_chain import GENESIS, Head, digest, split_line
from penstock.observe.journal import rotated_files
from penstock.observe.progress import Progress, size_of
from penstock.observe.reader import Unreadable, open_recording
from penstock.observe.rows import texts_at

log = logging.getLogger("penstock")

_DIRECT = {"session": "session", "client": "client", "from": "from", "kind": "kind", "method": "method"}
_DIRECT |= {"tool": "name", "verdict": "verdict", "rule": "rule", "code": "code", "at": "at"}


_BEGINS = b'{"seq":'


class AuditRow:
    """One entry."""

    def __init__(self, raw: bytes, entry: dict[str, Any]) -> None:
        self.raw = raw
        self.entry = entry

    @property
    def time(self) -> float:
        try:
            return datetime.fromisoformat(str(self.entry.get("time"))).timestamp()
        except ValueError:
            return 0.0

    def words(self, field: str) -> list[str]:
        if field == "status":
            outcome = self.entry.get("outcome")
            return [] if outcome is None else ["ok" if outcome == "ok" else "error"]
        if field == "id":
            found = self.entry.get("id")
            return (
                []
                if found is None
                else [found]
                if isinstance(found, str)
                else [msgspec.json.encode(found).decode()]
            )
        found = self.entry.get(_DIRECT.get(field, ""))
        return [] if found in (None, "") else [str(found)]

    def number(self, field: str) -> float | None:
        found = self.entry.get("ms") if field == "ms" else None
        return float(found) if isinstance(found, int | float) else None

    def text(self) -> str:
        return self.raw.decode("utf-8", "replace").rstrip("\n")

    def inner(self, part: str, path: str) -> list[str]:
        return list(texts_at(self.entry.get("args"), path)) if part == "arg" else []


def audit_rows(path: str) -> Iterator[AuditRow]:
    """The entries of an audit file; lines that are none are counted and told."""
    damaged = 0
    with open_recording(path, "audit") as file:
        for number, raw in enumerate(file):
            if number == 0 and raw.endswith(b"\n") and not raw.startswith(_BEGINS):
                raise Unreadable(f"This is no audit: {path}", "Its first line is not one of ours")
            try:
                entry = msgspec.json.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError):
                damaged += 1
                continue
            if isinstance(entry, dict):
                yield AuditRow(raw, entry)
    if damaged:
        log.warning("%s: %d lines could not be read.", path, damaged)


def maybe_audit_rows(path: str) -> Iterator[AuditRow] | None:
    """The entries, where the file is an audit; None where it is something else."""
    if not os.path.isfile(path):
        return None
    with open_recording(path) as file:
        is_audit = file.readline(1 << 20).startswith(_BEGINS)
    return audit_rows(path) if is_audit else None


class Verdict(Struct):
    """What verification found."""

    entries: int = 0
    head: Head = Head()
    fault: str | None = None  # the first, in a sentence


class _Entry(Struct):
    seq: int
    kind: str
    prev: str
    hash: str
    keyed: bool = False
    first: int = 0
    last: int = 0


class ChainCheck:
    """Follows a chain over its files, from the oldest on."""

    def __init__(self, key: bytes = b"", expected: list[Head] | None = None) -> None:
        self._key = key
        self._expected = {head.seq: head for head in expected or []}
        self._head: Head | None = None
        self._begins_at = 1
        self._dropped_to = 0
        self.entries = 0

    def check(self, paths: list[str]) -> Verdict:
        """Whether the chain over these files holds."""
        fault = None
        files = with_rotated(paths)
        progress = Progress("entries", size_of(files))
        for path in files:
            fault = self._check_file(path, progress)
            if fault is not None:
                break
        progress.end()
        head = self._head or Head()
        if fault is None and self._begins_at > 1 and self._dropped_to < self._begins_at - 1:
            fault = (
                f"entries {self._dropped_to + 1} to {self._begins_at - 1} are missing: "
                "no file has them, and no entry says that they were dropped"
            )
        if fault is None and self._expected:
            wanted = ", ".join(map(str, self._expected.values()))
            fault = f"the tail is cut: the chain ends at {head.seq}, and {wanted} was expected"
        return Verdict(self.entries, head, fault)

    def _check_file(self, path: str, progress: Progress) -> str | None:
        with open_recording(path, "audit") as file:
            for number, line in enumerate(file, 1):
                progress.add(len(line))
                if not line.endswith(b"\n"):
                    log.warning("%s: its last line is not whole and was left out.", path)
                    return None
                fault = self._check_line(line)
                if fault is not None:
                    return f"{path}:{number}: {fault}"
        return None

    def _check_line(self, line: bytes) -> str | None:
        parts = split_line(line)
        try:
            entry = msgspec.json.decode(line, type=_Entry)
        except (msgspec.DecodeError, UnicodeDecodeError):
            parts, entry = None, _Entry(0, "", "", "")
        after = self._head.seq if self._head is not None else 0
        if parts is None:
            return f"after entry {after} comes a line that is no entry"
        if entry.keyed and not self._key:
            raise Unreadable("This audit was made with a key", "Give it with --key-file")
        if self._head is None:
            self._begins_at = entry.seq
            if entry.seq == 1 and entry.prev != GENESIS:
                return "entry 1 does not begin a chain"
        elif entry.seq != self._head.seq + 1:
            return f"entry {entry.seq} comes after {self._head.seq}: entries are missing or out of order"
        elif entry.prev != self._head.hash:
            return f"entry {entry.seq} does not follow entry {self._head.seq}: one of them was replaced"
        if digest(parts[0], self._key) != parts[1]:
            return f"entry {entry.seq} was changed: its hash is not that of its bytes"
        return self._take(entry)

    def _take(self, entry: _Entry) -> str | None:
        self._head = Head(entry.seq, entry.hash)
        self.entries += 1
        if entry.kind == "dropped":
            self._dropped_to = max(self._dropped_to, entry.last)
        expected = self._expected.pop(entry.seq, None)
        if expected is not None and expected.hash != entry.hash:
            return f"entry {entry.seq} has the hash {entry.hash}, and {expected.hash} was expected"
        return None


def with_rotated(paths: list[str]) -> list[str]:
    """The files in the order of their entries, with those that were rotated away from them."""
    found: dict[str, int] = {}
    for path in paths:
        for one in [*(old for _, old in rotated_files(path)), path]:
            found.setdefault(one, _first_seq(one))
    return sorted(found, key=lambda one: found[one])


def _first_seq(path: str) -> int:
    with open_recording(path, "audit") as file:
        try:
            return msgspec.json.decode(file.readline(), type=Head).seq
        except msgspec.DecodeError:
            return 0


def head_of(path: str) -> Head:
    """Where the chain in a file stands."""
    last = None
    with open_recording(path, "audit") as file:
        for line in file:
            if line.endswith(b"\n"):
                last = line
    if last is None:
        raise Unreadable(f"There is nothing in {path}", "Nothing has been written to this audit yet")
    try:
        entry = msgspec.json.decode(last, type=_Entry)  # all of it: a recording has neither seq nor hash
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unreadable(f"This is no audit: {path}", "Its last line is not one of ours") from None
    return Head(entry.seq, entry.hash)
