"""One upstream link for many clients of the modern era, where every request stands alone.

Ids, progress tokens and subscription ids are the clients' own and would collide on one link. So each gets a
number of ours on the way up, and on the way back the client's own spelling: those values are spliced, every
other byte stays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Raw

from penstock import limits
from penstock.errors import UpstreamError, UpstreamProtocolError
from penstock.policy.tools import tool_lists
from penstock.policy.tools.schema import SchemaCheck
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.relay.contracts import UpstreamLink
from penstock.relay.tool_list_pages import own_notification
from penstock.wire.json.ambiguity import Ambiguous, NotAnObject, NotJson, as_lax_readers_see, folded, members
from penstock.wire.json.splice import maybe_sole_span, with_value
from penstock.wire.mcp.eras import MODERN_VERSIONS
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
from penstock.wire.mcp.replies import INVALID_ANSWER, error_reply, printable, told

log = logging.getLogger("penstock")

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LISTEN = "subscriptions/listen"
_UNREAD = "client does not read"
_CANCELLED = "notifications/cancelled"


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

    def push(self, raw: bytes) -> None:
        """Something that comes before the answer."""

    def answer(self, raw: bytes, code: int) -> None:
        """The answer; `code` is that of its error, 0 when it is none."""


class _Asked:
    """One request under way."""

    __slots__ = ("asker", "id_token", "is_listening", "method", "progress_token")

    def __init__(self, asker: Asker, message: Message) -> None:
        assert message.id_token is not None
        self.asker = asker
        self.id_token = message.id_token
        self.method = message.method
        self.is_listening = message.method == LISTEN
        self.progress_token: bytes | None = None


class Multiplexer:
    """Multiplexes requests of the modern era over one link."""

    def __init__(
        self,
        link: UpstreamLink,
        choice: ToolFilter,
        schema: SchemaCheck | None,
        on_lost: Callable[[UpstreamError], None] = lambda error: None,
    ) -> None:
        """`on_lost` hears of the end of the link, after everybody who waits."""
        self.link = link
        self._on_lost = on_lost
        self._schema = schema
        self._choice = choice
        self._last_number = 0
        self._asked: dict[bytes, _Asked] = {}
        self._given_up: dict[bytes, float] = {}  # cancelled and not answered since, oldest first: until when
        self._lost: UpstreamError | None = None
        link.receiver = self

    @property
    def is_lost(self) -> bool:
        """Whether the link is gone."""
        return self._lost is not None

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._asked)

    def ask(self, message: Message, asker: Asker) -> bytes:
        """Sends a request; gives what `cancel` takes."""
        if self._lost is not None:
            # It went while the request waited for the rules.
            raw = error_reply(message.id_token, INTERNAL_ERROR, self._lost.safe_message)
            asker.answer(raw, INTERNAL_ERROR)
            return b""
        if _cancels(message):
            # No request at all, but who goes by the method alone would cancel what is somebody else's.
            raw = error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found")
            asker.answer(raw, METHOD_NOT_FOUND)
            return b""
        self._last_number += 1
        number = b"%d" % self._last_number
        asked = _Asked(asker, message)
        try:
            renumbered = self._renumbered(message, number, asked)
        except Ambiguous as why:
            reason = f"Invalid request: in _meta, {why}"
            asker.answer(error_reply(message.id_token, INVALID_REQUEST, reason), INVALID_REQUEST)
            return b""
        self._asked[number] = asked
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
        for number, asked in tuple(self._asked.items()):
            if asked.is_listening:
                self.cancel(number)
                asked.asker.end()

    def _renumbered(self, message: Message, number: bytes, asked: _Asked) -> Message:
        raw = with_value(message.raw, message.envelope, "id", number)
        envelope = {**message.envelope, "id": Raw(number)}
        params = message.params
        meta = params.get("_meta") if params else None
        if params is not None and meta is not None:
            text = bytes(meta)
            span = maybe_sole_span(text, "progressToken")
            if span is not None:
                asked.progress_token = text[slice(*span)]
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
            self.upstream_refused(refusal.id_token, refusal.reason)
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
        asked = self._asked.pop(id_key(token), None) if token is not None else None
        if asked is None:
            self._given_up.pop(id_key(token) if token is not None else b"", None)
            log.info("Dropped a response from the upstream that nobody waits for.")
            return
        if self._is_withheld(message, asked.method):
            asked.asker.answer(error_reply(asked.id_token, INTERNAL_ERROR, INVALID_ANSWER), INTERNAL_ERROR)
            return
        raw = with_value(message.raw, message.envelope, "id", asked.id_token)
        try:
            raw = self._with_own_subscription(raw, asked)
        except (Ambiguous, NotJson, NotAnObject):
            log.warning("Withheld a message of the upstream: it can be read in two ways.")
            raw = error_reply(asked.id_token, INTERNAL_ERROR, INVALID_ANSWER)
        asked.asker.answer(raw, _code(message))

    def _is_withheld(self, message: Message, method: str | None) -> bool:
        """Whether a message must not reach any client; says so."""
        if self._choice.is_active and tool_lists.shows_hidden_tools(message, self._choice):
            log.warning("Withheld a message of the upstream: it lists tools that are hidden.")
            return True
        if self._schema is None:
            return False
        return self._schema.maybe_objection(message, method, MODERN_VERSIONS[-1]) is not None

    def _take_notification(self, message: Message) -> None:
        if self._is_withheld(message, message.method):
            return
        try:
            asked, raw = self._route(message)
        except (Ambiguous, NotJson, NotAnObject, msgspec.DecodeError, UnicodeDecodeError):
            log.warning("Dropped a message from the upstream: its params cannot be read.")
            return
        if asked is None:
            what = printable(message.method or "")
            log.info("Dropped %s from the upstream: it belongs to no request.", what)
            return
        asked.asker.push(raw)
        if asked.asker.is_full:
            self._slow_down(asked)

    def _slow_down(self, slow: _Asked) -> None:
        """Makes the upstream wait for a client that does not read, unless somebody else waits for it too."""
        if len(self._asked) == 1:
            self.link.pause(_UNREAD)
        elif slow.asker.unread > limits.UNREAD_BYTES:
            log.warning("Hung up on a client that does not read: others wait for the same upstream.")
            slow.asker.cut()
            for number in [number for number, asked in self._asked.items() if asked is slow]:
                self.cancel(number)

    def _route(self, message: Message) -> tuple[_Asked | None, bytes]:
        """Whose a notification is, and its bytes with the client's own spelling of what we renumbered."""
        params = message.envelope.get("params")
        inner = members(params) if params is not None else {}
        if message.method == "notifications/progress" and "progressToken" in inner:
            asked = self._asked.get(bytes(inner["progressToken"]))
            if asked is None or asked.progress_token is None:
                return None, b""
            new = with_value(bytes(params or b""), inner, "progressToken", asked.progress_token)
            return asked, with_value(message.raw, message.envelope, "params", new)
        meta = bytes(inner.get("_meta", b""))
        span = maybe_sole_span(meta, SUBSCRIPTION) if meta[:1] == b"{" else None
        if span is not None:
            asked = self._asked.get(meta[slice(*span)].strip(b'"'))
            if asked is None or not asked.is_listening:
                return None, b""
            return asked, self._with_own_subscription(message.raw, asked)
        one_shot = [asked for asked in self._asked.values() if not asked.is_listening]
        is_certain = len(one_shot) == 1 and not self._is_somebody_given_up()
        return (one_shot[0] if is_certain else None), message.raw

    def _is_somebody_given_up(self) -> bool:
        """Whether what the upstream says may be about a request that somebody else has cancelled."""
        now = time.monotonic()
        while self._given_up and next(iter(self._given_up.values())) <= now:
            del self._given_up[next(iter(self._given_up))]
        return bool(self._given_up)

    def _with_own_subscription(self, raw: bytes, asked: _Asked) -> bytes:
        """`raw` with the subscription id that the client knows: the id of its own listen request."""
        if not asked.is_listening:
            return raw
        envelope = members(raw)
        outer = "result" if "result" in envelope else "params"
        body = bytes(envelope.get(outer, b"{}"))
        inner = members(body)
        meta = bytes(inner.get("_meta", b""))
        span = maybe_sole_span(meta, SUBSCRIPTION) if meta[:1] == b"{" else None
        if span is None:
            return raw
        # The subscription id is the request's id; where it was sent as a string, it stays one.
        token = asked.id_token
        if meta[span[0]] == 0x22 and token[:1] != b'"':
            token = b'"%b"' % token
        new_meta = meta[: span[0]] + token + meta[span[1] :]
        return with_value(raw, envelope, outer, with_value(body, inner, "_meta", new_meta))

    def upstream_refused(self, id_token: bytes | None, why: str) -> None:
        """Something of the upstream's cannot be passed on; who waits for it hears an error."""
        log.warning("Skipped a message from the upstream. %s.", why)
        asked = self._asked.pop(id_key(id_token), None) if id_token is not None else None
        if asked is not None:
            asked.asker.answer(error_reply(asked.id_token, INTERNAL_ERROR, told(why)), INTERNAL_ERROR)

    def upstream_lost(self, error: UpstreamError) -> None:
        """The link is gone: everybody who waits hears it."""
        self._lost = error
        asked_by_all, self._asked = list(self._asked.values()), {}
        for asked in asked_by_all:
            asked.asker.answer(
                error_reply(asked.id_token, INTERNAL_ERROR, error.safe_message), INTERNAL_ERROR
            )
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


def _code(message: Message) -> int:
    error = message.envelope.get("error")
    try:
        return 0 if error is None else msgspec.json.decode(error, type=_Error).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return INTERNAL_ERROR


class _Error(msgspec.Struct):
    code: int = INTERNAL_ERROR
