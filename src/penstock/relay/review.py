"""Asking the rules about messages, at once where they can say at once, later where something has to wait."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable

import msgspec

from penstock import limits
from penstock.policy.exchange import Context, Direction, ExchangeState, SessionState
from penstock.policy.interception import Interceptor
from penstock.policy.outcome import Outcome, Pass, Refuse
from penstock.policy.verdict import FORWARD, Answer, Verdict
from penstock.wire.ambiguity import Members
from penstock.wire.eras import META_CLIENT
from penstock.wire.message import INTERNAL_ERROR, Kind, Message
from penstock.wire.replies import error_reply

log = logging.getLogger("penstock")

Then = Callable[[Outcome], None]


class Rules:
    """The rules in force. A reload puts a new interceptor here; exchanges under way keep the old one."""

    def __init__(self, interceptor: Interceptor) -> None:
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

    @property
    def is_waiting(self) -> bool:
        """Whether some message still waits for a verdict."""
        return bool(self._waiting)

    def watches(self, method: str | None, direction: Direction) -> bool:
        """Whether any rule could care about a message; one lookup."""
        return self._rules.current.watches(method, direction)

    def is_concerned(self, message: Message, verdict: Verdict) -> bool:
        """Whether the rules must be asked about a client's message that the tool gate judged so."""
        if message.method == "initialize":
            self.session.client_name = maybe_client_name(message)
        is_open = verdict is FORWARD or (isinstance(verdict, Answer) and verdict.is_list)
        return is_open and self.watches(message.method, "client")

    def begin(self, request: Message) -> Asked:
        """Takes note of a request before the rules are asked about it."""
        if self.session.client_name is None:
            self.session.client_name = maybe_client_name(request)
        return Asked(self._rules.current, ExchangeState(request, time.monotonic()))

    def ask(self, message: Message, direction: Direction, asked: Asked | None, then: Then) -> None:
        """Calls `then` with the outcome for `message`. `asked` is its exchange, if it has one.

        Nothing that goes wrong here lets a message pass.
        """
        interceptor = asked.interceptor if asked is not None else self._rules.current
        state = asked.state if asked is not None else None
        context = Context(self.session, direction, time.monotonic(), state)
        decide = interceptor.on_client if direction == "client" else interceptor.on_upstream
        try:
            outcome = decide(message, context)
        except Exception:
            log.exception("The rules failed.")
            outcome = closed(message, direction)
        if isinstance(outcome, Outcome):
            then(outcome)
            return
        task = asyncio.get_running_loop().create_task(self._wait(outcome, message, direction, then))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def end(self) -> None:
        """The session is over: nobody waits for verdicts any more."""
        for task in self._waiting:
            task.cancel()

    async def _wait(
        self, awaited: Awaitable[Outcome], message: Message, direction: Direction, then: Then
    ) -> None:
        try:
            outcome = await awaited
        except Exception:
            log.exception("The rules failed.")
            outcome = closed(message, direction)
        then(outcome)


def closed(message: Message, direction: Direction) -> Outcome:
    """The outcome when the rules themselves fail: nothing passes, and nobody is told why."""
    reply = error_reply(message.id_token, INTERNAL_ERROR, "Internal error") if message.id_token else None
    if message.kind is Kind.RESPONSE and direction == "upstream" and reply is not None:
        return Outcome(Pass(reply, True))
    return Outcome(Refuse(None if message.kind is not Kind.REQUEST else reply, "", "error"))


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
