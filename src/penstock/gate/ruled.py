"""A gate with rules: what the tool filter has nothing against, the rules look at, in both directions.

Loaded only where a configuration file was named. Most rules answer at once; one that has to wait holds this
message and no other. Nothing that goes wrong here lets a message pass.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import structs

from penstock import limits
from penstock.errors import ProtocolError
from penstock.gate.client_name import maybe_client_name
from penstock.gate.gate import Gate
from penstock.gate.task_wait import FAILED, TaskWait, closed
from penstock.policy.exchange import NO_REQUEST, Exchange, Session
from penstock.policy.rules.exchange import Context, Direction
from penstock.policy.tools import tool_gate
from penstock.policy.tools.schema import SchemaCheck
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import (
    FORWARD,
    HOLD,
    Answer,
    Approval,
    Decided,
    Drop,
    Forward,
    Verdict,
    Wait,
    Why,
    is_open,
)
from penstock.wire.mcp.message import (
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import printable

if TYPE_CHECKING:  # loaded only where people are asked, and where a file has rules
    from penstock.gate.held import Asker
    from penstock.policy.rules.interceptor import Interceptor

log = logging.getLogger("penstock")

_RESPONSE = Kind.RESPONSE


class Rules:
    """The rules in force. A reload puts a new interceptor here; exchanges under way keep the old one."""

    def __init__(self, interceptor: Interceptor | None) -> None:
        self.current = interceptor

    def replace(self, interceptor: Interceptor | None) -> None:
        """Other rules are in force."""
        self.current = interceptor

    def pick(self, session: Session, method: str | None) -> Interceptor | None:
        """The rules for a message of this session."""
        return self.current


class RuledGate(Gate):
    """The plain gate, with the rules behind it on the way up and on the way back."""

    def __init__(
        self,
        choice: ToolFilter,
        schema: SchemaCheck | None,
        rules: Rules,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """The clocks are others where recorded messages are judged again."""
        super().__init__(choice, schema)
        self._told: dict[tuple[str, str, str], None] = {}  # blocks that people have heard of
        self._clock = clock
        self._wall = wall
        self.may_object = True
        self._rules = rules
        self.asker: Asker | None = None  # who asks people, where a rule wants them asked

    @property
    def keeps_requests(self) -> bool:  # type: ignore[override]  # it depends on what is in force
        """Whether it must be told which request a message belongs to: without rules nothing is remembered."""
        return self._rules.current is not None

    @property
    def is_ruled(self) -> bool:
        """Whether rules are in force at the moment: a reload may take them away."""
        return self._rules.current is not None

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        """The plain verdict, then the rules', then, on what they changed, the plain one again: no rule makes
        a hidden tool callable."""
        if message.kind is _RESPONSE:
            return self._client_answers(message, exchange)
        session = exchange.session
        if message.method == "notifications/cancelled" and self._cancels_what_waits(message, session):
            return Drop(Why("rules", "drop", "it cancels a request that never went upstream"))
        verdict = Gate.client_says(self, message, exchange)  # each message would pay for a `super()` twice
        if verdict is HOLD:
            return verdict
        if session.client_name is None or message.method == "initialize":
            session.client_name = maybe_client_name(message)
        self._begin(message, exchange)
        # Most files have no rules, or none yet: those who have none are asked nothing more.
        if exchange.rules is not None and is_open(verdict) and _watches(exchange, "client"):
            return self._ask(message, exchange, "client", lambda said: self._judged(said, message, exchange))
        return verdict if verdict is FORWARD else self._listed(verdict, exchange)

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        """The plain verdict, then, on what may pass, the rules'."""
        verdict = Gate.upstream_says(self, message, exchange)
        if message.kind is not _RESPONSE:
            self._begin(message, exchange)
        else:
            exchange.session.count(exchange.request.method, _RESPONSE, not message.has_result)
            exchange.response, exchange.answered = message, self._clock()
            if exchange.request is NO_REQUEST:
                # A complaint that names no request is nobody's answer, and harmless.
                is_complaint = message.id_token in (None, b"null") and not message.has_result
                if self.is_ruled and not is_complaint:
                    return Drop(Why("rules", "drop", "it answers a question that nobody asked"))
                exchange.rules = self._rules.pick(exchange.session, None)
                exchange.request = message
        shown = message
        if isinstance(verdict, Forward) and verdict.word == "change" and verdict.message is not None:
            shown = exchange.response = verdict.message  # what a lock has left of it
        elif verdict is not FORWARD:
            return verdict
        if exchange.rules is None or not _watches(exchange, "upstream"):
            return verdict
        return self._ask(shown, exchange, "upstream", lambda said: _passed_or(verdict, said, shown))

    def _client_answers(self, message: Message, exchange: Exchange) -> Verdict:
        if exchange.request is NO_REQUEST:
            rules = self._rules.pick(exchange.session, None)
            if rules is not None and rules.watches_answers_of_clients:
                # Servers convert ids before they look for the question, "0" to 0 and "" too: nobody can tell
                # what this answers to whom, so a rule about answers would miss it.
                return Drop(Why("rules", "drop", "it answers a question that nobody asked"))
            self._begin(message, exchange)
        else:
            exchange.session.count(exchange.request.method, _RESPONSE, not message.has_result)
            exchange.response, exchange.answered = message, self._clock()
        if not _watches(exchange, "client"):
            return FORWARD
        return self._ask(message, exchange, "client", lambda said: _passed_up(said, message))

    def _begin(self, message: Message, exchange: Exchange) -> None:
        """These rules are asked about the message and its answer, reload or not."""
        exchange.session.count(message.method, message.kind)
        exchange.rules = self._rules.pick(exchange.session, message.method)
        exchange.request = message
        exchange.weight = len(message.raw)
        exchange.started = exchange.started or self._clock()

    def _cancels_what_waits(self, message: Message, session: Session) -> bool:
        # Where clients share a session, an id may be another client's; whoever cancels there hangs up.
        token = None if session.is_shared else (message.params or {}).get("requestId")
        return token is not None and session.cancel(bytes(token))

    def _judged(self, said: Decided, message: Message, exchange: Exchange) -> Verdict:
        """The verdict on a client's request or notification about which the rules have decided."""
        verdict = _passed_up(said, message)
        if not isinstance(verdict, Forward):
            return verdict
        again = super().client_says(verdict.message or message, exchange)
        if again is FORWARD:
            return verdict
        if again is HOLD:  # a rule made a tool call of something else, before any catalog was needed
            return closed(message, FAILED)
        return self._listed(again, exchange)

    def _listed(self, verdict: Verdict, exchange: Exchange) -> Verdict:
        """A list from the catalog is a response like any other to the rules."""
        if not isinstance(verdict, Answer) or not verdict.is_list:
            return verdict
        exchange.session.count(exchange.request.method, _RESPONSE)
        if not _watches(exchange, "upstream"):
            return verdict
        listed = read_upstream_message(verdict.raw)
        assert isinstance(listed, Message)

        def answer(said: Decided) -> Verdict:
            passed = _passed_back(said, listed)
            if not isinstance(passed, Forward):
                return passed
            if passed.message is None:
                return verdict
            word = "answer" if passed.word == "change" else passed.word
            return Answer(passed.message.raw, is_list=True, word=word, why=passed.why)

        return self._ask(listed, exchange, "upstream", answer)

    def _ask(
        self,
        message: Message,
        exchange: Exchange,
        direction: Direction,
        after: Callable[[Decided], Verdict],
    ) -> Verdict:
        rules = exchange.rules
        assert rules is not None
        context = Context(exchange.session, direction, self._clock(), exchange, wall=self._wall())
        try:
            said = self._decide(rules, message, context)
        except Exception:
            log.exception("The rules failed.")
            said = closed(message, FAILED)

        def then(said: Decided) -> Verdict:
            if said.word == "block" and said.why is not None:
                self._say_once(said.why.rule, exchange)
            if not isinstance(said, Forward) or said.approval is None:
                return after(said)
            plain = FORWARD if said.message is None and said.why is None else _agreed(said)
            return self._approved(after(plain), message, exchange, direction == "client", said.approval)

        if isinstance(said, Forward | Answer | Drop):
            return then(said)
        wait = TaskWait(message, direction == "client", exchange.session, then)
        wait.start(said)
        return wait

    def _decide(self, rules: Interceptor, message: Message, context: Context) -> Decided | Awaitable[Decided]:
        decide = rules.on_client if context.direction == "client" else rules.on_upstream
        return decide(message, context)

    def _approved(
        self, verdict: Verdict, message: Message, exchange: Exchange, is_from_client: bool, asked: Approval
    ) -> Verdict:
        """Lets a person decide about what would go on: last of all, so that whoever blocks has blocked."""
        from penstock.gate.held import NOT_RELEASED, Edited, HumanWait, blocked, with_edit

        is_list = isinstance(verdict, Answer) and verdict.is_list
        if not isinstance(verdict, Forward) and not is_list:
            return verdict
        if isinstance(verdict, Forward) and verdict.word == "block":
            return verdict
        if self.asker is None:
            log.error("Rule %s wants a person to be asked, and nobody can be.", asked.rule)
            return blocked(message, asked.rule, "approve", NOT_RELEASED)
        passed = (verdict.message if isinstance(verdict, Forward) else None) or message

        def go_on(released: Message) -> Verdict:
            if released is passed:
                return verdict
            why = Why(asked.rule, "edit", "a person has changed it")
            exchange.modified += (asked.rule,)
            again = (self.client_says if is_from_client else self.upstream_says)(released, exchange)
            if isinstance(again, Wait):
                return Edited(again, released, why)
            return with_edit(again, released, why)

        wait = HumanWait(passed, is_from_client, exchange, asked.rule, go_on, lambda held, verdict: None)
        self.asker.hold(wait, "approve", asked)
        return wait

    def _say_once(self, rule: str, exchange: Exchange) -> None:
        """Tells people of a block, once for each rule, method and tool of a session."""
        request = exchange.request
        what = " ".join(part for part in (request.method, request.tool) if part) or "a message"
        key = (exchange.session.id, rule, what[: limits.NAME_ECHO])
        if key not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.pop(next(iter(self._told)))
            self._told[key] = None
            log.info("Rule %s blocked %s in session %s.", rule, printable(what), exchange.session.id[:8])


_MOST_TOLD = 1_000


def _agreed(said: Forward) -> Forward:
    """The same verdict, once a person has been asked."""
    return structs.replace(said, approval=None)


def _watches(exchange: Exchange, direction: Direction) -> bool:
    """Whether any of these rules could care about the message, or about its response; one lookup."""
    rules = exchange.rules
    return rules is not None and rules.watches(exchange.request.method, direction)


def _passed_up(said: Decided, message: Message) -> Decided:
    """What the rules decided about a message of the client's."""
    if isinstance(said, Answer) and message.method == tool_gate.CALL:
        # A call has no HTTP status of its own, whatever becomes of it: see the tool gate.
        return structs.replace(said, code=0)
    return _reread(said, message, read_client_message)


def _passed_or(verdict: Verdict, said: Decided, shown: Message) -> Verdict:
    """What the rules make of a message; where they have nothing against it, what was decided before."""
    passed = _passed_back(said, shown)
    return verdict if passed is FORWARD else passed


def _passed_back(said: Decided, message: Message) -> Decided:
    """The same for the upstream's. A blocked response passes as an error: somebody waits for it."""
    return _reread(said, message, read_upstream_message)


def _reread(said: Decided, message: Message, read: Callable[[bytes], Message | Batch]) -> Decided:
    """What the rules decided; nothing passes where they made something that must not be forwarded."""
    if not isinstance(said, Forward) or said.message is None:
        return said
    try:
        changed = read(said.message.raw)
    except ProtocolError as refusal:
        log.error("A rule made a message that must not be forwarded. %s.", refusal.reason)
        return closed(message, FAILED)
    if not isinstance(changed, Message):
        return closed(message, FAILED)
    return Forward(changed, said.word, said.why)
