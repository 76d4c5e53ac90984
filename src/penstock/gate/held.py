"""A gate before which messages wait for a person: breakpoints. Loaded only where somebody may look.

It decides nothing itself. What is released goes through the whole gate behind it, filter and rules, so that
nobody at the page can do what the client may not. On every doubt the message is blocked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from penstock.errors import ProtocolError
from penstock.gate.gate import Gate, error_message
from penstock.gate.gate_around import GateAround
from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools.tool_gate import GATED
from penstock.policy.verdict import Answer, Caller, Decided, Drop, Forward, Hold, Verdict, Wait, Why
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.message import Kind, Message, read_client_message, read_upstream_message
from penstock.wire.mcp.replies import error_reply

BLOCKED = -32001
NOT_RELEASED = "Blocked: nobody has released it"
EDITABLE = ("params", "result", "error")
_RESPONSE = Kind.RESPONSE


class CannotEdit(Exception):
    """What a person made of a message is none that could be sent in its place. The words are for them."""


class HumanWait(Wait):
    """A message that waits for a person. Exactly one of its verbs ends it; the others then do nothing."""

    __slots__ = ("_go_on", "_tell", "exchange", "is_over", "on_heard", "on_over", "rule")

    def __init__(
        self,
        message: Message,
        is_from_client: bool,
        exchange: Exchange,
        rule: str,
        go_on: Callable[[Message], Verdict],
        tell: Callable[[Message, Decided], None],
    ) -> None:
        """`go_on` says what becomes of the message, or of the edited one, when it is let go; `tell` hears
        of a verdict that was reached without it."""
        super().__init__(message, is_from_client)
        self.exchange = exchange
        self.rule = rule
        self._go_on = go_on
        self._tell = tell
        self.is_over = False
        self.on_over: Callable[[HumanWait, str], None] | None = None
        self.on_heard: Callable[[Message, Caller | None], None] | None = None  # who keeps callers patient
        exchange.session.waiting[self] = None

    def hear(self, message: Message, caller: Caller | None) -> None:
        """Whose request this is."""
        super().hear(message, caller)
        if self.on_heard is not None and not self.is_over:
            self.on_heard(message, caller)

    def release(self, edited: Message | None = None) -> None:
        """Lets it go on, or what was made of it."""
        if self._end("edited" if edited is not None else "released"):
            self._finish(self._go_on(edited or self.message))

    def deny(self, reason: str, data: object = None) -> None:
        """It does not pass, in a person's words."""
        if self._end("denied"):
            self._block(reason, "deny", data)

    def time_out(self, passes: bool) -> None:
        """Nobody has decided in time."""
        if self._end("timed out"):
            if passes:
                self._finish(self._go_on(self.message))
            else:
                self._block(NOT_RELEASED, "timeout", None)

    def void(self, why: str) -> None:
        """What was asked is asked no more: other rules are in force, or we end."""
        if self._end("voided"):
            self._block(why, "void", None)

    def cancel(self) -> None:
        """Whoever sent it wants no answer any more."""
        if self._end("withdrawn"):
            self._give_up(Drop(Why(self.rule, "withdrawn", "it was withdrawn while it waited for a person")))
        elif self._next is not None:
            self._next.cancel()

    def fail(self, why: str) -> None:
        """It will not pass."""
        if self._end("withdrawn"):
            self._give_up(blocked(self.message, self.rule, "withdrawn", why))
        elif self._next is not None:
            self._next.fail(why)

    def client_left(self) -> None:
        """The client will say no more: nothing that it asked goes upstream after this."""
        if self.is_from_client:
            self.fail("The client has left")

    def _end(self, how: str) -> bool:
        if self.is_over:
            return False
        self.is_over = True
        if self.on_over is not None:
            self.on_over(self, how)
        return True

    def _block(self, reason: str, action: str, data: object) -> None:
        self._give_up(blocked(self.message, self.rule, action, reason, data))

    def _give_up(self, verdict: Decided) -> None:
        self._tell(self.message, verdict)
        self._finish(verdict)

    def _finish(self, verdict: Verdict) -> None:
        self.settle(verdict)
        self.exchange.session.decided(self)


class _Ahead(HumanWait):
    """A held message of the upstream's: what follows it is let go when it has been carried out itself."""

    __slots__ = ("_let_next",)

    def __init__(
        self,
        message: Message,
        exchange: Exchange,
        rule: str,
        go_on: Callable[[Message], Verdict],
        tell: Callable[[Message, Decided], None],
        let_next: Callable[[], None],
    ) -> None:
        super().__init__(message, False, exchange, rule, go_on, tell)
        self._let_next = let_next

    def settle(self, verdict: Verdict) -> None:
        """This is the verdict. Whoever carries it out has done so when others may follow."""
        super().settle(verdict)
        if not isinstance(verdict, Wait):
            self._let_next()


class Behind(Wait):
    """A message that follows a held one of the same exchange, and must not overtake it."""

    __slots__ = ("_ask", "_is_over", "_session")

    def __init__(self, message: Message, session: Session, ask: Callable[[], Verdict]) -> None:
        super().__init__(message, False)
        self._ask = ask
        self._is_over = False
        self._session = session
        session.waiting[self] = None

    def go(self) -> None:
        """What it waited behind is decided about."""
        if not self._is_over:
            self._is_over = True
            self.settle(self._ask())
            self._session.decided(self)

    def cancel(self) -> None:
        """Nobody wants it any more."""
        self._drop(Drop(Why("breakpoint", "withdrawn", "nobody waits for it any more")))

    def fail(self, why: str) -> None:
        """It will not pass."""
        self._drop(blocked(self.message, "breakpoint", "withdrawn", why))

    def _drop(self, verdict: Decided) -> None:
        if not self._is_over:
            self._is_over = True
            self.settle(verdict)
            self._session.decided(self)


class Asker(Protocol):
    """Who asks people."""

    def hold(self, wait: HumanWait, kind: str, approval: Any = None) -> None:
        """Keeps the message until somebody decides; one that there is no room for is blocked at once."""


class Holder(Asker, Protocol):
    """Who also knows what is to be held before the gate is asked."""

    @property
    def is_watching(self) -> bool:
        """Whether there is any breakpoint."""

    def maybe_breakpoint(self, sender: str, message: Message, exchange: Exchange) -> str | None:
        """The breakpoint that holds this message."""


class HeldGate(GateAround):
    """Wraps any gate: holds what a breakpoint names, before that gate is asked."""

    def __init__(self, inner: Gate, holder: Holder) -> None:
        super().__init__(inner)
        self.said = inner.said  # type: ignore[method-assign]
        self.in_batch = inner.in_batch  # type: ignore[method-assign]
        self._holder = holder
        self._queues: dict[object, list[Behind]] = {}  # what waits behind a held message, by its stream

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the wrapped gate says, after somebody has let the message go."""
        session = exchange.session
        if session.waiting and message.method == "notifications/cancelled" and not session.is_shared:
            token = (message.params or {}).get("requestId")
            if token is not None and session.cancel(bytes(token)):
                why = Why("breakpoint", "drop", "it cancels a request that never went upstream")
                self._inner.said("client", "drop", message.raw, why, session=session)
                return Drop(why)
        if not self._holder.is_watching:
            return self._inner.client_says(message, exchange)
        if self.is_filtering and exchange.catalog is None and message.method in GATED:
            return self._inner.client_says(message, exchange)  # it is asked about again, once there is one
        point = self._holder.maybe_breakpoint("client", message, exchange)
        if point is None:
            return self._inner.client_says(message, exchange)
        return self._hold("client", message, exchange, point, self._inner.client_says)

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        """The same for the upstream's; what follows a held message of the same exchange waits behind it."""
        if not self._holder.is_watching and not self._queues:
            return self._inner.upstream_says(message, exchange)
        stream = _stream_of(message, exchange)
        if stream in self._queues:
            return self._wait_behind(stream, message, exchange)
        point = self._holder.maybe_breakpoint("upstream", message, exchange)
        if point is None:
            return self._inner.upstream_says(message, exchange)
        return self._hold("upstream", message, exchange, point, self._inner.upstream_says, stream)

    def _wait_behind(self, stream: object, message: Message, exchange: Exchange) -> Verdict:
        def ask() -> Verdict:
            point = self._holder.maybe_breakpoint("upstream", message, exchange)
            if point is None:
                return self._inner.upstream_says(message, exchange)
            return self._hold("upstream", message, exchange, point, self._inner.upstream_says, stream)

        behind = Behind(message, exchange.session, ask)
        self._queues[stream].append(behind)
        return behind

    def _hold(
        self,
        sender: str,
        message: Message,
        exchange: Exchange,
        point: str,
        says: Callable[[Message, Exchange], Verdict],
        stream: object = None,
    ) -> Verdict:
        rule = f"breakpoint {point}"

        def go_on(passed: Message) -> Verdict:
            if passed is message:
                return says(message, exchange)
            return self._edited(sender, message, passed, exchange, says, rule)

        def tell(held: Message, verdict: Decided) -> None:
            sent = verdict.raw if isinstance(verdict, Answer) else None
            if isinstance(verdict, Forward) and verdict.message is not None:
                sent = verdict.message.raw
            self._inner.said(sender, verdict.word, held.raw, verdict.why, exchange, exchange.session, sent)

        if stream is None:
            wait = HumanWait(message, sender == "client", exchange, rule, go_on, tell)
        else:
            self._queues.setdefault(stream, [])
            wait = _Ahead(message, exchange, rule, go_on, tell, lambda: self._let_next(stream))
        self._holder.hold(wait, "breakpoint")
        return wait

    def _let_next(self, stream: object) -> None:
        """Lets those go that waited behind; one of them may be held in its turn, and the rest behind it."""
        queue = self._queues.pop(stream, [])
        while queue:
            behind = queue.pop(0)
            behind.go()
            if stream in self._queues:
                self._queues[stream].extend(queue)
                return

    def _edited(
        self,
        sender: str,
        message: Message,
        edited: Message,
        exchange: Exchange,
        says: Callable[[Message, Exchange], Verdict],
        rule: str,
    ) -> Verdict:
        """The verdict on what a person made of a message; the record says both versions."""
        why = Why(rule, "edit", "a person has changed it")
        self._inner.said(sender, "change", message.raw, why, exchange, exchange.session, edited.raw)
        if sender == "client" and message.kind is not _RESPONSE:
            exchange.modified += (rule,)  # headers that say what the body says follow
            exchange.request = edited
        verdict = says(edited, exchange)
        if isinstance(verdict, Wait):
            return Edited(verdict, edited, why)
        return with_edit(verdict, edited, why)


class Edited(Wait):
    """Waits for the verdict on an edited message: where that says to pass it on, the edit is what passes."""

    __slots__ = ("_waited",)

    def __init__(self, waited: Wait, edited: Message, why: Why) -> None:
        super().__init__(waited.message, waited.is_from_client)
        self._waited = waited
        waited.then(lambda settled: self.settle(with_edit(settled, edited, why)))

    def hear(self, message: Message, caller: Caller | None) -> None:
        """Whose request this is."""
        self._waited.hear(message, caller)

    def cancel(self) -> None:
        """Whoever sent it wants no answer any more."""
        self._waited.cancel()

    def fail(self, why: str) -> None:
        """It will not pass."""
        self._waited.fail(why)


def with_edit(verdict: Verdict, edited: Message, why: Why) -> Verdict:
    """The verdict on an edited message, as one on the message in whose place it goes."""
    if isinstance(verdict, Hold):  # the original would be asked about again, and not the edit
        return blocked(edited, why.rule, "edit", "Blocked: the tool list is not there")
    if isinstance(verdict, Forward) and verdict.message is None:
        return Forward(edited, "change", verdict.why or why)
    return verdict


def blocked(message: Message, rule: str, action: str, reason: str, data: object = None) -> Decided:
    """The verdict on a message that a person, or nobody, has kept from passing."""
    why = Why(rule, action, reason, BLOCKED)
    facts = {"rule": rule, "action": action} if data is None else data
    if message.kind is _RESPONSE:
        raw = error_reply(message.id_token, BLOCKED, reason, facts)
        shown = error_message(message.id_token, BLOCKED, reason)
        return Forward(Message(raw, _RESPONSE, shown.id_token, None), "block", why)
    if message.kind is Kind.REQUEST:
        return Answer(error_reply(message.id_token, BLOCKED, reason, facts), 0, word="block", why=why)
    return Drop(why, "block")


def edited_message(message: Message, part: str, value: bytes, is_from_client: bool) -> Message:
    """The message with `value` (JSON) in the place of its params, result or error. Raises CannotEdit.

    Read as strictly as if it had come in so; who it is, what it asks and what it answers cannot change."""
    if part not in EDITABLE or part not in message.envelope:
        raise CannotEdit(f"This message has no {part} that could be changed")
    if b"\n" in value or b"\r" in value:
        value = _on_one_line(value)
    try:
        raw = with_value(message.raw, message.envelope, part, value)
        read = read_client_message(raw) if is_from_client else read_upstream_message(raw)
    except ProtocolError as why:
        raise CannotEdit(f"{why.reason[:1].upper()}{why.reason[1:]}") from None
    except (ValueError, KeyError) as why:
        raise CannotEdit(f"It cannot be put there: {why}") from None
    if not isinstance(read, Message) or (read.kind, read.id_token, read.method) != (
        message.kind,
        message.id_token,
        message.method,
    ):
        raise CannotEdit("It would be another message: id, method and kind stay")
    if list(read.envelope) != list(message.envelope):
        raise CannotEdit("It would have other members")
    return read


def _on_one_line(value: bytes) -> bytes:
    """JSON that a person wrote on several lines, on one: a line is a message to many a peer."""
    try:
        msgspec.json.decode(value, type=msgspec.Raw)
        return msgspec.json.format(value, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise CannotEdit(f"It is no JSON: {why}") from None


def _stream_of(message: Message, exchange: Exchange) -> object:
    """What keeps the order of the upstream's messages: the request that they answer or tell of."""
    if message.method == "notifications/progress":
        told = message.envelope.get("params")
    else:
        told = (exchange.request.params or {}).get("_meta")
    token = _maybe_progress_token(told) if told is not None else None
    return (exchange.session.id, token if token is not None else id(exchange))


class _Progress(msgspec.Struct):
    progressToken: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def _maybe_progress_token(told: msgspec.Raw) -> bytes | None:
    try:
        token = msgspec.json.decode(told, type=_Progress).progressToken
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if token is msgspec.UNSET else bytes(token)
