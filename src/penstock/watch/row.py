"""One message as a hub keeps it: what its row shows, and its bytes as long as there is room for them."""

from __future__ import annotations

from typing import Any

from penstock.observe.masking import Masker
from penstock.observe.rows import MessageRow, texts_at
from penstock.observe.values import maybe_value
from penstock.watch import bounds
from penstock.watch.masked_text import masked_text

_NAME = bounds.NAME_LENGTH
_PLAIN = frozenset("at session client era link kind method tool status verdict".split())


class HubRow:
    """A row of the traffic. It answers filters (`observe.filter_words.Row`)."""

    __slots__ = (
        "answer",
        "at",
        "client",
        "code",
        "era",
        "id",
        "index",
        "is_cut",
        "kind",
        "link",
        "masked",
        "masker",
        "method",
        "ms",
        "raw",
        "request",
        "rules",
        "sender",
        "sent",
        "seq",
        "session",
        "size",
        "source",
        "status",
        "time",
        "tokens",
        "tool",
        "us",
        "variant",
        "verdict",
        "why",
    )

    def __init__(self, seq: int, at: str, row: MessageRow, masker: Masker) -> None:
        line = row.line
        raw = line.raw
        self.seq = seq
        self.index = line.i
        self.at = at
        self.time = line.t
        self.session = line.s
        self.client = masker.text(row.client)
        self.era = line.era
        self.link = line.link
        self.sender = line.sender
        self.kind = line.kind
        self.method = masker.text(row.method)[:_NAME]
        if not self.method and self.sender == "penstock" and self.kind == "line":
            self.method = _own_word(raw)
        self.tool = masker.text(row.tool)[:_NAME]
        self.id = row.id[:_NAME]
        self.status = row.status
        self.verdict = line.verdict
        self.rules = [rule for rule in dict.fromkeys((line.by, *line.rules)) if rule]
        self.why = line.why
        self.code = row.code
        self.ms = row.ms
        self.us = line.us
        self.size = row.size
        self.is_cut = self.size > len(raw)
        self.tokens = row.tokens
        self.raw = raw
        self.sent = line.sent
        self.request = 0  # the row that it answers
        self.answer = 0  # the row that answers it
        self.source = ""  # whose it is: the path of a tap or a recording
        self.variant = line.variant
        self.masker = masker
        self.masked: str | None = None

    # --- for filters -------------------------------------------------------------------------------------

    def words(self, field: str) -> list[str]:
        """The values of a field of words."""
        if field in _PLAIN:  # most of them
            plain: str = getattr(self, field)
            return [plain] if plain else []
        if field == "rule":
            return self.rules
        if field == "code":
            return [str(self.code)] if self.code else []
        if field == "id":
            return [self.id, self.id.strip('"')] if self.id else []
        return [self.sender] if self.sender else []  # from

    def number(self, field: str) -> float | None:
        """The value of a field of numbers."""
        found: float | None = getattr(self, field)
        return found

    def text(self) -> str:
        """The message as text."""
        return self.raw.decode("utf-8", "replace")

    def inner(self, part: str, path: str) -> list[str]:
        """What stands at a path of the arguments or the result."""
        return _inner(self.raw, part, path)

    # --- for people --------------------------------------------------------------------------------------

    def masked_text(self) -> str:
        """The message without its secrets."""
        if self.masked is None:
            self.masked = masked_text(self.raw, self.masker)
        return self.masked

    def evict(self) -> int:
        """Keeps only the beginning of the bytes; gives how many were freed."""
        before = self.bytes_kept
        self.raw = self.raw[: bounds.RING_HEAD]
        self.sent = None if self.sent is None else self.sent[: bounds.RING_HEAD]
        self.is_cut = self.is_cut or self.size > len(self.raw)
        self.masked = None
        return before - self.bytes_kept

    @property
    def bytes_kept(self) -> int:
        """Bytes of messages that it holds."""
        return len(self.raw) + (len(self.sent) if self.sent is not None else 0)

    def facts(self) -> dict[str, object]:
        """The row, for programs and pages. Nothing of the message itself."""
        return {
            "seq": self.seq,
            "t": self.time,
            "at": self.at,
            "session": self.session,
            "client": self.client,
            "era": self.era,
            "from": self.sender,
            "kind": self.kind,
            "method": self.method,
            "tool": self.tool,
            "id": self.id,
            "status": self.status,
            "verdict": self.verdict,
            "rule": self.rules[0] if self.rules else "",
            "code": self.code,
            "ms": None if self.ms is None else round(self.ms, 1),
            "size": self.size,
            "tokens": self.tokens,
        }


class MaskedRow:
    """The same row for who sees masked messages only: a filter that saw more would tell what is masked."""

    __slots__ = ("_row", "time")

    def __init__(self, row: HubRow) -> None:
        self._row = row
        self.time = row.time

    def words(self, field: str) -> list[str]:
        """As of the row."""
        return self._row.words(field)

    def number(self, field: str) -> float | None:
        """As of the row."""
        return self._row.number(field)

    def text(self) -> str:
        """The message without its secrets."""
        return self._row.masked_text()

    def inner(self, part: str, path: str) -> list[str]:
        """What stands at a path, without its secrets."""
        return _inner(self._row.masked_text().encode("utf-8", "surrogatepass"), part, path)


def _own_word(raw: bytes) -> str:
    """What a note of our own is about: held, decided."""
    value = maybe_value(raw)
    word = value.get("penstock") if isinstance(value, dict) else None
    return word if isinstance(word, str) else ""


def _inner(raw: bytes, part: str, path: str) -> list[str]:
    value: Any = maybe_value(raw)
    if not isinstance(value, dict):
        return []
    if part == "result":
        return list(texts_at(value.get("result"), path))
    params = value.get("params")
    if isinstance(params, dict) and "arguments" in params and "name" in params:
        params = params["arguments"]
    return list(texts_at(params, path))
