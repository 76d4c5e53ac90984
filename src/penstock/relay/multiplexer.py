"""One upstream link for many clients of the modern era, where every request stands alone.

Ids, progress tokens and subscription ids are the clients' own and would collide on one link. So each gets a
number of ours on the way up, and on the way back the client's own spelling: those values are spliced, every
other byte stays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Raw

from penstock import limits
from penstock.errors import UpstreamError, UpstreamProtocolError
from penstock.gate.gate import NO_MESSAGE, Gate
from penstock.policy.exchange import Exchange
from penstock.policy.verdict import Why
from penstock.relay.contracts import UpstreamLink
from penstock.relay.tool_list_pages import own_notification
from penstock.wire.json.ambiguity import Ambiguous, NotAnObject, NotJson, as_lax_readers_see, folded, members
from penstock.wire.json.splice import maybe_sole_span, with_value
from penstock.wire.mcp.eras import META_SUBSCRIPTION
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Batch,
    Kind,
    Message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import INVALID_ANSWER, printable, told

if TYPE_CHECKING:  # loaded where an upstream has refused somebody
    from penstock.wire.mcp.carried import HttpRefusal

log = logging.getLogger("penstock")

LISTEN = "subscriptions/listen"
_UNREAD = "client does not read"
_CANCELLED = "notifications/cancelled"
_NOISE = Why("protocol", "skip", NO_MESSAGE)
_UNASKED = Why("relay", "drop", "it answers a question that nobody asked")
_NOBODYS = Why("relay", "drop", "it belongs to no request")
_TWO_WAYS = Why("protocol", "skip", "it can be read in two ways")


class Asker(Protocol):
    """Who asked."""

    @property
    def is_full(self) -> bool: ...

    @property
    def unread(self) -> int:
        """Bytes that it has not taken."""

    def end(self) -> None:
        """Ends it without an answer: it has been listening, and we end."""

    def cut(self) -> None:
        """Ends it without an answer: it does not read, and others wait."""

    @property
    def exchange(self) -> Exchange:
        """What was asked."""

    def push(self, message: Message) -> None:
        """Something of the upstream's that comes before the answer."""

    def answer(self, message: Message) -> None:
        """The upstream's answer, with the id that the client wrote."""

    def deny(self, message: Message, refusal: HttpRefusal) -> None:
        """The upstream's answer, where that is an HTTP status."""

    def fail(self, code: int, text: str, failure: str | None = None) -> None:
        """An error of ours in its place; `failure` is the code of what went wrong with the upstream."""


class Multiplexer:
    """Multiplexes requests of the modern era over one link."""

    def __init__(
        self,
        link: UpstreamLink,
        gate: Gate,
        on_lost: Callable[[UpstreamError], None] = lambda error: None,
    ) -> None:
        """`on_lost` hears of the end of the link, after everybody who waits."""
        self.link = link
        self._on_lost = on_lost
        self._gate = gate
        self._last_number = 0
        self._asked: dict[bytes, Asker] = {}  # by the number that went up
        self._given_up: dict[bytes, float] = {}  # cancelled and not answered since, oldest first: until when
        self._lost: UpstreamError | None = None
        link.receiver = self

    @property
    def is_lost(self) -> bool:
        """Whether the link is gone."""
        return self._lost is not None

    @property
    def backlog(self) -> int:
        """Bytes that the upstream has not taken. Who waits for an answer has a connection open."""
        return 0 if self._lost is not None else self.link.untaken

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._asked)

    def ask(self, message: Message, asker: Asker) -> bytes:
        """Sends a request; gives what `cancel` takes."""
        if self._lost is not None:
            # It went while the request waited for the rules.
            asker.fail(INTERNAL_ERROR, self._lost.safe_message, self._lost.failure)
            return b""
        if _cancels(message):
            # No request at all, but who goes by the method alone would cancel what is somebody else's.
            asker.fail(METHOD_NOT_FOUND, "Method not found")
            return b""
        self._last_number += 1
        number = b"%d" % self._last_number
        try:
            renumbered = self._renumbered(message, number, asker.exchange)
        except Ambiguous as why:
            asker.fail(INVALID_REQUEST, f"Invalid request: in _meta, {why}")
            return b""
        self._asked[number] = asker
        self.link.resume(_UNREAD)  # nobody waits for somebody else who does not read
        self.link.send(renumbered)
        return number

    def tell(self, message: Message) -> None:
        """Sends a notification, unless it cancels.

        Ids are our own numbers here, so it could only hit somebody else's request. Whoever cancels over HTTP
        in this era hangs up.
        """
        if _cancels(message):
            log.warning("Dropped a message from a client: a cancel that names no request of its own.")
            return
        self.link.send(message)

    def cancel(self, number: bytes) -> None:
        """Nobody waits for this answer any more."""
        if self._asked.pop(number, None) is not None and self._lost is None:
            self._given_up[number] = time.monotonic() + limits.CANCELLED_SECONDS
            if len(self._given_up) > limits.REFUSED_IDS:
                del self._given_up[next(iter(self._given_up))]
            self.link.send(own_notification(_CANCELLED, b'{"requestId":%b}' % number))
        self.on_drain()

    def on_drain(self) -> None:
        """A client reads again."""
        self.link.resume(_UNREAD)

    def end_listeners(self) -> None:
        """Ends the requests that only listen."""
        for number, asker in tuple(self._asked.items()):
            if asker.exchange.method == LISTEN:
                self.cancel(number)
                asker.end()

    def _renumbered(self, message: Message, number: bytes, exchange: Exchange) -> Message:
        raw = with_value(message.raw, message.envelope, "id", number)
        envelope = {**message.envelope, "id": Raw(number)}
        params = message.params
        meta = params.get("_meta") if params else None
        if params is not None and meta is not None:
            text = bytes(meta)
            span = maybe_sole_span(text, "progressToken")
            if span is not None:
                exchange.progress_token = text[slice(*span)]
                new_meta = text[: span[0]] + number + text[span[1] :]
                new_params = with_value(bytes(message.envelope["params"]), params, "_meta", new_meta)
                raw = with_value(raw, envelope, "params", new_params)
                envelope = {**envelope, "params": Raw(new_params)}
                params = {**params, "_meta": Raw(new_meta)}
        return Message(raw, message.kind, number, message.method, envelope, params)

    # --- from the upstream -------------------------------------------------------------------------------

    def from_upstream(self, raw: bytes) -> None:
        """Takes one message as the upstream sent it."""
        try:
            message = read_upstream_message(raw)
        except UpstreamProtocolError as refusal:
            self._skip(refusal.id_token, refusal.reason, raw)
            return
        if isinstance(message, Batch):
            log.warning("Skipped a batch from the upstream: this protocol version has none.")
        elif message.kind is Kind.RESPONSE:
            self._take_response(message)
        elif message.kind is Kind.NOTIFICATION:
            self._take_notification(message)
        else:
            log.warning("Dropped a request from the upstream: this protocol version has none.")

    def _take_response(self, message: Message) -> None:
        token = message.id_token
        asker = self._asked.pop(id_key(token), None) if token is not None else None
        if asker is None:
            self._given_up.pop(id_key(token) if token is not None else b"", None)
            log.info("Dropped a response from the upstream that nobody waits for.")
            self._gate.said("upstream", "drop", message.raw, _UNASKED)
            return
        exchange = asker.exchange
        raw = with_value(message.raw, message.envelope, "id", exchange.id_token)
        try:
            raw = _with_own_subscription(raw, exchange)
        except (Ambiguous, NotJson, NotAnObject):
            log.warning("Withheld a message of the upstream: it can be read in two ways.")
            self._gate.said("upstream", "skip", message.raw, _TWO_WAYS, exchange)
            asker.fail(INTERNAL_ERROR, INVALID_ANSWER)
            return
        asker.answer(Message(raw, Kind.RESPONSE, exchange.id_token, None, None, None, None, message.result))

    def _take_notification(self, message: Message) -> None:
        try:
            asker, raw = self._route(message)
        except (Ambiguous, NotJson, NotAnObject, msgspec.DecodeError, UnicodeDecodeError):
            log.warning("Dropped a message from the upstream: its params cannot be read.")
            self._gate.said("upstream", "skip", message.raw, _TWO_WAYS)
            return
        if asker is None:
            what = printable(message.method or "")
            log.info("Dropped %s from the upstream: it belongs to no request.", what)
            self._gate.said("upstream", "drop", message.raw, _NOBODYS)
            return
        if raw is not message.raw:
            message = Message(raw, message.kind, message.id_token, message.method)
        asker.push(message)
        if asker.is_full:
            self._slow_down(asker)

    def _slow_down(self, slow: Asker) -> None:
        """Makes the upstream wait for a client that does not read, unless somebody else waits for it too."""
        if len(self._asked) == 1:
            self.link.pause(_UNREAD)
        elif slow.unread > limits.UNREAD_BYTES:
            log.warning("Hung up on a client that does not read: others wait for the same upstream.")
            slow.cut()
            for number in [number for number, asked in self._asked.items() if asked is slow]:
                self.cancel(number)

    def _route(self, message: Message) -> tuple[Asker | None, bytes]:
        """Whose a notification is, and its bytes with the client's own spelling of what we renumbered."""
        params = message.envelope.get("params")
        inner = members(params) if params is not None else {}
        if message.method == "notifications/progress" and "progressToken" in inner:
            asked = self._asked.get(bytes(inner["progressToken"]))
            if asked is None or asked.exchange.progress_token is None:
                return None, b""
            new = with_value(bytes(params or b""), inner, "progressToken", asked.exchange.progress_token)
            return asked, with_value(message.raw, message.envelope, "params", new)
        meta = bytes(inner.get("_meta", b""))
        span = maybe_sole_span(meta, META_SUBSCRIPTION) if meta[:1] == b"{" else None
        if span is not None:
            asked = self._asked.get(meta[slice(*span)].strip(b'"'))
            if asked is None or asked.exchange.method != LISTEN:
                return None, b""
            return asked, _with_own_subscription(message.raw, asked.exchange)
        one_shot = [asked for asked in self._asked.values() if asked.exchange.method != LISTEN]
        is_certain = len(one_shot) == 1 and not self._is_somebody_given_up()
        return (one_shot[0] if is_certain else None), message.raw

    def _is_somebody_given_up(self) -> bool:
        """Whether what the upstream says may be about a request that somebody else has cancelled."""
        now = time.monotonic()
        while self._given_up and next(iter(self._given_up.values())) <= now:
            del self._given_up[next(iter(self._given_up))]
        return bool(self._given_up)

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped, and told."""
        self._gate.said("upstream", "skip", raw, _NOISE)

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Something of the upstream's cannot be passed on; who waits for it hears an error."""
        self._skip(id_token, why, raw)

    def _skip(self, id_token: bytes | None, why: str, raw: bytes) -> None:
        log.warning("Skipped a message from the upstream. %s.", why)
        asker = self._asked.pop(id_key(id_token), None) if id_token is not None else None
        exchange = asker.exchange if asker is not None else None
        self._gate.said("upstream", "skip", raw, Why("protocol", "skip", why), exchange)
        if asker is not None:
            asker.fail(INTERNAL_ERROR, told(why))

    def upstream_lost(self, error: UpstreamError) -> None:
        """The link is gone: everybody who waits hears it."""
        self._lost = error
        waiting, self._asked = list(self._asked.values()), {}
        for asker in waiting:
            asker.fail(INTERNAL_ERROR, error.safe_message, error.failure)
        self._on_lost(error)

    async def close(self) -> None:
        """Closes the link."""
        await self.link.close()


def _cancels(message: Message) -> bool:
    """Whether some reader takes this for the cancel of a request."""
    method = message.method or ""
    if method.startswith("tools/") or (method != _CANCELLED and as_lax_readers_see(method) != _CANCELLED):
        return False
    if message.params is None:
        return "params" in message.envelope  # by position, perhaps
    return any(folded(name) == "requestid" for name in message.params)


def _with_own_subscription(raw: bytes, exchange: Exchange) -> bytes:
    """`raw` with the subscription id that the client knows: the id of its own listen request."""
    if exchange.method != LISTEN:
        return raw
    envelope = members(raw)
    outer = "result" if "result" in envelope else "params"
    body = bytes(envelope.get(outer, b"{}"))
    inner = members(body)
    meta = bytes(inner.get("_meta", b""))
    span = maybe_sole_span(meta, META_SUBSCRIPTION) if meta[:1] == b"{" else None
    if span is None:
        return raw
    # The subscription id is the request's id; where it was sent as a string, it stays one.
    token = exchange.id_token
    if meta[span[0]] == 0x22 and token[:1] != b'"':
        token = b'"%b"' % token
    new_meta = meta[: span[0]] + token + meta[span[1] :]
    return with_value(raw, envelope, outer, with_value(body, inner, "_meta", new_meta))
