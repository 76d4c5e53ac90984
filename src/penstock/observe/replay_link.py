"""A recording in the place of an upstream: it answers as was recorded, and never asks anybody else."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.observe.replay import (
    Event,
    Question,
    Recorded,
    ReplayBook,
    ReplaySession,
    progress_of,
    progress_token,
    question_of,
)
from penstock.relay.contracts import LinkFacts, UpstreamReceiver
from penstock.relay.tool_list_pages import is_own_id
from penstock.wire.json.ambiguity import members
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message, read_upstream_message
from penstock.wire.mcp.replies import error_reply, result_reply


class ReplayLink:
    """One connection to a recording."""

    facts = LinkFacts("replay")

    def __init__(self, book: ReplayBook, match: str, once: bool, is_real_time: bool) -> None:
        self.receiver: UpstreamReceiver | None = None
        self.peer: Any = None
        self._book = book
        self._session = ReplaySession(book, match, once)
        self._probe = ReplaySession(book)  # for what Penstock itself asks: that uses nothing up
        self._is_real_time = is_real_time
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: dict[bytes, asyncio.Event] = {}
        self._may_talk = asyncio.Event()
        self._may_talk.set()
        self._paused: set[str] = set()

    @property
    def untaken(self) -> int:
        """Nothing ever waits here."""
        return 0

    @property
    def how_it_ended(self) -> str:
        """In words."""
        return "it was a recording"

    def send(self, message: Message) -> None:
        """Takes a message; a request gets what was recorded for it."""
        if message.kind is Kind.RESPONSE and message.id_token is not None:
            answered = self._answers.get(id_key(message.id_token))
            if answered is not None:
                answered.set()
        elif message.kind is Kind.REQUEST and message.id_token is not None:
            self._start(message)

    def _start(self, message: Message) -> None:
        question = question_of(message.raw)
        is_ours = is_own_id(message.id_token)
        found = (self._probe if is_ours else self._session).find(question)
        task = asyncio.get_running_loop().create_task(self._play(message, question, found, is_ours))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _play(
        self, message: Message, question: Question, found: Recorded | None, is_ours: bool
    ) -> None:
        assert message.id_token is not None
        if found is None or found.answer is None:
            await self._tell_miss(message.id_token, question, is_ours)
            return
        started = asyncio.get_running_loop().time()
        token = progress_token(message.raw)
        for event in [] if is_ours else found.before:
            await self._say(event, started, token, found)
        await self._wait_until(started + found.answer.after)
        await self._hear(with_id(found.answer.raw, message.id_token))
        for event in [] if is_ours else found.after:
            await self._say(event, started, token, found)

    async def _tell_miss(self, id_token: bytes, question: Question, is_ours: bool) -> None:
        if question.method == "ping":
            await self._hear(result_reply(id_token, b"{}"))
        elif is_ours:
            await self._hear(
                error_reply(id_token, INTERNAL_ERROR, f"No recorded answer for {question.method}")
            )
        else:
            await self._hear(error_reply(id_token, INTERNAL_ERROR, self._book.missed(question)))

    async def _say(self, event: Event, started: float, token: bytes | None, found: Recorded) -> None:
        await self._wait_until(started + event.after)
        raw = event.raw
        progress = progress_of(raw)
        if progress is not None and token is not None and progress == found.progress:
            raw = _with_progress(raw, token)
        if not event.is_request:
            await self._hear(raw)
            return
        asked = read_upstream_message(raw)
        assert isinstance(asked, Message)
        assert asked.id_token is not None
        answered = self._answers[id_key(asked.id_token)] = asyncio.Event()
        await self._hear(raw)
        if event.is_answered:
            await answered.wait()
        self._answers.pop(id_key(asked.id_token), None)

    async def _wait_until(self, moment: float) -> None:
        if self._is_real_time:
            await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))

    async def _hear(self, raw: bytes) -> None:
        await self._may_talk.wait()
        if self.receiver is not None:
            self.receiver.from_upstream(raw)

    def pause(self, reason: str) -> None:
        """Says nothing for a while."""
        self._paused.add(reason)
        self._may_talk.clear()

    def resume(self, reason: str) -> None:
        """Takes back a reason for silence."""
        self._paused.discard(reason)
        if not self._paused:
            self._may_talk.set()

    def cork(self) -> None:
        """There is nothing to collect."""

    def uncork(self) -> None:
        """There is nothing to write."""

    async def connect(self) -> None:
        """It is there."""

    async def stop(self, grace: float) -> None:
        """Ends it; what is under way may be said first."""
        if self._tasks and grace:
            await asyncio.wait(self._tasks, timeout=min(grace, 1.0))
        self.kill()

    def kill(self) -> None:
        """Ends it at once."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Ends it."""
        self.kill()


def with_id(raw: bytes, id_token: bytes) -> bytes:
    """A response with another id and no other byte changed."""
    message = read_upstream_message(raw)
    assert isinstance(message, Message)
    return with_value(raw, message.envelope, "id", id_token)


def _with_progress(raw: bytes, token: bytes) -> bytes:
    message = read_upstream_message(raw)
    assert isinstance(message, Message)
    params = bytes(message.envelope["params"])
    return with_value(
        raw, message.envelope, "params", with_value(params, members(params), "progressToken", token)
    )
