"""Asking the rules about messages, at once where they can say at once, later where something has to wait."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
from msgspec import structs

from penstock import limits
from penstock.errors import ProtocolError
from penstock.policy.rules.exchange import Context, Direction, ExchangeState, SessionState
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.outcome import Outcome, Pass, Refuse
from penstock.relay.pending import PendingTable
from penstock.wire.mcp.eras import decode_sender
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import error_reply

log = logging.getLogger("penstock")

Then = Callable[[Outcome], None]
OnPass = Callable[[Message], None]
OnRefuse = Callable[[bytes | None], None]


class Rules:
    """The rules in force. A reload puts a new interceptor here; exchanges under way keep the old one."""

    def __init__(self, interceptor: Interceptor | None) -> None:
        self.current = interceptor


class Asked:
    """A request that the rules have seen, or could have: under which rules, and what they remember of it."""

    __slots__ = ("interceptor", "state")

    def __init__(self, interceptor: Interceptor | None, state: ExchangeState) -> None:
        self.interceptor = interceptor
        self.state = state

    def watches(self, direction: Direction) -> bool:
        """Whether any of these rules could care about the message, or about its response; one lookup."""
        rules = self.interceptor
        return rules is not None and rules.watches(self.state.request.method, direction)


class Waiting:
    """A message about which the rules have not decided yet."""

    __slots__ = ("_review", "_task", "_then", "direction", "message")

    def __init__(self, review: Review, message: Message, direction: Direction, then: Then) -> None:
        self.message = message
        self.direction = direction
        self._review = review
        self._then = then
        self._task: asyncio.Task[None] | None = None

    def start(self, awaited: Awaitable[Outcome]) -> None:
        """Begins to wait."""
        self._task = asyncio.get_running_loop().create_task(self._wait(awaited))
        self._task.add_done_callback(lambda task: self._review.decided(self))

    def give_up(self, outcome: Outcome) -> None:
        """Waits no more; this is the outcome."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._review.decided(self)
            self._then(outcome)

    def cancel(self) -> None:
        """Whoever sent it wants no answer any more."""
        self.give_up(Outcome(Refuse(None, "", "cancelled")))

    async def _wait(self, awaited: Awaitable[Outcome]) -> None:
        try:
            outcome = await awaited
        except Exception:
            log.exception("The rules failed.")
            outcome = _closed(self.message, "Internal error")
        self._then(outcome)


class Review:
    """The rules, as one session meets them."""

    def __init__(self, rules: Rules, session: SessionState) -> None:
        self.session = session
        self._rules = rules
        self._waiting: dict[Waiting, None] = {}
        # Where no relay remembers them: requests whose answers may come by another way than they went.
        self.requests = PendingTable(limits.REVIEWED_REQUESTS)
        self.upstream_requests = PendingTable(limits.REVIEWED_REQUESTS)
        self.on_idle: Callable[[], None] | None = None  # called when no message waits any more

    @property
    def is_ruled(self) -> bool:
        """Whether there are rules."""
        return self._rules.current is not None

    @property
    def is_waiting(self) -> bool:
        """Whether some message still waits for a verdict."""
        return bool(self._waiting)

    def note(self, message: Message, method: str | None) -> None:
        """Counts a message; `method` of a response is that of its request."""
        self.session.count(method, message.kind, "error" in message.envelope)

    def begin(self, message: Message) -> Asked:
        """Takes note of a message: these rules are asked about it and its answer, reload or not."""
        if self.session.client_name is None or message.method == "initialize":
            self.session.client_name = maybe_client_name(message)
        self.note(message, message.method)
        return Asked(self._rules.current, ExchangeState(message, time.monotonic()))

    def begin_upstream(self, message: Message) -> Asked:
        """The same for a request or a notification of the upstream's."""
        self.note(message, message.method)
        return Asked(self._rules.current, ExchangeState(message, time.monotonic()))

    def ask_client(
        self, message: Message, asked: Asked, on_pass: OnPass, on_refuse: OnRefuse
    ) -> Waiting | None:
        """Asks about a message of the client's: `on_pass` gets it as it may go on, `on_refuse` the reply to
        whoever sent it, None where there is none (for a request: it was cancelled). Nothing that goes wrong
        here lets a message pass. Gives what waits, if it has to."""

        def then(outcome: Outcome) -> None:
            verdict = outcome.verdict
            if isinstance(verdict, Refuse):
                on_refuse(verdict.raw)
                return
            changed = _reread(verdict, message, read_client_message)
            if changed is not None:
                on_pass(changed)
            else:
                on_refuse(_error(message, "Internal error") if message.kind is Kind.REQUEST else None)

        return self._ask(message, "client", asked, then)

    def ask_upstream(
        self, message: Message, asked: Asked, on_pass: OnPass, on_refuse: OnRefuse
    ) -> Waiting | None:
        """The same about the upstream's responses, requests and notifications. A blocked response passes as
        an error: somebody waits for it."""

        def then(outcome: Outcome) -> None:
            verdict = outcome.verdict
            if isinstance(verdict, Refuse):
                on_refuse(verdict.raw)
                return
            changed = _reread(verdict, message, read_upstream_message)
            if changed is None:
                failed = Pass(_error(message, "Internal error"), True)
                changed = _reread(failed, message, read_upstream_message)
            if changed is not None:
                on_pass(changed)

        return self._ask(message, "upstream", asked, then)

    def _ask(self, message: Message, direction: Direction, asked: Asked, then: Then) -> Waiting | None:
        rules = asked.interceptor
        assert rules is not None
        context = Context(self.session, direction, time.monotonic(), asked.state, wall=time.time())
        decide = rules.on_client if direction == "client" else rules.on_upstream
        try:
            outcome = decide(message, context)
        except Exception:
            log.exception("The rules failed.")
            outcome = _closed(message, "Internal error")
        if isinstance(outcome, Outcome):
            then(outcome)
            return None
        waiting = Waiting(self, message, direction, then)
        self._waiting[waiting] = None
        waiting.start(outcome)
        return waiting

    def decided(self, waiting: Waiting) -> None:
        """A message waits no more."""
        if self._waiting.pop(waiting, waiting) is None and not self._waiting and self.on_idle is not None:
            self.on_idle()

    def cancel(self, id_token: bytes) -> bool:
        """Whether a request of the client's that still waits under this id was cancelled by this."""
        key = id_key(id_token)
        for waiting in self._waiting:
            message = waiting.message
            if waiting.direction == "client" and message.kind is Kind.REQUEST:
                assert message.id_token is not None
                if id_key(message.id_token) == key:
                    waiting.cancel()
                    return True
        return False

    def fail_requests(self, why: str) -> None:
        """The upstream will hear nothing more: whoever waits to be passed on hears why."""
        for waiting in [one for one in self._waiting if one.direction == "client"]:
            if waiting.message.kind is Kind.RESPONSE:
                waiting.cancel()
            else:
                waiting.give_up(_closed(waiting.message, why))

    def end(self, why: str = "The session has ended") -> None:
        """The session is over: nothing waits for verdicts any more."""
        self.fail_requests(why)
        for waiting in list(self._waiting):
            if waiting.message.kind is Kind.RESPONSE:
                waiting.give_up(_closed(waiting.message, why))
            else:
                waiting.cancel()


def _error(message: Message, why: str) -> bytes:
    return error_reply(message.id_token, INTERNAL_ERROR, why)


def _closed(message: Message, why: str) -> Outcome:
    """The outcome when the rules cannot be heard: nothing passes."""
    if message.kind is Kind.RESPONSE:
        return Outcome(Pass(_error(message, why), True))
    return Outcome(Refuse(_error(message, why) if message.kind is Kind.REQUEST else None, "", "error"))


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


class ReviewTable(Protocol):
    """Where reviews are remembered, for a while and not too many; whoever makes it ends what it forgets."""

    def get(self, key: bytes) -> Review | None: ...

    def put(self, key: bytes, value: Review) -> None: ...

    def pop(self, key: bytes) -> Review | None: ...

    def values(self) -> list[Review]: ...


class Reviews:
    """The reviews of many sessions, and of clients that have none."""

    def __init__(self, rules: Rules, upstream: str, known: ReviewTable) -> None:
        self._rules = rules
        self._upstream = upstream
        self._known = known

    def new(self, session_id: bytes | None = None, principal: bytes = b"") -> Review:
        """The review of a new session; `session_id` is the one that its client knows, if there is one."""
        state = SessionState(
            id=os.urandom(8).hex(),
            started=time.monotonic(),
            mcp_session_id=session_id.decode("ascii", "replace") if session_id is not None else None,
            principal=principal.hex(),
            upstream=self._upstream,
        )
        return Review(self._rules, state)

    def find(self, key: bytes, session_id: bytes | None, principal: bytes) -> Review:
        """The review known under `key`, made when it is asked for first."""
        review = self._known.get(key)
        if review is None:
            review = self.new(session_id, principal)
            self.keep(key, review)
        elif review.session.principal != principal.hex():
            # The session is the same, and so is what it remembers; the rights are not.
            review.session = structs.replace(review.session, principal=principal.hex())
        return review

    def keep(self, key: bytes, review: Review) -> None:
        """Knows `review` under `key` from now on."""
        self._known.put(key, review)

    def forget(self, key: bytes) -> None:
        """The session is over."""
        review = self._known.pop(key)
        if review is not None:
            review.end()

    def end_all(self, why: str) -> None:
        """The upstream is gone, and with it everything that waits."""
        for review in self._known.values():
            review.end(why)


def maybe_client_name(message: Message) -> str | None:
    """What the client calls itself, at its handshake or in the `_meta` of a modern request."""
    params = message.params or {}
    try:
        info = params.get("clientInfo") if message.method == "initialize" else None
        if info is None and "_meta" in params:
            said = decode_sender(params["_meta"]).client
            info = None if said is msgspec.UNSET else said
        return None if info is None else msgspec.json.decode(info, type=_ClientInfo).name
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class _ClientInfo(msgspec.Struct):
    name: str | None = None
