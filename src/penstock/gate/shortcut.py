"""An observed gate whose one observer only keeps what passes: the plain case goes straight to it.

Numbering, asking each observer in turn and measuring what they may want costs more than the gate itself
does. Where the live view is the only observer and there are no rules, a small message that passes unchanged
is one record in a list, made here; everything else goes the long way of `ObservedGate`. Nothing is decided
here either.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from time import monotonic as _monotonic
from time import time as _time

from penstock.gate.gate import Gate
from penstock.gate.observed import MESSAGE_KINDS, ObservedGate, maybe_tool
from penstock.gate.record import Observer, Record, Shortcut
from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools.tool_gate import CALL, LIST
from penstock.policy.verdict import FORWARD, Verdict
from penstock.wire.mcp.message import Kind, Message

log = logging.getLogger("penstock")

_RESPONSE = Kind.RESPONSE


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

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the wrapped gate says."""
        session, raw, kind = exchange.session, message.raw, message.kind
        if (
            session.client_name is None  # it may be in this message, and so may the era
            or session.era is None
            or exchange.started  # it was asked about before
            or kind is _RESPONSE
            or len(raw) > self._most_bytes
            or self._batch is not None
        ):
            return super().client_says(message, exchange)
        received = _time()
        exchange.request, exchange.weight = message, len(raw)
        verdict = self._ask_for_client(message, exchange)
        if verdict is not FORWARD:
            exchange.started = _monotonic() - _time() + received
            self._follow("client", message, exchange, verdict, exchange.started)
            return verdict
        method = message.method
        exchange.record = record = Record(
            received,
            session,
            "client",
            MESSAGE_KINDS[kind],
            method,
            message.id_token,
            raw,
            "pass",
            None,
            None,
            None,
            None,
            int((_time() - received) * 1_000_000),
            maybe_tool(message) if method == CALL and message.tool is None else message.tool,
            exchange.headers,
            None,
            self._number(),
        )
        try:
            self._shortcut.keep(record)
        except Exception:
            log.exception("An observer failed.")
        return FORWARD

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the wrapped gate says."""
        asked: Record | None = exchange.record
        raw = message.raw
        if (
            asked is None
            or message.kind is not _RESPONSE
            or len(raw) > self._most_bytes
            or len(asked.raw) > self._most_bytes  # what is kept of an answer keeps its request
            or exchange.method == LIST  # the one answer that the live view looks into
            or self._batch is not None
        ):
            return super().upstream_says(message, exchange)
        received = _time()
        verdict = self._ask_for_upstream(message, exchange)
        if verdict is not FORWARD:
            self._follow("upstream", message, exchange, verdict, _monotonic() - _time() + received)
            return verdict
        record = Record(
            received,
            exchange.session,
            "upstream",
            "response",
            asked.method,
            message.id_token,
            raw,
            "pass",
            None,
            None,
            asked,
            exchange.status,
            int((_time() - received) * 1_000_000),
            asked.tool,
            exchange.headers,
            None,
            self._number(),
        )
        try:
            self._shortcut.keep(record)
        except Exception:
            log.exception("An observer failed.")
        return FORWARD
