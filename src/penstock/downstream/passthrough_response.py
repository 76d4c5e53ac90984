"""What an HTTP upstream answers, looked at and passed on: one exchange of the passthrough."""

from __future__ import annotations

import logging
from asyncio import TimerHandle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from penstock import limits
from penstock.downstream.answer_bodies import (
    is_message,
    maybe_answered,
    parts_of,
    read_answer,
)
from penstock.downstream.oauth_metadata import own_resource
from penstock.downstream.passthrough_head import AnswerHead, PassthroughHead
from penstock.downstream.passthrough_verdicts import judge, maybe_hidden
from penstock.downstream.replies import send_json
from penstock.errors import ConnectFailed, UpstreamError, UpstreamLost
from penstock.net.http_exchange import Reply
from penstock.net.upstream_connection import Ticket
from penstock.policy.exchange import Exchange
from penstock.policy.verdict import Why
from penstock.relay.catalogs import LIST_CHANGED
from penstock.wire.http.byte_buffer import ByteBuffer
from penstock.wire.http.http1 import Headers
from penstock.wire.http.sse import Oversize, SseEvent, SseReader, encode_event, plainly
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.ids import id_key, maybe_id_at_edges
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind, Message, read_upstream_message
from penstock.wire.mcp.progress_events import end_of_progress
from penstock.wire.mcp.replies import INVALID_ANSWER, error_reply, over_limit, told, upstream_error_reply

if TYPE_CHECKING:
    from penstock.downstream.passthrough import Passthrough
    from penstock.gate.session_table import TrackedSession

log = logging.getLogger("penstock")

_LISTEN = "subscriptions/listen"
_REQUEST, _RESPONSE = Kind.REQUEST, Kind.RESPONSE


class PassthroughResponse:
    """Receives one response and gives it to the client, event by event or whole."""

    # What most responses leave as it is stands here once, and not in each of them.
    ticket: Ticket | None = None
    method = b"POST"
    on_success: Callable[[], None] | None = None  # instead of passing a good answer on
    is_endpoint = True  # the MCP endpoint was asked; else it is metadata
    status = 0
    _known: AnswerHead | None = None
    _reader: SseReader | None = None
    _size = 0
    _body = b""
    _pieces: ByteBuffer | None = None  # of a body that came in more than one
    _headers: Headers = []  # noqa: RUF012  # never changed in place
    _is_over = False
    _is_discarding = False  # the client is gone, and the upstream must not notice
    _last = b""  # what leaves with the end of a stream
    _out: list[bytes] | None = None  # what one piece of the upstream's stream becomes
    _undecided = 0  # messages that the rules still look at
    _is_read = False  # the upstream has said all
    _ids: set[bytes] | None = None  # what may be answered here; None: anything
    _first: list[bytes] | tuple[()] = ()
    hello_timer: TimerHandle | None = None  # of a handshake that is not answered yet
    remembered: Sequence[Exchange] = ()  # what the session keeps while this is under way

    def __init__(
        self,
        passthrough: Passthrough,
        reply: Reply,
        message: Message | None,
        head: PassthroughHead,
        exchange: Exchange,
    ) -> None:
        """`message` is what the client asked, None for a GET, a DELETE or a batch, whose `exchange` only says
        whose it is."""
        self.passthrough = passthrough
        self._gate = passthrough.gate
        self.exchange = exchange
        self._reply = reply
        self.message = message
        self.upstream_headers = head.headers
        self.head = head
        if message is not None:
            token = message.id_token
            self._ids = {id_key(token)} if token is not None and message.kind is _REQUEST else set()
        reply.on_gone = self._on_gone
        reply.on_drain = self._on_drain

    def expect_batch(self, batch: list[Message], first: list[bytes]) -> None:
        """The answers to several requests will come; `first` are those that we give ourselves."""
        self._first = first
        self._ids = {id_key(m.id_token) for m in batch if m.id_token is not None and m.kind is Kind.REQUEST}

    # --- what the HTTP client tells ---------------------------------------------------------------------

    def on_head(self, status: int, headers: Headers) -> None:
        """The head of the response."""
        self.status = status
        assert self.ticket is not None
        assert self.ticket.head is not None
        memo = self.ticket.head.memo
        known = memo.meaning
        if type(known) is not AnswerHead:
            known = memo.meaning = self.passthrough.heads.read_answer(status, headers)
        if known.objection is not None:
            self._fail(known.objection)
            return
        self._known = known
        self._headers = known.headers
        is_unsure = self.passthrough.has_sessions is None
        if known.session is not None or status != 200 or self.method == b"DELETE" or is_unsure:
            self._note_session(status, known.session)
            if status in (401, 403):
                self._headers = self.passthrough.own_challenge(known.headers, self.head.origin)
        is_stream = known.is_stream
        if is_stream and 200 <= status < 300 and self.on_success is None:
            self._reader = SseReader(limits.MESSAGE_BYTES + 64 * 1024)
            self._start_stream()
        elif self._first:
            self._start_stream()

    def on_data(self, chunk: bytes) -> None:
        """A part of the body."""
        if self._is_over or self._is_discarding:
            return
        if self._reader is not None:
            end = self._reader.pass_over(chunk, end_of_progress) if self._gate.passes_progress else 0
            if end == len(chunk):
                out = chunk
            else:
                self._out = [chunk[:end]] if end else []
                for event in self._reader.feed(chunk[end:] if end else chunk):
                    self._pass_event(event)
                out, self._out = b"".join(self._out), None
            if out and self.ticket is not None and self.ticket.is_ending and not self._is_over:
                self._last = out  # leaves with the end, which is told next
            elif out:
                self._reply.write(out)
                if self._reply.is_full and self.ticket is not None:
                    self.ticket.pause()
            return
        self._size += len(chunk)
        if self._size > limits.MESSAGE_BYTES:
            self._fail(over_limit())
            return
        if not self._body:
            self._body = chunk  # as a rule all of it
            return
        if self._pieces is None:
            self._pieces = ByteBuffer()
            self._pieces.add(self._body)
        self._pieces.add(chunk)
        if self._pieces.is_hopeless and self.method == b"POST" and self.status == 200 and self.ticket:
            self.ticket.cancel()
            self.on_end()  # what is still to come could change nothing

    def on_end(self) -> None:
        """The response is complete."""
        if self._is_over:
            return
        if self._reader is not None or self._is_discarding:
            self._is_read = True
            if self._last and self._undecided:
                self._reply.write(self._last)
                self._last = b""
            self._finish_stream()
            return
        body = self._body if self._pieces is None else self._pieces.take()
        self._body = b""  # a large body should be there once
        if not self.is_endpoint:
            body = own_resource(body, self.head.origin, self.passthrough.own_path)
        if self.on_success is not None and 200 <= self.status < 300:
            self._end()
            if self.head.session is not None:
                self.passthrough.remember_session(self.head.session)
            self.on_success()
            return
        self.ticket = None  # it has no more to say, and knows us
        # An empty body is fine where nothing was asked; to a question it is no answer. Clients take any
        # success for one, but for the two that say that there is none.
        is_answer = 200 <= self.status < 300 and self.status not in (202, 204)
        is_looked_at = (
            is_answer and self.method == b"POST" and bool(body or (self._ids and self.status == 200))
        )
        if is_looked_at:
            self._pass_body(body)
        elif body and (why := maybe_hidden(self, body, is_answer, self._is_stream)) is not None:
            log.warning("Withheld an answer of the upstream. %s.", why)
            self.status = 502 if self.status < 300 else self.status
            self._headers = [(b"Content-Type", b"application/json")]
            self._send_ruled(self._error(INVALID_ANSWER))
        elif body and self.method == b"POST" and self._gate.keeps_requests and is_message(body):
            # An error of the protocol has its own status in some eras.
            judge(self, read_upstream_message(body), body, self._send_ruled)
        else:
            self._send_ruled(body)

    def _send_ruled(self, body: bytes | None) -> None:
        self._end()
        if self._reply.is_gone:
            return
        if body is None:
            self._reply.send(202, [])
            return
        if self._first:
            # Some of a batch was answered here; the rest follows as events of its own.
            for part in parts_of(body):
                self._reply.write(encode_event(part))
            self._reply.finish()
        elif self._known is not None and self._known.headers is self._headers and self.status == 200:
            self._reply.send_as(self._known.start, body)
        else:
            self._reply.send(self.status, self._headers, body)

    def on_failure(self, error: UpstreamError) -> None:
        """The response will not come, or not any further."""
        if self._is_over:
            return
        if not self._is_discarding:
            said = "An answer of the upstream failed. %s. %s."
            log.warning(said, error.headline, error.detail, extra=error.for_log)
        self._end()
        if not self._is_discarding:
            self._reply_raw(upstream_error_reply(self._token, error))
        if isinstance(error, ConnectFailed | UpstreamLost):
            self.passthrough.on_lost(error)

    @property
    def is_listening(self) -> bool:
        """Whether this lasts until somebody ends it."""
        return self.method == b"GET" or (self.message is not None and self.message.method == _LISTEN)

    @property
    def _is_stream(self) -> bool:
        return self._known is not None and self._known.is_stream

    def give_up(self) -> None:
        """Lets go of the upstream; nobody waits."""
        self._end()
        if self.ticket is not None:
            self.ticket.cancel()

    def end_stream(self) -> None:
        """Ends it on both sides."""
        self.give_up()
        if self._reply.is_started:
            self._reply.finish()
        else:
            self._reply.abort()

    # --- what the client's side tells --------------------------------------------------------------------

    def _on_gone(self) -> None:
        if self._is_over:
            return
        if self.head.era is Era.MODERN or self.method == b"GET":
            # Modern: this is how a client cancels. A stream that nobody hears serves nobody.
            self.give_up()
        else:
            # Legacy: a disconnect is no cancel, so the upstream goes on undisturbed.
            self._is_discarding = True
            self._body, self._pieces = b"", None
            self._on_drain()
            if self.ticket is not None and not self.ticket.is_sent:
                self.give_up()  # the upstream has not even got all of the question
                return
            self._forget_requests()
            self.message = None  # nobody will be told of it, so nothing of what was asked is needed any more
            self.exchange = Exchange(session=self.exchange.session)
            self.passthrough.keep_unheard(self)

    def _on_drain(self) -> None:
        if self.ticket is not None:
            self.ticket.resume()

    # --- looking at it -----------------------------------------------------------------------------------

    def _pass_body(self, body: bytes) -> None:
        """Passes a whole answer on, or an error with the id of the request in its place."""
        message = read_answer(body, self._ids)
        if isinstance(message, str):
            log.warning("Withheld an answer of the upstream. %s.", message)
            self._skipped(body, message)
            self.stand_in_head()
            self._send_ruled(self._error(INVALID_ANSWER))
        else:
            judge(self, message, body, self._send_ruled)

    def stand_in_head(self) -> None:
        """What follows is ours, and not the upstream's."""
        if self._reader is not None:
            return
        self.status = 200
        self._headers = [(b"Content-Type", b"application/json")]

    def _skipped(self, raw: bytes, why: str) -> None:
        self._gate.said(
            "upstream", "skip", raw, Why("protocol", "skip", why), self.exchange, status=self.status
        )

    def _pass_event(self, event: SseEvent | Oversize) -> None:
        """Passes an event on, or what stands in for one that must not pass, now or when the gate says so."""
        if isinstance(event, Oversize):
            log.warning("Skipped an event of the upstream: it has %d bytes.", event.size)
            self._skipped(event.head, f"It has {event.size} bytes")
            head = event.head.partition(b"data:")[2]
            self._emit(self._stand_in(maybe_id_at_edges(head, event.tail.rstrip(b"\r\n")), None))
            return
        if event.is_odd and self._gate.may_object:
            log.warning("An event of the upstream could be read in two ways; only its message is passed on.")
            event = plainly(event)
        if not event.data:
            self._emit(event.raw)
        elif event.event != "message":
            # No event of ours or of MCP's; but a careless client might not look at what kind it is.
            self._emit(b"" if self._gate.lists_hidden_tools(event.data) else event.raw)
        else:
            self._pass_message_event(event)

    def _pass_message_event(self, event: SseEvent) -> None:
        assert event.data is not None
        message = read_answer(event.data, self._ids)
        if isinstance(message, str):
            log.warning("Skipped an event of the upstream. %s.", message)
            self._skipped(event.data, message)
            self._emit(self._stand_in(maybe_answered(event.data), event.id))
            return
        if self.hello_timer is not None and isinstance(message, Message) and message.kind is _RESPONSE:
            self.hello_timer.cancel()
        is_change = isinstance(message, Message) and message.method == LIST_CHANGED
        if is_change and not self.passthrough.catalogs.is_change_told(self, event.raw):
            return
        self._undecided += 1
        judge(self, message, event.data, lambda passed: self._pass_decided(passed, event))

    def _pass_decided(self, passed: bytes | None, event: SseEvent) -> None:
        self._undecided -= 1
        if passed is not None:
            is_same = passed == event.data
            self._emit(event.raw if is_same else encode_event(passed, "message", event.id, event.retry))
        self._finish_stream()

    def hold_back(self) -> None:
        """An event waits; the stream does not end before it was decided about."""
        self._undecided += 1

    def emit_late(self, raw: bytes | None) -> None:
        """Passes on the event that was held back, if there is one and somebody still listens."""
        self._undecided -= 1
        if raw is not None and not self._is_over:
            self._emit(raw)
        self._finish_stream()

    def _emit(self, raw: bytes) -> None:
        if self._out is not None:
            self._out.append(raw)
        elif raw and not self._reply.is_gone and not self._reply.is_finished:
            self._reply.write(raw)

    def _finish_stream(self) -> None:
        """Ends the client's stream when the upstream's has ended and no message waits for the rules."""
        if self._is_read and not self._undecided and not self._is_over:
            self._end()
            if self._reply.is_started:
                last, self._last = self._last, b""
                self._reply.finish(last)

    def _stand_in(self, id_token: bytes | None, event_id: bytes | None) -> bytes:
        if id_token is None or self._ids is None or id_key(id_token) not in self._ids:
            return b""
        return encode_event(error_reply(id_token, INTERNAL_ERROR, INVALID_ANSWER), id=event_id)

    # --- ends --------------------------------------------------------------------------------------------

    def _start_stream(self) -> None:
        if self._reader is None:
            self._reply.start(200, [(b"Content-Type", b"text/event-stream")])
        elif self._known is not None and self._known.headers is self._headers and self.status == 200:
            self._reply.start_as(self._known.start)
        else:
            headers = [field for field in self._headers if field[0].lower() != b"content-length"]
            self._reply.start(self.status, headers)
        for raw in self._first:
            self._reply.write(encode_event(raw))

    def _note_session(self, status: int, session: bytes | None) -> None:
        if status == 404 and self.head.session is not None:
            self.passthrough.forget_session(self.head.session)
        elif 200 <= status < 300:
            if self.method == b"DELETE" and self.head.session is not None:
                self.passthrough.forget_session(self.head.session)
                return
            if session is not None:
                self.passthrough.remember_session(session)
            if self.exchange.method == "initialize":
                self.passthrough.begin_session(session, self.exchange.session)
        elif status == 400 and self.head.session is not None and self.passthrough.known is not None:
            self.passthrough.known.refused(self.head.session)

    def _fail(self, why: str) -> None:
        log.warning("Withheld an answer of the upstream. %s.", why)
        self.give_up()
        if not self._is_discarding:
            self._reply_raw(self._error(told(why)))

    def _reply_raw(self, raw: bytes) -> None:
        if not self._reply.is_started:
            send_json(self._reply, 502, raw)
        elif self._reader is None or self.message is None or self.message.kind is not Kind.REQUEST:
            self._reply.abort()
        else:
            self._reply.write(encode_event(raw))
            self._reply.finish()

    @property
    def _token(self) -> bytes | None:
        return self.message.id_token if self.message is not None else None

    def _error(self, text: str) -> bytes:
        return error_reply(self._token, INTERNAL_ERROR, text)

    def _end(self) -> None:
        self._is_over = True
        self.passthrough.under_way.discard(self)
        if self._is_discarding:
            self.passthrough.unheard.pop(self, None)
        if self.remembered:
            self._forget_requests()
        if self.hello_timer is not None:
            self.hello_timer.cancel()
        # The reply knows us and we know it: untied, both are gone without the collector.
        self._reply.on_gone = self._reply.on_drain = None

    def _forget_requests(self) -> None:
        """Nothing more is answered here; what the client may ask for again is kept a while, if small."""
        for exchange in self.remembered:
            if exchange.weight and (self._reader is None or exchange.weight > limits.RESUMABLE_BYTES):
                cast("TrackedSession", exchange.session).requests.drop(exchange)
        self.remembered = ()
