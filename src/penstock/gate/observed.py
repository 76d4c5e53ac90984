"""A gate that tells observers of every message. Loaded only where there are some."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic as _monotonic
from time import time as _time

import msgspec

from penstock import limits
from penstock.errors import ProtocolError
from penstock.gate.client_name import maybe_client_name
from penstock.gate.gate import Gate
from penstock.gate.gate_around import GateAround
from penstock.gate.record import MessageKind, Observer, Record, Sender, told
from penstock.policy.exchange import NO_REQUEST, Exchange, Session
from penstock.policy.tools import tool_gate
from penstock.policy.verdict import FORWARD, Answer, Forward, Hold, Verdict, Wait, Why, Word
from penstock.wire.mcp.eras import Era, maybe_modern_meta
from penstock.wire.mcp.message import Batch, Kind, Message, read_client_message, read_upstream_message

log = logging.getLogger("penstock")

_LONGEST = limits.NAME_LENGTH  # observers keep names, and a name may be as long as its message
_RESPONSE = Kind.RESPONSE
MESSAGE_KINDS: dict[Kind, MessageKind] = {
    Kind.REQUEST: "request",
    Kind.NOTIFICATION: "notification",
    Kind.RESPONSE: "response",
}


class ObservedGate(GateAround):
    """Wraps a gate, plain or ruled: decides nothing, and tells what was decided."""

    def __init__(self, inner: Gate, observers: Sequence[Observer], session: Session) -> None:
        """`session` stands for what belongs to no client: our own requests before the first one comes."""
        super().__init__(inner)
        self._observers = observers
        self._own = session
        self._batch: Record | None = None  # the array whose messages are asked about

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the wrapped gate says."""
        since = self._begin(message, exchange)
        verdict = self._inner.client_says(message, exchange)
        if verdict is FORWARD:  # nearly always
            self._saw("client", message, exchange, FORWARD, since, self._batch)
        else:
            self._follow("client", message, exchange, verdict, since)
        return verdict

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What the wrapped gate says."""
        since = self._begin(message, exchange)
        verdict = self._inner.upstream_says(message, exchange)
        if verdict is FORWARD:
            self._saw("upstream", message, exchange, FORWARD, since, self._batch)
        else:
            self._follow("upstream", message, exchange, verdict, since)
        return verdict

    @contextmanager
    def in_batch(self, sender: str, raw: bytes, session: Session) -> Iterator[None]:
        """Tells of the array itself first: its messages refer to it."""
        who: Sender = "client" if sender == "client" else "upstream"
        batch = Record(_time(), session, who, "other", None, None, raw, "pass")
        self._tell(batch)
        self._batch = batch
        try:
            yield
        finally:
            self._batch = None

    def said(
        self,
        sender: str,
        word: Word,
        raw: bytes,
        why: Why | None = None,
        exchange: Exchange | None = None,
        session: Session | None = None,
        sent: bytes | None = None,
        status: int | None = None,
    ) -> None:
        """Tells of what never got to the gate."""
        if session is None:
            session = exchange.session if exchange is not None else self._own
        kind, method, id_token = _outline(raw, sender)
        request = _record_in(exchange) if exchange is not None and kind != "request" else None
        if method is None and exchange is not None:
            method = exchange.method or None
        who: Sender = "client" if sender == "client" else "upstream" if sender == "upstream" else "penstock"
        self._tell(
            Record(
                _time(),
                session,
                who,
                kind,
                method and method[:_LONGEST],
                id_token,
                raw,
                word,
                sent,
                why,
                request,
                status,
                batch=self._batch if self._batch is not None and self._batch.sender == who else None,
            )
        )

    def _begin(self, message: Message, exchange: Exchange) -> float:
        """When the message came, on the monotonic clock: one that was held came when it was first seen."""
        now = _monotonic()
        if message.kind is _RESPONSE:
            return now
        if not exchange.started:
            exchange.started = now
        if exchange.request is NO_REQUEST:
            exchange.request = message
            exchange.weight = len(message.raw)
        if self._batch is not None:
            exchange.record = self._batch  # until it has one of its own: it may be held
        session = exchange.session
        if session.era is None:
            _learn_era(message, session)
        if session.client_name is None and (message.method == "initialize" or session.era is Era.MODERN):
            session.client_name = maybe_client_name(message)
        return exchange.started

    def _follow(
        self, sender: Sender, message: Message, exchange: Exchange, verdict: Verdict, since: float
    ) -> None:
        if isinstance(verdict, Wait):
            batch = self._batch
            verdict.then(lambda settled: self._saw(sender, message, exchange, settled, since, batch))
        elif not isinstance(verdict, Hold):  # held: it will be asked about again
            self._saw(sender, message, exchange, verdict, since, self._batch)

    def _saw(
        self,
        sender: Sender,
        message: Message,
        exchange: Exchange,
        verdict: Verdict,
        since: float,
        batch: Record | None,
    ) -> None:
        now = _monotonic()
        spent = now - since
        is_response = message.kind is _RESPONSE
        asked = _record_in(exchange)
        tool: str | None
        if is_response and asked is not None and asked.tool is not None:
            tool = asked.tool
        else:
            tool = exchange.request.tool or maybe_tool(exchange.request)
        method = (exchange.method or None) if is_response else message.method
        record = Record(
            _time() - spent,
            exchange.session,
            sender,
            MESSAGE_KINDS[message.kind],
            method and method[:_LONGEST],
            message.id_token,
            message.raw,
            verdict.word,  # type: ignore[union-attr]
            None if verdict is FORWARD else _sent(verdict),
            verdict.why,  # type: ignore[union-attr]
            asked if is_response else None,
            exchange.status if is_response else None,
            int(spent * 1_000_000),
            tool and tool[:_LONGEST],
            exchange.headers,
            batch if is_response or asked is None else asked,
        )
        if is_response:
            exchange.response, exchange.answered = message, now
        else:
            exchange.record = record
        for observer in self._observers:
            try:
                observer.saw(record)
            except Exception:
                log.exception("An observer failed.")

    def _tell(self, record: Record) -> None:
        for observer in self._observers:
            try:
                observer.saw(record)
            except Exception:
                log.exception("An observer failed.")


def _sent(verdict: Verdict) -> bytes | None:
    """What went on in its place, or what its sender was answered."""
    if isinstance(verdict, Answer):
        return verdict.raw
    if isinstance(verdict, Forward) and verdict.message is not None:
        return verdict.message.raw
    return None


def maybe_tool(request: Message) -> str | None:
    """The tool that a request calls."""
    if request.method != tool_gate.CALL or request.tool is not None:
        return request.tool
    try:
        return msgspec.json.decode((request.params or {})["name"], type=str)
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _learn_era(message: Message, session: Session) -> None:
    """The first message that tells the era of a session tells it."""
    if message.method == "initialize":
        session.era = Era.LEGACY
    elif maybe_modern_meta(message.params) is not None:
        session.era = Era.MODERN


def _record_in(exchange: Exchange) -> Record | None:
    """The record of its request, whole: of what passed the short way only the least was kept."""
    if exchange.record is not None:
        exchange.record = told(exchange.record)
    return exchange.record


def _outline(raw: bytes, sender: str) -> tuple[MessageKind, str | None, bytes | None]:
    """Kind, method and id of what was said beside the gate, as far as it can be read."""
    try:
        message = read_client_message(raw) if sender == "client" else read_upstream_message(raw)
    except ProtocolError as why:
        return "other", None, why.id_token
    if isinstance(message, Batch):
        return "other", None, None
    return MESSAGE_KINDS[message.kind], message.method, message.id_token
