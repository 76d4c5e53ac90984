"""Asking the rules about messages, at once where they can say at once, later where something has to wait."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable

import msgspec

from penstock import limits
from penstock.errors import ProtocolError
from penstock.policy.exchange import Context, Direction, ExchangeState, SessionState
from penstock.policy.interception import Interceptor
from penstock.policy.outcome import Outcome, Pass, Refuse
from penstock.policy.verdict import FORWARD, Answer, Verdict
from penstock.wire.ambiguity import Members
from penstock.wire.eras import META_CLIENT
from penstock.wire.message import (
    INTERNAL_ERROR,
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.replies import error_reply

log = logging.getLogger("penstock")

Then = Callable[[Outcome], None]
OnPass = Callable[[Message], None]
OnRefuse = Callable[[bytes | None], None]


class Rules:
    """The rules in force. A reload puts a new interceptor here; exchanges under way keep the old one."""

    def __init__(self, interceptor: Interceptor | None) -> None:
        self.current = interceptor


class Asked:
    """A request that the rules have seen: under which rules, and what they remember of it."""

    __slots__ = ("interceptor", "state")

    def __init__(self, interceptor: Interceptor, state: ExchangeState) -> None:
        self.interceptor = interceptor
        self.state = state


class Review:
    """The rules, as one session meets them."""

    def __init__(self, rules: Rules, session: SessionState) -> None:
        self.session = session
        self._rules = rules
        self._waiting: set[asyncio.Task[None]] = set()
        self.on_idle: Callable[[], None] | None = None  # called when no message waits any more

    @property
    def is_waiting(self) -> bool:
        """Whether some message still waits for a verdict."""
        return bool(self._waiting)

    def watches(self, method: str | None, direction: Direction) -> bool:
        """Whether any rule could care about a message; one lookup."""
        rules = self._rules.current
        return rules is not None and rules.watches(method, direction)

    def note(self, message: Message, method: str | None) -> None:
        """Counts a message; `method` of a response is that of its request."""
        self.session.count(method, message.kind, "error" in message.envelope)

    def is_concerned(self, message: Message, verdict: Verdict) -> bool:
        """Whether the rules must be asked about a client's message that the tool gate judged so."""
        self.note(message, message.method)
        if message.method == "initialize":
            self.session.client_name = maybe_client_name(message)
        is_open = verdict is FORWARD or (isinstance(verdict, Answer) and verdict.is_list)
        return is_open and self.watches(message.method, "client")

    def begin(self, request: Message) -> Asked:
        """Takes note of a request before the rules are asked about it."""
        if self.session.client_name is None:
            self.session.client_name = maybe_client_name(request)
        assert self._rules.current is not None
        return Asked(self._rules.current, ExchangeState(request, time.monotonic()))

    def ask_client(self, message: Message, asked: Asked | None, on_pass: OnPass, on_refuse: OnRefuse) -> None:
        """Asks about a message of the client's: `on_pass` gets it as it may go on, `on_refuse` the reply to
        whoever sent it, None where there is none. Nothing that goes wrong here lets a message pass."""

        def then(outcome: Outcome) -> None:
            verdict = outcome.verdict
            if isinstance(verdict, Refuse):
                on_refuse(verdict.raw)
                return
            changed = _reread(verdict, message, read_client_message)
            if changed is not None:
                on_pass(changed)
            else:
                on_refuse(_internal_error(message) if message.kind is Kind.REQUEST else None)

        self._ask(message, "client", asked, then)

    def ask_upstream(
        self, message: Message, asked: Asked | None, on_pass: OnPass, on_refuse: OnRefuse
    ) -> None:
        """The same about the upstream's responses, requests and notifications. A blocked response passes as
        an error: somebody waits for it."""

        def then(outcome: Outcome) -> None:
            verdict = outcome.verdict
            if isinstance(verdict, Refuse):
                on_refuse(verdict.raw)
                return
            changed = _reread(verdict, message, read_upstream_message)
            if changed is None:
                changed = _reread(Pass(_internal_error(message), True), message, read_upstream_message)
            if changed is not None:
                on_pass(changed)

        self._ask(message, "upstream", asked, then)

    def _ask(self, message: Message, direction: Direction, asked: Asked | None, then: Then) -> None:
        rules = asked.interceptor if asked is not None else self._rules.current
        assert rules is not None
        state = asked.state if asked is not None else None
        context = Context(self.session, direction, time.monotonic(), state)
        decide = rules.on_client if direction == "client" else rules.on_upstream
        try:
            outcome = decide(message, context)
        except Exception:
            log.exception("The rules failed.")
            outcome = _closed(message)
        if isinstance(outcome, Outcome):
            then(outcome)
            return
        task = asyncio.get_running_loop().create_task(self._wait(outcome, message, then))
        self._waiting.add(task)
        task.add_done_callback(self._decided)

    def _decided(self, task: asyncio.Task[None]) -> None:
        self._waiting.discard(task)
        if not self._waiting and self.on_idle is not None:
            self.on_idle()

    def end(self) -> None:
        """The session is over: nobody waits for verdicts any more."""
        for task in self._waiting:
            task.cancel()

    async def _wait(self, awaited: Awaitable[Outcome], message: Message, then: Then) -> None:
        try:
            outcome = await awaited
        except Exception:
            log.exception("The rules failed.")
            outcome = _closed(message)
        then(outcome)


def _internal_error(message: Message) -> bytes:
    return error_reply(message.id_token, INTERNAL_ERROR, "Internal error")


def _closed(message: Message) -> Outcome:
    """The outcome when the rules themselves fail: nothing passes, and nobody is told why."""
    if message.kind is Kind.RESPONSE:
        return Outcome(Pass(_internal_error(message), True))
    return Outcome(Refuse(_internal_error(message) if message.kind is Kind.REQUEST else None, "", "error"))


def _reread(verdict: Pass, message: Message, read: Callable[[bytes], Message | Batch]) -> Message | None:
    """The message that passes; None when a rule made something of it that must not be forwarded."""
    if not verdict.changed:
        return message
    try:
        changed = read(verdict.raw)
    except ProtocolError as refusal:
        log.error("A rule made a message that must not be forwarded. %s.", refusal.reason)
        return None
    return changed if isinstance(changed, Message) else None


class Reviews:
    """The reviews of many sessions, and of clients that have none. The least used is forgotten first."""

    def __init__(self, rules: Rules, upstream: str) -> None:
        self._rules = rules
        self._upstream = upstream
        self._known: dict[bytes, Review] = {}

    def new(self, session_id: bytes | None = None, principal: bytes = b"") -> Review:
        """The review of a new session; `session_id` is the one that its client knows, if there is one."""
        state = SessionState(
            id=secrets.token_hex(8),
            started=time.monotonic(),
            mcp_session_id=session_id.decode("ascii", "replace") if session_id is not None else None,
            principal=principal.hex(),
            upstream=self._upstream,
        )
        return Review(self._rules, state)

    def find(self, key: bytes, session_id: bytes | None, principal: bytes) -> Review:
        """The review known under `key`, made when it is asked for first."""
        review = self._known.pop(key, None)
        if review is None:
            review = self.new(session_id, principal)
        self.keep(key, review)
        return review

    def keep(self, key: bytes, review: Review) -> None:
        """Knows `review` under `key` from now on."""
        self._known[key] = review
        if len(self._known) > limits.REVIEWS:
            self._known.pop(next(iter(self._known))).end()

    def forget(self, key: bytes) -> None:
        """The session is over."""
        review = self._known.pop(key, None)
        if review is not None:
            review.end()


def maybe_client_name(message: Message) -> str | None:
    """What the client calls itself, at its handshake or in the `_meta` of a modern request."""
    params = message.params or {}
    info = params.get("clientInfo") if message.method == "initialize" else None
    try:
        if info is None and "_meta" in params:
            info = msgspec.json.decode(params["_meta"], type=Members).get(META_CLIENT)
        return None if info is None else msgspec.json.decode(info, type=_ClientInfo).name
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class _ClientInfo(msgspec.Struct):
    name: str | None = None
