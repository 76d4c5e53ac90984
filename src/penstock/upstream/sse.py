"""An upstream that speaks legacy HTTP+SSE: one stream from it, one POST for each message to it.

The first event names the address to post to, which must lie on the same origin: a header with a secret
goes nowhere else. The stream is the session; when it ends, so does everything that waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock import limits
from penstock.errors import (
    ConnectFailed,
    ConnectTimeout,
    Failure,
    RequestFailed,
    SessionEnded,
    SessionRefused,
    UpstreamError,
    UpstreamLost,
)
from penstock.gate.pending import PendingTable
from penstock.net.http_client import HttpClient
from penstock.policy.exchange import Exchange
from penstock.relay.contracts import UpstreamReceiver
from penstock.upstream import refusals
from penstock.upstream.endpoint import maybe_target
from penstock.upstream.handshake import Handshake, revive
from penstock.upstream.http_answer import HttpAnswer
from penstock.upstream.http_session import OURS
from penstock.upstream.outbox import Outbox
from penstock.upstream.peer import PeerOfUpstream
from penstock.upstream.sse_posts import SsePosts
from penstock.wire.http.http1 import Headers
from penstock.wire.http.sse import Oversize, SseEvent
from penstock.wire.http.url import Url
from penstock.wire.mcp.carried import REFUSING, CarriedMessage
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import Kind, Message, read_upstream_message
from penstock.wire.mcp.replies import over_limit, upstream_error_reply
from penstock.wire.mcp.response_id import maybe_response_id

log = logging.getLogger("penstock")

_UNREAD = "upstream does not read"
_FIRST_WORDS = ("initialize", "server/discover")


class SseUpstream:
    """One session with the SSE endpoint at `url`; connects when the first message is sent."""

    def __init__(
        self,
        client: HttpClient,
        url: Url,
        headers: Headers,
        *,
        connect_seconds: float = limits.CONNECT_SECONDS,
        reconnect: bool = False,
        on_unsuitable: Callable[[str], bool] = lambda why: False,
    ) -> None:
        """`on_unsuitable` is asked when this turns out to be no such endpoint; True when it has taken what
        was not sent to somebody else."""
        self.receiver: UpstreamReceiver | None = None
        self.peer: PeerOfUpstream | None = None
        self.is_proven = False  # it has named its endpoint
        self.wants_credentials = False
        self.trouble: str | None = None  # how a message was refused, other than in the words of the protocol
        self._client = client
        self._url = url
        self._connect_seconds = connect_seconds
        self._is_revivable = reconnect
        self._on_unsuitable = on_unsuitable
        self._loop = asyncio.get_running_loop()
        kept = [field for field in headers if field[0].lower() not in OURS]
        self._stream_headers = [(b"Accept", b"text/event-stream"), (b"Accept-Encoding", b"identity"), *kept]
        self._carried: Headers = []  # what the last message of a client brought with it
        self._handshake = Handshake()
        self._outbox = Outbox(self._post, self._on_full, self._on_drained, in_turn=True)
        self._outbox.hold()
        self._posts = SsePosts(client, kept, self._outbox.done, self._outbox.lift, self._refused, self._lose)
        self._stream: HttpAnswer | None = None
        self._was_opened_again = False
        self._was_answered = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = PendingTable()  # requests without an answer
        self._own: tuple[bytes, asyncio.Future[bytes]] | None = None
        self._opened: asyncio.Future[None] | None = None
        self._reasons: set[str] = set()
        self._revival: asyncio.Task[None] | None = None
        self._is_over = False
        self._settled: asyncio.Event | None = None

    # --- toward the upstream -----------------------------------------------------------------------------

    @property
    def untaken(self) -> int:
        """Bytes of messages that the upstream has not answered, or not accepted."""
        return self._outbox.size

    def send(self, message: Message) -> None:
        """Posts a message when its turn has come."""
        if self._is_over:
            return
        if isinstance(message, CarriedMessage):
            self._carried = message.headers
        if self._stream is None and self._revival is None:
            self._open()
        if message.method == "notifications/cancelled":
            token = (message.params or {}).get("requestId")
            if token is not None:
                self._waiting.close(bytes(token))
        self._handshake.hear(message)
        self._outbox.put(message)

    def _post(self, message: Message) -> None:
        if message.method is not None and message.id_token is not None:
            self._waiting.open(Exchange(message.id_token, message.method))
            if message.method in _FIRST_WORDS:
                self._stop_timer()
                self._timer = self._loop.call_later(self._connect_seconds, self._on_late, message)
        self._posts.send(message)

    def _on_late(self, message: Message) -> None:
        """The stream is open, but what opens a session is not answered."""
        self._timer = None
        error = ConnectTimeout(self._url.shown, self._connect_seconds)
        log.warning("%s. %s. %s.", error.headline, error.detail, error.cause, extra=error.for_log)
        self.trouble = error.detail
        assert message.id_token is not None
        self._refused(message, upstream_error_reply(message.id_token, error))

    def _refused(self, message: Message, reply: bytes) -> None:
        """A request will not be answered on the stream; `reply` is the answer."""
        assert message.id_token is not None
        if self._own is not None and self._own[0] == id_key(message.id_token):
            if not self._own[1].done():
                self._own[1].set_exception(UpstreamLost("It did not take the handshake"))
            return
        if self._waiting.close(message.id_token) is not None:
            self._deliver(reply)

    # --- flow --------------------------------------------------------------------------------------------

    def pause(self, reason: str) -> None:
        """Stops reading the upstream."""
        self._reasons.add(reason)
        if self._stream is not None and self._stream.ticket is not None:
            self._stream.ticket.pause()

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading the upstream."""
        self._reasons.discard(reason)
        if not self._reasons and self._stream is not None and self._stream.ticket is not None:
            self._stream.ticket.resume()

    def cork(self) -> None:
        """Nothing to collect: every message is a request of its own."""

    def uncork(self) -> None:
        """Nothing was collected."""

    def _on_full(self) -> None:
        if self.peer is not None:
            self.peer.pause(_UNREAD)

    def _on_drained(self) -> None:
        if self.peer is not None:
            self.peer.resume(_UNREAD)

    # --- the stream --------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._stream = HttpAnswer(self)
        self._stream.ticket = self._client.request(
            b"GET", self._url.target, self._stream_headers + self._carried, b"", self._stream
        )
        self._timer = self._loop.call_later(self._connect_seconds, self._on_silence)
        if self._reasons:
            self._stream.ticket.pause()

    def began(self, answer: HttpAnswer) -> None:
        """A stream, or else the end: what it says instead is read first."""

    def event(self, answer: HttpAnswer, event: SseEvent | Oversize) -> None:
        """Takes one event: the endpoint first, then messages."""
        if isinstance(event, Oversize):
            self._skip_long(refusals.maybe_id_of_long_event(event), event.size)
        elif not event.data:
            return
        elif event.event == "endpoint":
            self._take_endpoint(event.data)
        elif event.event == "message":
            self._take_message(event.data)

    def _take_endpoint(self, data: bytes) -> None:
        if self._posts.target is not None:
            log.debug("Ignored a second endpoint.")
            return
        target = maybe_target(self._url, data)
        if target is None:
            detail = "Its endpoint is not on the same origin, so nothing is sent there"
            self._lose(ConnectFailed(self._url.shown, detail, Failure.INVALID_RESPONSE))
            return
        self._stop_timer()
        self.is_proven = True
        self._was_opened_again = False
        self._posts.target = target
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)
        elif self._revival is None:
            self._outbox.release()

    def _take_message(self, raw: bytes) -> None:
        self._was_answered = True
        id_token = maybe_response_id(raw)
        if len(raw) > limits.MESSAGE_BYTES:
            self._skip_long(id_token, len(raw))
            return
        if id_token is not None:
            key = id_key(id_token)
            answered = self._waiting.close(id_token)
            if answered is not None and answered.method in _FIRST_WORDS:
                self._stop_timer()
            if self._own is not None and self._own[0] == key:
                if not self._own[1].done():
                    self._own[1].set_result(raw)
                return
        self._deliver(raw)
        self._check_settled()

    def _skip_long(self, id_token: bytes | None, size: int) -> None:
        assert self.receiver is not None
        if id_token is not None:
            self._waiting.close(id_token)
        self.receiver.upstream_refused(id_token, over_limit(size))

    def _deliver(self, raw: bytes) -> None:
        assert self.receiver is not None
        self.receiver.from_upstream(raw)

    def over(self, answer: HttpAnswer, error: UpstreamError | None) -> None:
        """The stream is the session."""
        if self._stream is not answer:
            return
        self._stop_timer()
        self._stream = None
        if isinstance(error, RequestFailed) and answer.status == 0 and not self._was_opened_again:
            # A kept connection had ended; to ask for a stream twice harms nobody.
            self._was_opened_again = True
            self._open()
        elif error is not None:
            self._lose(error)
        elif answer.is_events:
            self._lose(SessionEnded("Its stream ended"))
        else:
            self.wants_credentials = answer.status == 401
            if self._is_told(answer):
                return
            is_elsewhere = not self.is_proven and (answer.is_good or refusals.is_another_kind(answer))
            if is_elsewhere and self._on_unsuitable(f"HTTP {answer.status}"):
                return
            self._lose(SessionRefused(self._url.shown, refusals.describe(answer)))

    def _is_told(self, answer: HttpAnswer) -> bool:
        """Whether a client is told that its credentials open no stream here; it may come back with others."""
        if self.is_proven or answer.status not in REFUSING or self._revival is not None:
            return False
        self.trouble = refusals.describe(answer)
        log.warning("The upstream does not open a stream. %s.", self.trouble)
        for message in self._outbox.empty():
            if message.kind is Kind.REQUEST and message.id_token is not None:
                self._deliver(refusals.reply_for_status(message.id_token, answer, False))
        return True

    def _on_silence(self) -> None:
        self._lose(ConnectTimeout(self._url.shown, self._connect_seconds))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- the end, and after ------------------------------------------------------------------------------

    def _lose(self, error: UpstreamError) -> None:
        if self._is_over:
            return
        self._drop_stream()
        if self._revival is not None:
            for waiting in (self._opened, self._own[1] if self._own is not None else None):
                if waiting is not None and not waiting.done():
                    waiting.set_exception(error)
            return
        if not self.is_proven and self._is_revivable and type(error) in (ConnectFailed, ConnectTimeout):
            self._outbox.hold()
            self._revival = self._loop.create_task(self._revive(float("inf")))
            return
        if not self.is_proven:
            if not isinstance(error, ConnectFailed | RequestFailed):
                error = ConnectFailed(self._url.shown, error.detail, error.failure)
            self._give_up(error)
            return
        log.info("The upstream is gone: %s.", error.detail, extra=error.for_log)
        if not self._is_revivable:
            self._give_up(SessionEnded() if error.is_of_one_session else UpstreamLost())
            return
        self._outbox.hold()
        assert self.receiver is not None
        for exchange in self._waiting.close_all():
            self.receiver.upstream_refused(exchange.id_token, "The connection to the upstream was lost")
        self._revival = self._loop.create_task(self._revive(limits.RECONNECT_SECONDS))

    def _drop_stream(self) -> None:
        self._stop_timer()
        self._posts.close()
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None

    async def _revive(self, patience: float) -> None:
        is_back = await revive(self._begin_again, self._connect_seconds, patience)
        self._revival = self._opened = None
        if is_back:
            self._outbox.release()
        else:
            self._give_up(UpstreamLost())

    async def _begin_again(self) -> None:
        self._drop_stream()
        self._opened = self._loop.create_future()
        self._open()
        await self._opened
        if self._handshake.initialize is None or not self._was_answered:
            return
        opening = self._handshake.first_words()
        assert opening.id_token is not None
        self._own = (id_key(opening.id_token), self._loop.create_future())
        try:
            self._posts.send(opening)
            answer = read_upstream_message(await self._own[1])
            if not isinstance(answer, Message) or "result" not in answer.envelope:
                raise UpstreamLost("It did not initialize again")
            if self._handshake.initialized is not None:
                self._posts.send(self._handshake.last_words())
        finally:
            self._own = None

    def _give_up(self, error: UpstreamError) -> None:
        self._end()
        assert self.receiver is not None
        self.receiver.upstream_lost(error)

    def abandon(self) -> list[Message]:
        """Stops; gives back every message that was not sent."""
        unsent = self._outbox.empty()
        self._end()
        return unsent

    async def settle(self, seconds: float) -> None:
        """Waits until everything sent is answered, but not longer than that."""
        if (self._waiting or self._outbox.is_waiting) and not self._is_over:
            self._settled = asyncio.Event()
            try:
                await asyncio.wait_for(self._settled.wait(), seconds)
            except TimeoutError:
                pass

    def _check_settled(self) -> None:
        if self._settled is not None and not self._waiting and not self._outbox.is_waiting:
            self._settled.set()

    async def close(self) -> None:
        """Ends the stream, which ends the session."""
        self._end()

    def _end(self) -> None:
        self._is_over = True
        self._outbox.hold()
        self._drop_stream()
        if self._revival is not None and self._revival is not asyncio.current_task():
            self._revival.cancel()
        if self._settled is not None:
            self._settled.set()
