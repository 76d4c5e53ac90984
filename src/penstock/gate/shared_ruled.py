"""A gate with rules whose sessions other instances serve too: what rules set in one is read at all of them.

The record of a session is read before the rules look at a message, and what they set is written before the
message goes on: whoever acts on an answer finds its consequences everywhere. Loaded only with `shared`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol

from penstock.gate.ruled import RuledGate
from penstock.gate.session_table import TrackedSession
from penstock.gate.task_wait import TaskWait, closed
from penstock.policy.exchange import NO_REQUEST, Exchange, Session
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.shared_actions import SharedSetState
from penstock.policy.rules.tasks import BEGINS, BRINGS, named_tasks
from penstock.policy.verdict import Answer, Decided, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.message import Kind, Message

UNKNOWN = "The state of the session cannot be checked now"


class CannotTell(Exception):
    """What other instances know of a session cannot be found out."""


class SessionRecords(Protocol):
    """What all instances know of sessions. Every method raises CannotTell."""

    async def load(self, session: Session, names: frozenset[str], tasks: list[str]) -> None:
        """Puts what others have set into the session."""

    async def save(self, session: Session, changes: list[Any], tasks: dict[str, Message]) -> None:
        """Lets others know of what was set, and of tasks that began."""

    async def keep_request(self, session: Session, message: Message) -> None:
        """Lets others know of a question of the upstream's."""

    async def take_request(self, session: Session, id_token: bytes) -> Message | None:
        """The question that is answered under this id; only one answer gets it."""


class SharedRuledGate(RuledGate):
    """The gate with rules, among others."""

    records: SessionRecords
    _names: tuple[Interceptor | None, frozenset[str]] = (None, frozenset())

    def _decide(self, rules: Interceptor, message: Message, context: Context) -> Decided | Awaitable[Decided]:
        if not _is_everywhere(context.session):
            return super()._decide(rules, message, context)
        names, method = self._names_in(rules), _method(message, context)
        brings = method in BRINGS
        if not names and not brings and not (method == BEGINS and b"ask" in message.raw):
            return super()._decide(rules, message, context)
        tasks = named_tasks(message, context) if brings else []
        return self._decide_together(rules, message, context, names, tasks)

    async def _decide_together(
        self, rules: Interceptor, message: Message, context: Context, names: frozenset[str], tasks: list[str]
    ) -> Decided:
        session = context.session
        context.changes = []
        try:
            await self.records.load(session, names, tasks)
            before = dict(session.tasks)
            said = super()._decide(rules, message, context)
            decided = said if isinstance(said, Forward | Answer | Drop) else await said
            begun = {task: request for task, request in session.tasks.items() if task not in before}
            if context.changes or begun:
                await self.records.save(session, context.changes, begun)
        except CannotTell:
            return closed(message, UNKNOWN)
        return decided

    def _names_in(self, rules: Interceptor) -> frozenset[str]:
        if self._names[0] is not rules:
            every = (*rules.config.rules, *rules.config.transport_rules)
            set_here = {
                action.key for rule in every for action in rule.actions if isinstance(action, SharedSetState)
            }
            self._names = rules, frozenset(set_here)
        return self._names[1]

    # --- questions of the upstream's ---------------------------------------------------------------------

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        """The verdict; a question that others may get the answer to is told to them before it goes on."""
        verdict = super().upstream_says(message, exchange)
        if message.kind is not Kind.REQUEST or not self._shares_questions(exchange):
            return verdict
        if not isinstance(verdict, Forward | Wait):
            return verdict
        wait = TaskWait(message, False, exchange.session, lambda said: said)
        wait.start(self._when_told(verdict, message, exchange.session))
        return wait

    async def _when_told(self, verdict: Forward | Wait, message: Message, session: Session) -> Decided:
        decided = await _settled(verdict)
        if isinstance(decided, Forward):
            try:
                await self.records.keep_request(session, decided.message or message)
            except CannotTell:
                return closed(message, UNKNOWN)
        return decided

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        """The verdict; to an answer whose question was asked elsewhere, once that is known."""
        is_strange = message.kind is Kind.RESPONSE and exchange.request is NO_REQUEST
        if not is_strange or message.id_token is None or not self._shares_questions(exchange):
            return super().client_says(message, exchange)
        wait = TaskWait(message, True, exchange.session, lambda said: said)
        wait.start(self._answered(message, exchange, message.id_token))
        return wait

    async def _answered(self, message: Message, exchange: Exchange, id_token: bytes) -> Decided:
        try:
            question = await self.records.take_request(exchange.session, id_token)
        except CannotTell:
            return Drop(Why("rules", "drop", UNKNOWN))
        if question is not None:
            exchange.request, exchange.rules = question, self._rules.current
            exchange.method = question.method or ""
        return await _settled(super().client_says(message, exchange))

    def _shares_questions(self, exchange: Exchange) -> bool:
        rules = self._rules.current
        return rules is not None and rules.watches_answers_of_clients and _is_everywhere(exchange.session)


async def _settled(verdict: Verdict) -> Decided:
    if not isinstance(verdict, Wait):
        return verdict  # type: ignore[return-value]  # nothing is held that is no tool call
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    verdict.then(lambda said: None if done.done() else done.set_result(said))
    try:
        decided: Decided = await done
    except asyncio.CancelledError:
        verdict.cancel()
        raise
    return decided


def _is_everywhere(session: Session) -> bool:
    return isinstance(session, TrackedSession) and session.is_everywhere


def _method(message: Message, context: Context) -> str | None:
    if message.method is None and context.exchange is not None:
        return context.exchange.request.method
    return message.method
