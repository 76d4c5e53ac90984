"""What a recording would answer: exchanges by what was asked, with everything the upstream said meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from penstock.observe.recording import Line
from penstock.observe.told_rows import told_rows
from penstock.observe.values import maybe_value
from penstock.wire.mcp.replies import one_line, printable

log = logging.getLogger("penstock")

HANDSHAKE = frozenset({"initialize", "server/discover"})
MATCHES = ("params", "order", "strict")
_KEPT_SAMPLES = 200  # requests of one method that are kept to say which was nearest

_encode = msgspec.json.Encoder(order="sorted").encode


class Event(Struct):
    """One message of the upstream's: its bytes, and when it came after the request."""

    raw: bytes
    after: float
    is_request: bool = False
    is_answered: bool = False  # whether the client answered this request of the upstream's


class Recorded(Struct):
    """One request that the upstream answered."""

    index: int
    method: str
    progress: bytes | None  # its progress token, as written
    time: float
    before: list[Event] = field(default_factory=list)
    answer: Event | None = None
    after: list[Event] = field(default_factory=list)


class Question(Struct):
    """What a request asks, without what differs each time."""

    method: str
    value: Any
    key: bytes

    @property
    def name(self) -> str:
        """The tool, prompt or resource, for people."""
        named = self.value.get("name", self.value.get("uri", "")) if isinstance(self.value, dict) else ""
        return named if isinstance(named, str) else ""


def question_of(raw: bytes) -> Question:
    """The question in a request."""
    message = maybe_value(raw)
    if not isinstance(message, dict):
        message = {}
    method = str(message.get("method", ""))
    value = message.get("params") or {}
    if isinstance(value, dict):
        value = {name: inner for name, inner in value.items() if name != "_meta"}
    known = {} if method in HANDSHAKE else value
    return Question(method, value, _encode([method, known]))


class ReplayBook:
    """All exchanges of a recording. Sessions that replay it are made with `reader`."""

    def __init__(self, path: str) -> None:
        self.by_key: dict[bytes, list[Recorded]] = {}
        self.by_method: dict[str, list[Recorded]] = {}
        self.in_order: list[Recorded] = []
        self._keys: dict[int, bytes] = {}
        self._samples: dict[str, list[Question]] = {}
        self.misses = 0
        _Filling(self).fill(path)

    def add(self, recorded: Recorded, question: Question) -> None:
        """Takes in a request that was answered."""
        self.by_key.setdefault(question.key, []).append(recorded)
        self.by_method.setdefault(question.method, []).append(recorded)
        self.in_order.append(recorded)
        self._keys[recorded.index] = question.key
        samples = self._samples.setdefault(question.method, [])
        if len(samples) < _KEPT_SAMPLES:
            samples.append(question)

    def key_of(self, recorded: Recorded) -> bytes:
        """What was asked in an exchange."""
        return self._keys[recorded.index]

    def missed(self, question: Question) -> str:
        """Counts a request without an answer, says which recorded one is nearest; what its sender is told."""
        self.misses += 1
        what = printable(f"{question.method} {question.name}".strip())
        log.warning("No recorded answer for %s. %s", what, self._nearest(question), extra={"is_wanted": True})
        return f"No recorded answer for {what}"

    def _nearest(self, question: Question) -> str:
        best: tuple[int, list[str], Question] | None = None
        for sample in self._samples.get(question.method, ()):
            paths = list(differences(sample.value, question.value))
            distance = len(paths) + (1000 if sample.name != question.name else 0)
            if best is None or distance < best[0]:
                best = (distance, paths, sample)
        if best is None:
            return f"Nothing with the method {one_line(question.method)} was recorded."
        shown = _encode(best[2].value)[:300].decode("utf-8", "replace")
        return one_line(
            f"The nearest was {shown}; it differs in {', '.join(best[1][:5]) or 'nothing but its order'}."
        )


class ReplaySession:
    """One client's way through the book."""

    def __init__(self, book: ReplayBook, match: str = "params", once: bool = False) -> None:
        self._book = book
        self._match = match
        self._once = once
        self._next: dict[object, int] = {}
        self._place = 0

    def find(self, question: Question) -> Recorded | None:
        """What answers the question, and, unless it is a probe of ours, is used up by it."""
        if self._match == "strict":
            return self._next_in_order(question)
        if self._match == "order" and question.method not in HANDSHAKE:
            return self._take(question.method, self._book.by_method.get(question.method, []))
        return self._take(question.key, self._book.by_key.get(question.key, []))

    def _take(self, key: object, found: list[Recorded]) -> Recorded | None:
        place = self._next.get(key, 0)
        if not found or (self._once and place >= len(found)):
            return None
        self._next[key] = place + 1
        return found[min(place, len(found) - 1)]

    def _next_in_order(self, question: Question) -> Recorded | None:
        order = self._book.in_order
        if self._place < len(order) and self._book.key_of(order[self._place]) == question.key:
            self._place += 1
            return order[self._place - 1]
        return None


class _Filling:
    """Reads a recording into a book: which message of the upstream's belongs to which request."""

    def __init__(self, book: ReplayBook) -> None:
        self._book = book
        self._open: dict[str, dict[int, tuple[Recorded, Question]]] = {}
        self._last: dict[str, Recorded] = {}
        self._asked: dict[int, Event] = {}

    def fill(self, path: str) -> None:
        for row in told_rows(path):
            line = row.line
            if line.kind == "request" and line.sender in ("client", "penstock"):
                if line.verdict in ("pass", "change"):
                    self._begin(line)
            elif line.sender == "upstream" and line.verdict != "skip":
                self._hear(line)
            elif line.sender == "client" and line.kind == "response" and line.re in self._asked:
                self._asked[line.re].is_answered = True

    def _begin(self, line: Line) -> None:
        raw = line.raw
        recorded = Recorded(line.i, "", progress_token(raw), line.t)
        question = question_of(raw)
        recorded.method = question.method
        self._open.setdefault(line.s, {})[line.i] = (recorded, question)

    def _hear(self, line: Line) -> None:
        waiting = self._open.setdefault(line.s, {})
        if line.kind == "response":
            recorded, question = waiting.pop(line.re, (None, None))
            if recorded is not None and question is not None:
                recorded.answer = Event(line.raw, line.t - recorded.time)
                self._book.add(recorded, question)
                self._last[line.s] = recorded
            return
        if line.kind not in ("request", "notification"):
            return
        owner = self._owner(waiting, line.raw)
        if owner is not None:
            event = Event(line.raw, line.t - owner.time, line.kind == "request")
            owner.before.append(event)
        elif line.s in self._last:
            last = self._last[line.s]
            event = Event(line.raw, line.t - last.time, line.kind == "request")
            last.after.append(event)
        else:
            return
        if event.is_request:
            self._asked[line.i] = event

    def _owner(self, waiting: dict[int, tuple[Recorded, Question]], raw: bytes) -> Recorded | None:
        if not waiting:
            return None
        token = progress_of(raw)
        for recorded, _ in waiting.values():
            if token is not None and recorded.progress == token:
                return recorded
        return next(reversed(waiting.values()))[0]


class _Meta(Struct):
    progressToken: Raw | UnsetType = UNSET  # as the wire has it


class _Params(Struct):
    meta: _Meta | None = field(name="_meta", default=None)
    progressToken: Raw | UnsetType = UNSET


class _Envelope(Struct):
    params: _Params | None = None


def progress_token(raw: bytes) -> bytes | None:
    """The token with which a request asks for progress, as written."""
    params = _params(raw)
    token = params.meta.progressToken if params is not None and params.meta is not None else UNSET
    return None if token is UNSET else bytes(token)


def progress_of(raw: bytes) -> bytes | None:
    """The token of a progress notification, as written."""
    params = _params(raw)
    token = UNSET if params is None else params.progressToken
    return None if token is UNSET else bytes(token)


def _params(raw: bytes) -> _Params | None:
    try:
        return msgspec.json.decode(raw, type=_Envelope).params
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """The paths at which two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys((*one, *other)):
            here = f"{path}.{name}" if path else str(name)
            if name in one and name in other:
                yield from differences(one[name], other[name], here)
            else:
                yield here
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}[{place}]")
    elif one != other or isinstance(one, bool) != isinstance(other, bool):
        yield path or "(everything)"
