"""Waiting for a verdict that a task finds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from penstock.gate.gate import error_message
from penstock.policy.exchange import Session
from penstock.policy.verdict import Answer, Decided, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message
from penstock.wire.mcp.replies import CANCELLED, error_reply

log = logging.getLogger("penstock")

FAILED = "Internal error"
_RESPONSE = Kind.RESPONSE


class TaskWait(Wait):
    """A message about which nothing is decided until a task has ended: rules that ask others, a disk."""

    __slots__ = ("_after", "_session", "_task")

    def __init__(
        self, message: Message, is_from_client: bool, session: Session, after: Callable[[Decided], Verdict]
    ) -> None:
        super().__init__(message, is_from_client)
        self._session = session
        self._after = after
        self._task: asyncio.Future[Decided] | None = None

    def start(self, awaited: Awaitable[Decided]) -> None:
        """Begins to wait."""
        self._session.waiting[self] = None
        self._task = asyncio.ensure_future(awaited)
        self._task.add_done_callback(self._decided)

    def cancel(self) -> None:
        """Whoever sent it wants no answer any more."""
        if self._next is not None:
            self._next.cancel()
        else:
            self._give_up(Drop(Why("rules", "cancelled", CANCELLED)))

    def fail(self, why: str) -> None:
        """It will not pass."""
        if self._next is not None:
            self._next.fail(why)
        else:
            self._give_up(closed(self.message, why))

    def _give_up(self, verdict: Decided) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._session.decided(self)
            self.settle(self._after(verdict))

    def _decided(self, task: asyncio.Future[Decided]) -> None:
        if not task.cancelled():
            failure = task.exception()
            if failure is not None:
                log.error("Deciding about a message failed.", exc_info=failure)
            self.settle(self._after(closed(self.message, FAILED) if failure is not None else task.result()))
        self._session.decided(self)


def closed(message: Message, reason: str) -> Decided:
    """The verdict when nobody can decide: nothing passes."""
    why = Why("rules", "error", reason, INTERNAL_ERROR)
    if message.kind is _RESPONSE:
        return Forward(error_message(message.id_token, INTERNAL_ERROR, reason), "block", why)
    if message.kind is Kind.REQUEST:
        raw = error_reply(message.id_token, INTERNAL_ERROR, reason)
        return Answer(raw, INTERNAL_ERROR, word="block", why=why)
    return Drop(why, "block")
