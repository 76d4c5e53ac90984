"""An observed gate whose one observer wants to hear of calls and failures: anomalies are looked for in these.

A call that passes as it came is four values in a list, and of an answer that has plainly not failed nothing
is told. Everything else goes the long way of `ObservedGate`. Nothing is decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic as _monotonic
from time import time as _time

from penstock import limits
from penstock.gate.gate import Gate
from penstock.gate.observed import ObservedGate
from penstock.gate.record import CallSeen, Observer
from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools.tool_gate import CALL
from penstock.policy.verdict import FORWARD, Verdict
from penstock.wire.mcp.message import Message

log = logging.getLogger("penstock")


class CallsGate(ObservedGate):
    """Tells of calls and of failures what an `ObservedGate` tells, by fewer steps."""

    def __init__(
        self,
        inner: Gate,
        observers: Sequence[Observer],
        session: Session,
        keep: Callable[[CallSeen], object],
    ) -> None:
        super().__init__(inner, observers, session)
        self._keep = keep
        self._ask_for_client = inner.client_says
        self._ask_for_upstream = inner.upstream_says

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the wrapped gate says."""
        session, tool = exchange.session, message.tool
        if (
            tool is None  # also where reading the message was not that plain
            or len(tool) > limits.NAME_LENGTH
            or message.method != CALL
            or session.client_name is None  # it may be in this message, and so may the era
            or session.era is None
            or exchange.started  # it was asked about before
            or self._batch is not None
        ):
            return super().client_says(message, exchange)
        received = _time()
        raw = message.raw
        exchange.request, exchange.weight = message, len(raw)
        ask, keep = self._ask_for_client, self._keep  # see `ShortcutGate`
        verdict = ask(message, exchange)
        if verdict is not FORWARD:
            exchange.started = exchange.started or _monotonic() - _time() + received
            self._follow("client", message, exchange, verdict, exchange.started)
            return verdict
        try:
            keep(CallSeen(received, session, tool, raw))
        except Exception:
            log.exception("An observer failed.")
        return FORWARD

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the wrapped gate says."""
        names = message.result
        if (
            names is None  # an error, or what is no answer
            or ("isError" in names and b"true" in message.raw)
            or self._batch is not None
        ):
            return super().upstream_says(message, exchange)
        ask = self._ask_for_upstream
        verdict = ask(message, exchange)
        if verdict is not FORWARD:
            self._follow("upstream", message, exchange, verdict, _monotonic())
        return verdict
