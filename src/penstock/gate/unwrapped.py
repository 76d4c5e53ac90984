"""A gate before which a wrapped call is what it means. Loaded only where tools are found and not listed."""

from __future__ import annotations

from collections.abc import Callable

from penstock.gate.gate import Gate
from penstock.gate.gate_around import GateAround
from penstock.policy.exchange import Exchange
from penstock.policy.verdict import Answer, Caller, Forward, Verdict, Wait, Why
from penstock.wire.mcp.message import INVALID_PARAMS, Message

Unwrap = Callable[[Message], Message | bytes | None]
"""What a message means; the answer to one that means nothing; None when it is no wrapped call."""


class UnwrappedGate(GateAround):
    """Shows the gate inside what a wrapped call means, and passes that on."""

    def __init__(self, inner: Gate, unwrap: Unwrap) -> None:
        super().__init__(inner)
        self._unwrap = unwrap
        self.upstream_says = inner.upstream_says  # type: ignore[method-assign]
        self.said = inner.said  # type: ignore[method-assign]
        self.in_batch = inner.in_batch  # type: ignore[method-assign]
        self.keeps_requests = inner.keeps_requests

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the gate inside says of what is meant."""
        meant = self._unwrap(message)
        if meant is None:
            return self._inner.client_says(message, exchange)
        if isinstance(meant, bytes):
            why = Why("tool filter", "refuse", "it wraps no call", INVALID_PARAMS)
            return Answer(meant, INVALID_PARAMS, word="deny", why=why)
        return _of(self._inner.client_says(meant, exchange), meant)


def _of(verdict: Verdict, meant: Message) -> Verdict:
    """The verdict on what was meant, as one on what came."""
    if isinstance(verdict, Forward) and verdict.message is None:
        return Forward(meant, verdict.word, verdict.why)
    return _Later(verdict, meant) if isinstance(verdict, Wait) else verdict


class _Later(Wait):
    """Waits with the gate inside, and passes on what was meant."""

    __slots__ = ("_inside",)

    def __init__(self, inside: Wait, meant: Message) -> None:
        super().__init__(meant, is_from_client=True)
        self._inside = inside
        inside.then(lambda verdict: self.settle(_of(verdict, meant)))

    def hear(self, message: Message, caller: Caller | None) -> None:
        """Whose request this is."""
        self._inside.hear(message, caller)

    def cancel(self) -> None:
        """Whoever sent it wants no answer any more."""
        self._inside.cancel()

    def fail(self, why: str) -> None:
        """It will not pass."""
        self._inside.fail(why)
