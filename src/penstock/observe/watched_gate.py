"""A gate around the observed one, where watching has a say: what must be kept, and whose trace goes on.

With `on_failure: block` nothing passes that cannot be kept; with `sync: record` nothing passes before the
disk has it; with `propagate: inject` requests carry our span to the upstream. Loaded where one of these is
asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from penstock.errors import ProtocolError
from penstock.gate.gate import Gate
from penstock.gate.gate_around import GateAround
from penstock.gate.task_wait import TaskWait
from penstock.policy.exchange import Exchange
from penstock.policy.verdict import Answer, Caller, Decided, Drop, Forward, Verdict, Wait, Why
from penstock.wire.json.ambiguity import members
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.mcp_headers import TRACED, traceparent_of
from penstock.wire.mcp.message import Kind, Message, read_client_message
from penstock.wire.mcp.replies import error_reply

BLOCKED = -32001
_TRACEPARENT = "traceparent"
_OPEN = b"{"


class Keeper(Protocol):
    """Who knows whether messages can be kept."""

    def refusing(self) -> str | None:
        """`record` or `audit`, while that cannot be written and must be."""

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits for the disk that no more may come before it is written."""

    async def written(self) -> bool:
        """Waits until the disk has everything; False when it does not take it."""


class WatchedGate(GateAround):
    """Wraps an observed gate."""

    def __init__(self, inner: Gate, keeper: Keeper, *, is_synced: bool, injects: bool) -> None:
        super().__init__(inner)
        self._keeper = keeper
        self._is_synced = is_synced
        self._injects = injects
        # The rest is for those who observe.
        self.upstream_says = inner.upstream_says  # type: ignore[method-assign]
        self.in_batch = inner.in_batch  # type: ignore[method-assign]
        self.said = inner.said  # type: ignore[method-assign]

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the wrapped gate says, unless it cannot be kept."""
        if message.kind is Kind.RESPONSE:
            return self._inner.client_says(message, exchange)
        sink = self._keeper.refusing()
        if sink is not None:
            refused = _refused(message, sink)
            sent = refused.raw if isinstance(refused, Answer) else None
            self._inner.said("client", "block", message.raw, refused.why, session=exchange.session, sent=sent)
            return refused
        verdict = self._inner.client_says(message, exchange)
        if isinstance(verdict, Wait):
            return _After(verdict, lambda settled: self._settled(settled, message, exchange))
        return self._settled(verdict, message, exchange)

    def _settled(self, verdict: Verdict, message: Message, exchange: Exchange) -> Verdict:
        if not isinstance(verdict, Forward):
            return verdict
        if self._injects and message.kind is Kind.REQUEST and exchange.record is not None:
            verdict = _injected(verdict, message, exchange)
        if not (self._is_synced or self._keeper.is_crowded):
            return verdict
        wait = TaskWait(message, True, exchange.session, lambda said: said)
        wait.start(self._when_written(verdict, message))
        return wait

    async def _when_written(self, verdict: Forward, message: Message) -> Decided:
        """What becomes of a message that may pass once the disk has it. Meanwhile others are served."""
        is_kept = await self._keeper.written()
        return verdict if is_kept else _refused(message, self._keeper.refusing() or "audit")


class _After(Wait):
    """Waits for another, and makes something of its verdict."""

    __slots__ = ("_waited",)

    def __init__(self, waited: Wait, after: Callable[[Verdict], Verdict]) -> None:
        super().__init__(waited.message, waited.is_from_client)
        self._waited = waited
        waited.then(lambda settled: self.settle(after(settled)))

    def hear(self, message: Message, caller: Caller | None) -> None:
        """Whose request this is."""
        self._waited.hear(message, caller)

    def cancel(self) -> None:
        """Whoever sent it wants no answer any more."""
        self._waited.cancel()

    def fail(self, why: str) -> None:
        """It will not pass."""
        self._waited.fail(why)


def _refused(message: Message, sink: str) -> Answer | Drop:
    what = "recorded" if sink == "record" else "audited"
    why = Why(sink, "block", f"It cannot be {what} at the moment", BLOCKED)
    if message.kind is not Kind.REQUEST:
        return Drop(why, "block")
    data = {"rule": sink, "action": "block"}
    return Answer(error_reply(message.id_token, BLOCKED, why.reason, data), 0, word="block", why=why)


def _injected(verdict: Forward, message: Message, exchange: Exchange) -> Forward:
    """The verdict with our traceparent in the message, and no other byte changed."""
    trace = exchange.record.trace
    if not trace:
        return verdict
    passed = verdict.message or message
    try:
        changed = read_client_message(with_traceparent(passed, traceparent_of(trace)))
    except (ProtocolError, ValueError, KeyError, TypeError):
        return verdict  # tracing is no reason to stop a message
    if not isinstance(changed, Message):
        return verdict
    exchange.request = changed
    exchange.modified = (*exchange.modified, TRACED)  # an HTTP upstream hears it in its header too
    return Forward(changed, verdict.word, verdict.why)


def with_traceparent(message: Message, value: str) -> bytes:
    """The message with `value` as the traceparent in the `_meta` of its params."""
    token = msgspec.json.encode(value)
    params = message.envelope.get("params")
    if params is None:
        end = message.raw.rindex(b"}")
        made = b',"params":{"_meta":{"traceparent":%b}}' % token
        return message.raw[:end] + made + message.raw[end:]
    text, inner = bytes(params), message.params
    if inner is None:
        raise ValueError("params is no object")
    meta = inner.get("_meta")
    if meta is None:
        changed = _with_first(text, b'"_meta":{"traceparent":%b}' % token, bool(inner))
    else:
        own = members(bytes(meta))
        if _TRACEPARENT in own:
            new = with_value(bytes(meta), own, _TRACEPARENT, token)
        else:
            new = _with_first(bytes(meta), b'"traceparent":%b' % token, bool(own))
        changed = with_value(text, inner, "_meta", new)
    return with_value(message.raw, message.envelope, "params", changed)


def _with_first(text: bytes, member: bytes, has_others: bool) -> bytes:
    """The object in `text` with one more member, in front of the others."""
    place = text.index(_OPEN) + 1
    return text[:place] + member + (b"," if has_others else b"") + text[place:]
