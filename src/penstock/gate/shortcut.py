"""An observed gate whose one observer only keeps what passes: the plain case goes straight to it.

Numbering, asking each observer in turn and finding out what they may want costs more than the gate itself
does. Where the live view is the only observer and there are no rules, a small message that passes unchanged
is one tuple in a list, of what nobody could find out later; everything else goes the long way of
`ObservedGate`. Nothing is decided here either.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from time import monotonic as _monotonic
from time import time as _time

from penstock.gate.gate import Gate
from penstock.gate.observed import ObservedGate, maybe_tool
from penstock.gate.record import Observer, Shortcut
from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools.tool_gate import CALL, LIST
from penstock.policy.verdict import FORWARD, Verdict
from penstock.wire.mcp.message import Message

log = logging.getLogger("penstock")


class ShortcutGate(ObservedGate):
    """Tells what an `ObservedGate` tells, by fewer steps where it can."""

    def __init__(
        self, inner: Gate, observers: Sequence[Observer], session: Session, shortcut: Shortcut
    ) -> None:
        super().__init__(inner, observers, session)
        self._shortcut = shortcut
        self._most_bytes = shortcut.most_bytes
        self._number = shortcut.number
        self._ask_for_client = inner.client_says
        self._ask_for_upstream = inner.upstream_says

    # Below, what is ours is looked up before it is called: in one expression it would be taken for a method,
    # and searched for in the class first.

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the wrapped gate says."""
        session = exchange.session
        method, tool = message.method, message.tool
        raw = message.raw
        size = len(raw)
        if (
            session.client_name is None  # it may be in this message, and so may the era
            or session.era is None
            or exchange.started  # it was asked about before
            or method is None  # it is a response
            or method == LIST  # the one answer that the live view looks into
            or size > self._most_bytes
            or self._batch is not None
        ):
            return super().client_says(message, exchange)
        received = _time()
        exchange.request = message
        exchange.weight = size
        ask = self._ask_for_client
        verdict = ask(message, exchange)
        if verdict is not FORWARD:
            exchange.started = _monotonic() - _time() + received
            self._follow("client", message, exchange, verdict, exchange.started)
            return verdict
        if tool is None and method == CALL:
            tool = maybe_tool(message)
        number, keep = self._number, self._shortcut.keep
        passed = (raw, message.id_token, received, _time(), number(), session, method, tool, exchange.headers)
        exchange.record = passed
        try:
            keep(passed)
        except Exception:
            log.exception("An observer failed.")
        return FORWARD

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the wrapped gate says."""
        asked, raw = exchange.record, message.raw
        if (
            type(asked) is not tuple  # else it is small as well: what is kept of an answer keeps its request
            or message.method is not None  # it is no answer
            or len(raw) > self._most_bytes
            or self._batch is not None
        ):
            return super().upstream_says(message, exchange)
        received = _time()
        ask = self._ask_for_upstream
        verdict = ask(message, exchange)
        if verdict is not FORWARD:
            self._follow("upstream", message, exchange, verdict, _monotonic() - _time() + received)
            return verdict
        number, keep = self._number, self._shortcut.keep
        try:
            keep((raw, message.id_token, received, _time(), number(), asked, exchange.status))
        except Exception:
            log.exception("An observer failed.")
        return FORWARD
