"""An upstream that speaks Streamable HTTP, as one full-duplex link for one client session.

Every message is a POST. The era is the message's own: a modern one says in headers what its body says; a
legacy one carries the session and the version that the answer to `initialize` gave. What the upstream says
unasked comes on a GET stream, which opens when the handshake is through.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from penstock import limits
from penstock.errors import ConnectFailed, ConnectTimeout, SessionEnded, UpstreamError, UpstreamLost
from penstock.net.http_client import HttpClient
from penstock.relay.contracts import UpstreamReceiver
from penstock.upstream import refusals
from penstock.upstream.event_stream import EventStream
from penstock.upstream.handshake import Handshake, revive
from penstock.upstream.http_answer import HttpAnswer, LastAnswer
from penstock.upstream.http_session import HttpSession
from penstock.upstream.outbox import Outbox
from penstock.upstream.peer import PeerOfUpstream
from penstock.upstream.post import Post
from penstock.upstream.posts import Posts
from penstock.upstream.relisting import relist
from penstock.wire.http.http1 import Headers
from penstock.wire.http.sse import Oversize, SseEvent
from penstock.wire.http.url import Url
from penstock.wire.mcp.mcp_headers import SchemaBook
from penstock.wire.mcp.message import Kind, Message

log = logging.getLogger("penstock")

HEADER_MISMATCH = -32020
_UNREAD = "upstream does not read"
_FIRST_WORDS = ("initialize", "server/discover")
_LISTEN = "subscriptions/listen"


class StreamableHttpUpstream:
    """One session with the MCP endpoint at `url`."""

    def __init__(
        self,
        client: HttpClient,
        url: Url,
        headers: Headers,
        *,
        connect_seconds: float = limits.CONNECT_SECONDS,
        reconnect: bool = False,
        renews: bool = False,
        on_unsuitable: Callable[[str], bool] = lambda why: False,
        schemas: SchemaBook | None = None,
    ) -> None:
        """With `renews` a session that the upstream has forgotten is begun again, and nothing else is.
        `on_unsuitable` is asked when the first answer shows that this is no such endpoint; True when it
        has taken what was not answered to somebody else."""
        self.receiver: UpstreamReceiver | None = None
        self.peer: PeerOfUpstream | None = None
        self._client = client
        self._url = url
        self._connect_seconds = connect_seconds
        self._is_revivable = reconnect
        self._is_renewable = renews
        self._on_unsuitable = on_unsuitable
        self._loop = asyncio.get_running_loop()
        self._session = HttpSession(headers, schemas)
        self._handshake = Handshake()
        self._exchanges = Posts(client, url.target, self._session, self)
        self._outbox = Outbox(self._post, self._on_full, self._on_drained)
        self._stream: EventStream | None = None
        self._reasons: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._first_timer: asyncio.TimerHandle | None = None
        self._resent: Message | None = None
        self._has_worked = False  # some answer has come
        self._is_reviving = False
        self._is_over = False
        self._settled: asyncio.Event | None = None

    @property
    def is_proven(self) -> bool:
        """Whether it has answered as a Streamable HTTP endpoint does."""
        return self._exchanges.is_proven

    @property
    def wants_credentials(self) -> bool:
        """Whether its last answer was 401."""
        return self._exchanges.wants_credentials

    @property
    def answers_with_events(self) -> bool:
        """Whether it answered the handshake with a stream of events."""
        return self._exchanges.answers_with_events

    @property
    def via(self) -> bytes | None:
        """The id of the request whose own stream brings what is being delivered."""
        return self._exchanges.via

    @property
    def trouble(self) -> str | None:
        """How it last refused a message, other than in the words of the protocol."""
        return self._exchanges.trouble

    # --- toward the upstream -----------------------------------------------------------------------------

    @property
    def has_session(self) -> bool:
        """Whether the upstream gave the session an id."""
        return self._session.id is not None

    @property
    def untaken(self) -> int:
        """Bytes of messages that the upstream has not answered, or not accepted."""
        return self._outbox.size

    def send(self, message: Message) -> None:
        """Posts a message when its turn has come."""
        if self._is_over:
            return
        if message.kind is Kind.RESPONSE and self._handshake.initialize is None:
            log.debug("Dropped a response: nothing is asked of a client in this era.")
            return
        if message.method == "notifications/cancelled" and self._is_cancelled_here(message):
            return
        self._handshake.hear(message)
        self._outbox.put(message)

    def _is_cancelled_here(self, message: Message) -> bool:
        """Ends the request that `message` cancels, where closing its POST is how that is said."""
        token = (message.params or {}).get("requestId")
        if token is not None:
            if self._outbox.withdraw(bytes(token)):
                return True
            post = self._exchanges.find(bytes(token))
            if post is not None:
                if post.is_modern:
                    self._exchanges.close(post)
                elif post.timer is None:
                    post.timer = self._loop.call_later(limits.CANCELLED_SECONDS, self._exchanges.close, post)
                return post.is_modern
        return self._handshake.initialize is None

    def _post(self, message: Message) -> None:
        self._exchanges.send(Post(message, *self._session.headers_for(message)))
        if not self._has_worked and self._first_timer is None and message.method in _FIRST_WORDS:
            self._first_timer = self._loop.call_later(self._connect_seconds, self._on_silence)

    async def _ask(self, message: Message) -> bytes:
        """The answer to a message of our own, past the outbox; raises UpstreamError."""
        post = Post(message, *self._session.headers_for(message))
        post.own = self._loop.create_future()
        self._exchanges.send(post)
        try:
            answer: bytes = await post.own
            return answer
        finally:
            self._exchanges.close(post)

    # --- flow --------------------------------------------------------------------------------------------

    def pause(self, reason: str) -> None:
        """Stops reading the upstream."""
        self._reasons.add(reason)
        self._exchanges.pause()
        if self._stream is not None and self._stream.answer is not None and self._stream.answer.ticket:
            self._stream.answer.ticket.pause()

    def resume(self, reason: str) -> None:
        """Takes back a reason for not reading the upstream."""
        self._reasons.discard(reason)
        if not self._reasons:
            self._exchanges.resume()
            if self._stream is not None and self._stream.answer is not None and self._stream.answer.ticket:
                self._stream.answer.ticket.resume()

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

    # --- what the exchanges tell -------------------------------------------------------------------------

    def responded(self) -> None:
        """The upstream is there."""
        self._has_worked = True

    def accepted(self, message: Message) -> None:
        """After the handshake comes the stream."""
        if message.method == "notifications/initialized" and self._handshake.initialize is not None:
            self._open_stream()

    def closed(self, post: Post) -> None:
        """Its turn is over."""
        if post.message.method in _FIRST_WORDS:
            self._forget_first_timer()
            if post.message.method == "initialize" and post.is_answered and self._session.version is None:
                self._handshake = Handshake()  # refused: there is no such session to begin again
                self._session.has_refused()
        if post.own is None:
            self._outbox.done(post.message)
        if self._settled is not None and self._is_settled():
            self._settled.set()

    def is_elsewhere(self, why: str) -> bool:
        """Asks whoever chose this transport."""
        return self._on_unsuitable(why)

    def is_retried(self, post: Post, error: bytes, body: bytes) -> bool:
        """Calls a tool again whose schema wants headers that we did not know of."""
        is_call = post.is_modern and post.message.method == "tools/call" and post.own is None
        if not is_call or post.was_relisted or refusals.error_code(error) != HEADER_MISMATCH:
            return False
        post.was_relisted = True
        self._start(self._call_again(post, body))
        return True

    async def _call_again(self, post: Post, body: bytes) -> None:
        await relist(self._ask, post.message)
        if not self._exchanges.is_open(post):
            return  # cancelled meanwhile
        headers, *_ = self._session.headers_for(post.message)
        if headers == post.headers:
            self._exchanges.take_json(post, body)
        else:
            post.headers = headers
            self._exchanges.send(post)

    # --- the stream --------------------------------------------------------------------------------------

    def _open_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = EventStream(self._get, self._take_unasked, self.lost)

    def _get(self, answer: HttpAnswer, last_id: bytes | None) -> None:
        self._exchanges.request(b"GET", self._session.headers_for_stream(last_id), b"", answer)

    def _take_unasked(self, event: SseEvent | Oversize) -> None:
        if isinstance(event, Oversize) or len(event.data or b"") > limits.MESSAGE_BYTES:
            self._exchanges.skip_long(event, None)
        elif event.data and event.event == "message":
            self._exchanges.deliver(event.data)

    # --- the end, and after ------------------------------------------------------------------------------

    def _on_silence(self) -> None:
        """Nobody answered the first message in time: there is nobody, or only a head without a body."""
        self._first_timer = None
        error = ConnectTimeout(self._url.shown, self._connect_seconds)
        if not self._has_worked:
            self.lost(error)
            return
        log.warning("%s. %s. %s.", error.headline, error.detail, error.cause, extra=error.for_log)
        for post in self._exchanges.posts():
            if post.message.method in _FIRST_WORDS:
                self._exchanges.give_up(post, error)

    def lost(self, error: UpstreamError, unheard: Post | None = None) -> None:
        """Ends the session, or begins it again if that was asked for."""
        if self._is_over or self._is_reviving:
            return
        if self._has_worked:
            log.info("The upstream is gone: %s.", error.detail, extra=error.for_log)
            if isinstance(error, ConnectFailed):
                unheard = None  # its client hears at once that the upstream is gone
        if self._is_renewable and isinstance(error, SessionEnded):
            self._is_revivable = True
        if self._is_revivable and (self._has_worked or isinstance(error, ConnectFailed)):
            self._is_reviving = True
            self._clear(unheard)
            self._start(self._revive())
        elif self._has_worked:
            self._give_up(SessionEnded() if error.is_of_one_session else UpstreamLost())
        elif isinstance(error, ConnectFailed):
            self._give_up(error)
        else:
            self._give_up(ConnectFailed(self._url.shown, error.detail, error.failure))

    def _give_up(self, error: UpstreamError) -> None:
        self._end()
        assert self.receiver is not None
        self.receiver.upstream_lost(error)

    def _clear(self, unheard: Post | None) -> None:
        """Answers what was under way; what the upstream did not act on waits for the next session."""
        self._outbox.hold()
        self._session.forget()
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        for post in self._exchanges.posts():
            if post is unheard and post.own is None and post.message is not self._resent:
                self._resent = post.message
                self._exchanges.close(post)
                self._outbox.put_first(post.message)
            else:
                self._exchanges.refuse(post, "The connection to the upstream was lost")

    async def _revive(self) -> None:
        # One that was never there is waited for as long as it takes.
        patience = limits.RECONNECT_SECONDS if self._has_worked else float("inf")
        if self._is_renewable:
            self._is_revivable, patience = False, 0.0
        if await revive(self._begin_again, self._connect_seconds, patience):
            self._is_reviving = False
            self._outbox.release()
        else:
            self._give_up(UpstreamLost())

    async def _begin_again(self) -> None:
        if self._handshake.initialize is None or not self._has_worked:
            await self._client.connect()
            return
        await self._ask(self._handshake.first_words())
        if self._session.version is None:
            raise UpstreamLost("It did not initialize again")
        await self._ask(self._handshake.last_words())
        self._open_stream()

    def abandon(self) -> list[Message]:
        """Stops; gives back every message that has not been answered, in order."""
        unanswered = [
            post.message for post in self._exchanges.posts() if not post.is_answered and post.own is None
        ]
        unanswered += self._outbox.empty()
        self._end()
        return unanswered

    async def settle(self, seconds: float) -> None:
        """Waits until everything sent is answered, but not longer than that."""
        if not self._is_settled() and not self._is_over:
            self._settled = asyncio.Event()
            try:
                await asyncio.wait_for(self._settled.wait(), seconds)
            except TimeoutError:
                pass

    async def close(self) -> None:
        """Ends every stream and tells the upstream that the session is over."""
        was_over = self._is_over
        self._end()
        for task in tuple(self._tasks):
            task.cancel()
        if self._session.id is None or was_over:
            return
        last = LastAnswer()
        answer = HttpAnswer(last)
        self._exchanges.is_paused = False
        self._exchanges.request(b"DELETE", self._session.headers_for_stream(None), b"", answer)
        try:
            await asyncio.wait_for(last.done.wait(), limits.SESSION_END_SECONDS)
        except TimeoutError:
            answer.cancel()

    def _is_settled(self) -> bool:
        """Whether all is answered but what lasts as long as the session."""
        if self._outbox.is_waiting:
            return False
        return all(post.message.method == _LISTEN for post in self._exchanges.posts())

    def _end(self) -> None:
        self._is_over = True
        self._outbox.hold()
        self._forget_first_timer()
        if self._stream is not None:
            self._stream.close()
        for post in self._exchanges.posts():
            self._exchanges.close(post)
        if self._settled is not None:
            self._settled.set()

    def _forget_first_timer(self) -> None:
        if self._first_timer is not None:
            self._first_timer.cancel()
            self._first_timer = None

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
