"""The audit as it is written: who asked for what, and what became of it. Append-only, chained, masked.

Kept are requests and notifications of the classes `log` and `review`, and anything of any class that did not
pass untouched. Responses are not, unless they were changed or blocked; their outcomes are where asked for.
"""

from __future__ import annotations

import logging
import os
import time
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET, Raw, Struct

from penstock import __version__
from penstock.errors import ConfigError
from penstock.observe import bounds
from penstock.observe.audit_chain import Chain, Head, read_key, split_line
from penstock.observe.journal import Journal
from penstock.observe.masking import Masker
from penstock.observe.record import Record
from penstock.observe.rows import arguments_of
from penstock.observe.settings import AuditSettings
from penstock.policy.rules.embedded import carried_methods
from penstock.policy.rules.method_classes import MethodClass, MethodClasses
from penstock.wire.mcp.message import Kind, Message
from penstock.wire.mcp.replies import printable

log = logging.getLogger("penstock")

_KNOWN_NAMES = 1_000


class Auditor:
    """Writes the audit. Opened before the upstream starts; ConfigError when it cannot be."""

    def __init__(
        self,
        settings: AuditSettings,
        masker: Masker,
        rules: str = "",
        classes: MethodClasses = MethodClasses(),  # noqa: B008  # frozen
    ) -> None:
        self.settings = settings
        self.classes = classes
        self._masker = masker
        self._journal = Journal(settings.file, "audit", settings.mode)
        self._chain = Chain(self._find_head(), read_key(settings.key_file) if settings.key_file else b"")
        self._first_seq = self._find_first()
        self._open: dict[int, int] = {}  # record number of a request: its seq, where outcomes are wanted
        self._checkpoint_at = time.monotonic() + bounds.AUDIT_CHECKPOINT_SECONDS
        self._synced_at = 0.0
        self._names: dict[str, str] = {}  # methods, tools and clients as they are shown
        self._is_dirty = False
        self._due: list[tuple[str, dict[str, object]]] = []  # entries of our own, for the next write
        if self._journal.torn_bytes:
            self._due.append(("repair", {"bytes": self._journal.torn_bytes}))
        self._due.append(
            (
                "start",
                {"version": __version__, "pid": os.getpid(), "rules": rules, "keyed": self._chain.is_keyed},
            )
        )

    @property
    def path(self) -> str:
        """Where it is written."""
        return self._journal.path

    def begin(self) -> None:
        """Writes the start, so that a file which cannot be written is known before anything runs."""
        try:
            self.write_batch([])
        except OSError as why:
            raise ConfigError(f"Cannot write the audit: {self.path}", str(why.strerror or why)) from None

    def _find_head(self) -> Head:
        paths = [path for _, path in self._journal.rotated()]
        for data in self._journal.last_lines()[:1] or (_last_line(paths[-1]) if paths else []):
            try:
                return msgspec.json.decode(data, type=Head)
            except msgspec.DecodeError:
                raise ConfigError(
                    f"Cannot write the audit: {self.path}", "Its last line is not one of ours"
                ) from None
        return Head()

    def _find_first(self) -> int:
        if self._journal.is_empty:
            return self._chain.head.seq + 1
        with open(self.path, "rb") as file:
            try:
                return msgspec.json.decode(file.readline(), type=Head).seq
            except msgspec.DecodeError:
                return self._chain.head.seq + 1

    # --- which messages -----------------------------------------------------------------------------------

    def wants(self, record: Record) -> bool:
        """Whether the audit keeps this message."""
        if record.sender == "penstock" or (
            record.request is not None and record.request.sender == "penstock"
        ):
            return False  # our own questions, and the answers to them
        return record.verdict != "pass" or self.class_of(record) != "pass"

    def keeps(self, record: Record) -> bool:
        """Whether anything of this message is written: an entry, or how its exchange ended."""
        is_outcome = self.settings.outcomes and record.kind == "response" and record.request is not None
        return is_outcome or self.wants(record)

    def class_of(self, record: Record) -> MethodClass:
        """How much care the message gets."""
        if record.kind in ("request", "notification"):
            return self.classes.class_of(record.method)
        if record.kind != "response" or not (b"nputRequests" in record.raw or b"\\" in record.raw):
            return "pass"
        carried = carried_methods(Message(record.raw, Kind.RESPONSE, record.id_token, None))
        return "review" if any(self.classes.class_of(method) == "review" for method in carried) else "pass"

    # --- writing ------------------------------------------------------------------------------------------

    def write_batch(self, records: list[Record]) -> None:
        """Writes entries for the records, and what the clock asks for."""
        if self._journal.size >= self.settings.rotate and records:
            self._rotate()
        before = self._chain.head
        try:
            lines = self._due_lines()
            for record in records:
                lines += self._lines_of(record)
            if lines:
                self._journal.write(lines)
                self._is_dirty = True
        except OSError:
            self._chain.head = before
            raise
        self._due.clear()
        self._sync()
        if time.monotonic() >= self._checkpoint_at:
            self.checkpoint()

    def _due_lines(self) -> list[bytes]:
        now = stamp(time.time())
        return [self._chain.line(now, kind, members) for kind, members in self._due]

    def _lines_of(self, record: Record) -> list[bytes]:
        if self.settings.outcomes and record.kind == "response" and record.request is not None:
            asked = self._open.pop(record.request.index, None)
            if asked is not None:
                return [*self._message_lines(record), self._done_line(record, asked)]
        return self._message_lines(record)

    def _message_lines(self, record: Record) -> list[bytes]:
        if not self.wants(record):
            return []
        members: dict[str, object] = {
            "session": record.session_id,
            "client": self._name(record.session.client_name),
            "from": record.sender,
            "method": self._name(record.method),
            "name": self._name(record.tool),
            "id": Raw(record.id_token) if record.id_token and len(record.id_token) <= 256 else None,
            "class": self.class_of(record),
            "verdict": record.verdict,
        }
        why = record.why
        if why is not None:
            members["rule"] = why.rule
            members["reason"] = self._masker.cut(why.reason, bounds.AUDIT_ARGUMENT_BYTES)
            members["code"] = why.code or None
        if record.kind != "response" and self.settings.args == "masked":
            members["args"] = self._arguments(record)
        members["record"] = record.index
        members = {name: value for name, value in members.items() if value not in (None, "")}
        line = self._chain.line(stamp(record.received), "message", members)
        if self.settings.outcomes and record.kind == "request":
            if len(self._open) >= bounds.AUDIT_OPEN_CALLS:
                self._open.pop(next(iter(self._open)))
            self._open[record.index] = self._chain.head.seq
        return [line]

    def _name(self, name: str | None) -> str | None:
        if name is None:
            return None
        shown = self._names.get(name)
        if shown is None:
            shown = printable(self._masker.text(name))
            if len(self._names) >= _KNOWN_NAMES:
                self._names.clear()
            self._names[name] = shown
        return shown

    def _arguments(self, record: Record) -> object:
        params = arguments_of(record.raw)
        return None if params is None else self._masker.arguments(params, bounds.AUDIT_ARGUMENT_BYTES)

    def _done_line(self, record: Record, asked: int) -> bytes:
        assert record.request is not None
        members: dict[str, object] = {
            "session": record.session_id,
            "of": asked,
            "outcome": outcome_of(record),
            "ms": round((record.received - record.request.received) * 1000, 3),
        }
        return self._chain.line(stamp(record.received), "done", members)

    def write_lost(self, count: int, first: Record, last: Record) -> None:
        """Writes that so many records are missing."""
        self.note("lost", {"count": count, "first": first.index, "last": last.index})
        self.write_batch([])

    def note(self, kind: str, members: dict[str, object]) -> None:
        """An entry of our own, written with the next ones."""
        self._due.append((kind, members))

    def checkpoint(self) -> None:
        """Says where the chain stands, in the file and on stderr."""
        before = self._chain.head
        self._checkpoint_at = time.monotonic() + bounds.AUDIT_CHECKPOINT_SECONDS
        try:
            self._journal.write([self._chain.line(stamp(time.time()), "checkpoint", {})])
        except OSError:
            self._chain.head = before
            raise
        log.info("Audit checkpoint %s of %s.", self._chain.head, self.path, extra={"is_wanted": True})

    def _rotate(self) -> None:
        self.checkpoint()
        name = self._journal.rotate(self._first_seq)
        self._first_seq = self._chain.head.seq + 1
        self._due.insert(0, ("rotate", {"file": os.path.basename(name)}))
        old = self._journal.rotated()
        for first, path in old[: max(0, len(old) - self.settings.keep)]:
            last = _last_head(path)
            dropped = {
                "file": os.path.basename(path),
                "first": first,
                "last": last.seq,
                "hash_of_last": last.hash,
            }
            self._due.append(("dropped", dropped))
            self.write_batch([])  # before it goes, so that nothing ever goes unsaid
            os.unlink(path)

    def _sync(self) -> None:
        if self.settings.sync != "os" and self._is_dirty:
            now = time.monotonic()
            if self.settings.sync == "record" or now - self._synced_at >= 1.0:
                self._synced_at, self._is_dirty = now, False
                self._journal.sync()

    def close(self) -> None:
        """Writes the stop and where the chain stands."""
        if self._journal.size or self._due:
            lost = [("done", {"of": seq, "outcome": "lost"}) for seq in self._open.values()]
            self._due += lost
            self._due.append(("stop", {}))
            self.write_batch([])
            self.checkpoint()
            if self.settings.sync != "os":
                self._journal.sync()
        self._journal.close()


def outcome_of(record: Record) -> str:
    """How an exchange ended, by its response."""
    try:
        answer = msgspec.json.decode(record.raw, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "error"
    if answer.error is not UNSET:
        return "cancelled" if record.sender == "penstock" and b"cancel" in record.raw else "error"
    return "tool_error" if answer.result is not None and answer.result.isError is True else "ok"


class _Result(Struct):
    isError: object = None  # as the wire has it


class _Answer(Struct):
    result: _Result | None = None
    error: Raw | msgspec.UnsetType = UNSET


def stamp(moment: float) -> str:
    """A time as the audit writes it."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")[:26] + "Z"


def _last_line(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - (1 << 20)))
        return file.read().splitlines(keepends=True)[-1:]


def _last_head(path: str) -> Head:
    for line in _last_line(path):
        if split_line(line) is not None:
            try:
                return msgspec.json.decode(line, type=Head)
            except msgspec.DecodeError:
                pass
    return Head()
