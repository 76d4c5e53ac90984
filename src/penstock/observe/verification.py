"""Asking an upstream again what a recording asked it, and comparing what it says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec
from msgspec import Struct, field

from penstock.errors import UpstreamError
from penstock.observe.replay import differences, question_of
from penstock.observe.replay_link import with_id
from penstock.observe.rows import MessageRow
from penstock.observe.told_rows import told_rows
from penstock.observe.values import maybe_value, value_of
from penstock.relay.contracts import UpstreamReceiver
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import (
    METHOD_NOT_FOUND,
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import error_reply, result_reply

_SENT = frozenset({"pass", "change", "answer"})
_LIST_ID = b'"penstock-verify-tools"'


class Link(Protocol):
    """What verification needs of a link to an upstream."""

    receiver: UpstreamReceiver | None

    def send(self, message: Message) -> None: ...

    async def connect(self) -> None: ...

    async def close(self) -> None: ...


class Step(Struct):
    """One message that a client sent, with what it was answered."""

    index: int
    raw: bytes
    is_request: bool
    method: str
    tool: str
    answer: bytes | None = None
    answer_index: int = 0


class Session(Struct):
    """What one client sent, in order, and how it answered what the upstream asked."""

    id: str
    steps: list[Step] = field(default_factory=list)
    answers: dict[str, list[bytes]] = field(default_factory=dict)  # by method of the upstream's request


class Result(Struct):
    """What came of one step."""

    step: Step
    state: str  # same, different, skipped, failed
    paths: list[str] = field(default_factory=list)
    raw: bytes | None = None
    why: str = ""


def read_sessions(path: str, is_gated: bool) -> tuple[list[Session], set[str]]:
    """The sessions of a recording, and the tools that it calls read-only. `is_gated`: compare with what the
    client was given, and not with what the upstream said."""
    sessions: dict[str, Session] = {}
    asked: dict[int, Step] = {}
    upstream_asked: dict[int, str] = {}
    read_only: set[str] = set()
    for row in told_rows(path):
        line = row.line
        session = sessions.setdefault(line.s, Session(line.s))
        if line.sender == "client" and line.kind in ("request", "notification"):
            if line.verdict in _SENT and row.method != "notifications/cancelled":
                step = Step(line.i, line.raw, line.kind == "request", row.method, row.tool)
                session.steps.append(step)
                asked[line.i] = step
        elif line.sender == "client" and line.kind == "response" and line.re in upstream_asked:
            session.answers.setdefault(upstream_asked.pop(line.re), []).append(line.raw)
        elif line.sender == "upstream" and line.kind == "request":
            upstream_asked[line.i] = row.method
        elif line.kind == "response" and line.sender in ("upstream", "penstock"):
            read_only |= set(_read_only_tools(row)) if row.method == "tools/list" else set()
            answered = asked.get(line.re)
            if answered is not None and (line.sender == "upstream" or is_gated):
                answered.answer = (line.sent or line.raw) if is_gated else line.raw
                answered.answer_index = line.i
    kept = [session for session in sessions.values() if any(step.is_request for step in session.steps)]
    return kept, read_only


def _read_only_tools(row: MessageRow) -> Iterator[str]:
    for tool in _tools(row.line.raw):
        hints = tool.get("annotations")
        if isinstance(hints, dict) and hints.get("readOnlyHint") is True:
            yield str(tool.get("name"))


def _tools(raw: bytes) -> list[dict[str, Any]]:
    try:
        tools = maybe_value(raw)["result"]["tools"]
    except (KeyError, TypeError):
        return []
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


class Verification:
    """One session, asked again over a link that is its own."""

    def __init__(self, link: Link, session: Session, read_only: set[str] | None, seconds: float) -> None:
        """`read_only`: the only tools that may be called; None: all."""
        self._link = link
        self._session = session
        self._read_only = read_only
        self._seconds = seconds
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self._answers = {method: deque(raws) for method, raws in session.answers.items()}
        self._lost: UpstreamError | None = None
        self._is_listed = False
        link.receiver = self

    async def run(self, ignored: list[str], on_asked: Callable[[int], None]) -> list[Result]:
        """Asks everything, one after another; `on_asked` hears of each."""
        await self._link.connect()
        results = []
        for step in self._session.steps:
            results.append(await self._take(step, ignored))
            on_asked(1)
        return [result for result in results if result.step.is_request]

    async def _take(self, step: Step, ignored: list[str]) -> Result:
        message = read_client_message(step.raw)
        assert isinstance(message, Message)
        if not step.is_request:
            self._link.send(message)
            return Result(step, "same")
        if step.answer is None:
            return Result(step, "skipped", why="it has no recorded answer")
        if step.method == "tools/call" and self._read_only is not None:
            await self._confirm_read_only(step)
            if step.tool not in self._read_only:
                return Result(step, "skipped", why="its tool is not annotated read-only")
        try:
            raw = await self._ask(message)
        except (UpstreamError, TimeoutError) as why:
            return Result(step, "failed", why=str(why).split("\n", 1)[0] or "no answer in time")
        paths = [path for path in compared(step.answer, raw) if not is_ignored(path, ignored)]
        return Result(step, "different" if paths else "same", paths, raw)

    async def _confirm_read_only(self, step: Step) -> None:
        """What the upstream calls read-only may have changed since: both must say so."""
        if self._is_listed or not self._read_only:
            return
        self._is_listed = True
        meta = (maybe_value(step.raw) or {}).get("params", {}).get("_meta")
        params = {"_meta": meta} if meta is not None else {}
        asked = read_client_message(
            b'{"jsonrpc":"2.0","id":%b,"method":"tools/list","params":%b}'
            % (_LIST_ID, msgspec.json.encode(params))
        )
        assert isinstance(asked, Message)
        try:
            listed = _tools(await self._ask(asked))
        except (UpstreamError, TimeoutError):
            listed = []
        hinted = {
            str(tool.get("name"))
            for tool in listed
            if isinstance(tool.get("annotations"), dict) and tool["annotations"].get("readOnlyHint") is True
        }
        assert self._read_only is not None
        self._read_only = self._read_only & hinted

    async def _ask(self, message: Message) -> bytes:
        if self._lost is not None:
            raise self._lost
        assert message.id_token is not None
        key = id_key(message.id_token)
        answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        self._link.send(message)
        try:
            return await asyncio.wait_for(answer, self._seconds)
        finally:
            self._waiting.pop(key, None)

    # --- as the receiver of the link ------------------------------------------------------------------------

    def from_upstream(self, raw: bytes) -> None:
        """Takes answers, and answers what the upstream asks as the client did."""
        message = read_upstream_message(raw)
        if isinstance(message, Batch) or message.id_token is None:
            return
        if message.kind is Kind.REQUEST:
            self._answer(message)
        elif message.kind is Kind.RESPONSE:
            waiting = self._waiting.get(id_key(message.id_token))
            if waiting is not None and not waiting.done():
                waiting.set_result(raw)

    def _answer(self, message: Message) -> None:
        assert message.id_token is not None
        known = self._answers.get(message.method or "")
        if known:
            raw = with_id(known.popleft() if len(known) > 1 else known[0], message.id_token)
        elif message.method == "ping":
            raw = result_reply(message.id_token, b"{}")
        else:
            raw = error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found")
        reply = read_upstream_message(raw)
        assert isinstance(reply, Message)
        self._link.send(reply)

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped, and told."""

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """An answer that cannot be read is none."""
        waiting = self._waiting.get(id_key(id_token)) if id_token is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_exception(UpstreamError("The answer cannot be read", why))

    def upstream_lost(self, error: UpstreamError) -> None:
        """Nobody answers any more."""
        self._lost = error
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)


def compared(one: bytes, other: bytes) -> list[str]:
    """The paths at which two answers differ, without their ids and what stands in the result's `_meta`."""
    return list(differences(_bare(one), _bare(other)))


def _bare(raw: bytes) -> Any:
    try:
        value = value_of(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
    if not isinstance(value, dict):
        return value
    value.pop("id", None)
    result = value.get("result")
    if isinstance(result, dict):
        result.pop("_meta", None)
    return value


def is_ignored(path: str, ignored: list[str]) -> bool:
    """Whether a path lies at or below one that is ignored; `*` is any step."""
    steps = _steps(path)
    for pattern in ignored:
        wanted = _steps(pattern)
        if len(wanted) <= len(steps) and all(
            want in ("*", step) for want, step in zip(wanted, steps, strict=False)
        ):
            return True
    return False


def _steps(path: str) -> list[str]:
    return path.replace("[", ".").replace("]", "").split(".")


def writes_in(sessions: list[Session], read_only: set[str]) -> int:
    """How many calls may change something."""
    return sum(
        step.method == "tools/call" and step.tool not in read_only
        for session in sessions
        for step in session.steps
        if step.answer is not None
    )


def shown_question(step: Step) -> str:
    """A request in a few words."""
    question = question_of(step.raw)
    return f"{question.method} {question.name}".strip()
