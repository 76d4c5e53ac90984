"""The POSTs of one Streamable HTTP session that are under way, and what is made of their answers.

An answer is JSON, events, or an HTTP error. What is a message goes on as the bytes that came; a request that
will get no message of its own is told so under its id; and only what shows that the upstream itself is gone
is called a loss.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from penstock import limits
from penstock.errors import (
    ConnectFailed,
    RequestFailed,
    SessionEnded,
    UpstreamError,
    UpstreamLost,
    UpstreamProtocolError,
)
from penstock.net.http_client import HttpClient
from penstock.relay.contracts import UpstreamReceiver
from penstock.upstream import refusals
from penstock.upstream.http_answer import HttpAnswer
from penstock.upstream.http_session import HttpSession
from penstock.upstream.post import Post
from penstock.wire.http.bodies import to_body
from penstock.wire.http.http1 import Headers
from penstock.wire.http.sse import Oversize, SseEvent
from penstock.wire.mcp.carried import REFUSING
from penstock.wire.mcp.eras import BATCH_VERSION
from penstock.wire.mcp.ids import exact_key
from penstock.wire.mcp.message import (
    METHOD_NOT_FOUND,
    Batch,
    Kind,
    Message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import over_limit, raw_error_reply, upstream_error_reply
from penstock.wire.mcp.response_id import maybe_response_id

log = logging.getLogger("penstock")

_EXPIRED = "The session is not known any more"


class PostsOwner(Protocol):
    """The link whose messages these are."""

    receiver: UpstreamReceiver | None

    def responded(self) -> None:
        """Some answer has begun."""

    def accepted(self, message: Message) -> None:
        """A message that nobody answers has been taken."""

    def closed(self, post: Post) -> None:
        """Nothing more comes back for a message."""

    def lost(self, error: UpstreamError, unheard: Post | None = None) -> None:
        """The upstream is gone. `unheard` is a request that it certainly did not act on."""

    def is_elsewhere(self, why: str) -> bool:
        """Whether everything goes another way, because this is not how the upstream is spoken to."""

    def is_retried(self, post: Post, error: bytes, body: bytes) -> bool:
        """Whether a request that was refused with `error` will be sent again, better."""


class Posts:
    """Every POST under way, found by the id of its request."""

    def __init__(self, client: HttpClient, target: bytes, session: HttpSession, owner: PostsOwner) -> None:
        self.is_proven = False  # it has answered as such an endpoint does
        self.wants_credentials = False
        self.answers_with_events = False  # as it answered the handshake
        self.trouble: str | None = None  # how a message was refused, other than in the words of the protocol
        self._client = client
        self._target = target
        self._session = session
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._posts: dict[bytes | int, Post] = {}
        self.is_paused = False
        self.via: bytes | None = None  # the id of the request whose stream brings what is being delivered

    def posts(self) -> list[Post]:
        """What is under way, oldest first."""
        return list(self._posts.values())

    def find(self, id_token: bytes) -> Post | None:
        """The request under way with this id."""
        found = self._posts.get(exact_key(id_token))
        if found is not None:
            return found
        return next((post for post in self._posts.values() if post.is_named_by(id_token)), None)

    def is_open(self, post: Post) -> bool:
        """Whether something may still come back."""
        return self._posts.get(post.key) is post

    def pause(self) -> None:
        """Reads no answer any further."""
        self.is_paused = True
        for post in self._posts.values():
            if post.answer is not None and post.answer.ticket is not None:
                post.answer.ticket.pause()

    def resume(self) -> None:
        """Reads on."""
        self.is_paused = False
        for post in self.posts():
            if post.answer is not None and post.answer.ticket is not None:
                post.answer.ticket.resume()

    def send(self, post: Post) -> None:
        """Posts a message."""
        self._posts[post.key] = post
        post.answer = HttpAnswer(self, post)
        # Nobody could be told that the client's answer to a question got lost, and who asked would wait for
        # ever: so it does not go where a kept connection may just be ending.
        is_answer = post.message.kind is Kind.RESPONSE
        body = to_body(post.message.raw, post.message.method is not None)
        self.request(b"POST", post.headers, body, post.answer, is_kept_used=not is_answer)

    def request(
        self, method: bytes, headers: Headers, body: bytes, answer: HttpAnswer, is_kept_used: bool = True
    ) -> None:
        """Sends any request to the endpoint."""
        answer.ticket = self._client.request(method, self._target, headers, body, answer, is_kept_used)
        if self.is_paused:
            answer.ticket.pause()

    def close(self, post: Post) -> None:
        """Ends an exchange, whatever is left of it."""
        if post.timer is not None:
            post.timer.cancel()
            post.timer = None
        if post.answer is not None:
            post.answer.cancel()
        if self.is_open(post):
            del self._posts[post.key]
            self._owner.closed(post)

    def refuse(self, post: Post, why: str) -> None:
        """Tells who waits for `post` that its answer cannot be had."""
        self.close(post)
        if post.is_answered:
            return
        post.is_answered = True
        if post.own is not None:
            post.fail_own(UpstreamLost(why))
        elif post.is_request:
            assert self._owner.receiver is not None
            self._owner.receiver.upstream_refused(post.id_token, why)

    def give_up(self, post: Post, error: UpstreamError) -> None:
        """Answers a request with an error, and waits for the upstream no longer."""
        if post.own is not None:
            post.fail_own(error)
        elif post.is_request and not post.is_answered:
            assert post.id_token is not None
            self.trouble = error.detail
            self._answer(post, upstream_error_reply(post.id_token, error))
        self.close(post)

    # --- what an answer brings ---------------------------------------------------------------------------

    def began(self, answer: HttpAnswer) -> None:
        """Takes what the head of an answer says."""
        post = _post_of(answer)
        self._owner.responded()
        if not answer.is_good or post.is_resumed:
            return
        if not post.is_request:
            answer.skip()
            # The next message goes out when this is over, so that it finds the connection free.
            post.timer = self._loop.call_later(limits.SSE_TURN_SECONDS, self._accept, post)
        elif post.message.method == "initialize":
            self._session.take_id(answer.headers)
            self.answers_with_events = answer.is_events

    def event(self, answer: HttpAnswer, event: SseEvent | Oversize) -> None:
        """Takes one event of an answer."""
        post = _post_of(answer)
        post.barren = 0
        post.last_id = answer.last_id
        post.retry = answer.retry or post.retry
        self.is_proven = True
        if isinstance(event, Oversize) or len(event.data or b"") > limits.MESSAGE_BYTES:
            self.skip_long(event, post)
        elif event.data and event.event == "message":
            id_token = maybe_response_id(event.data)
            if post.is_answered or id_token is None:
                self.via = post.id_token
                try:
                    self.deliver(event.data)
                finally:
                    self.via = None
            elif post.is_named_by(id_token):
                self._answer(post, event.data)
            else:
                self._answer_otherwise(post, event.data)

    def over(self, answer: HttpAnswer, error: UpstreamError | None) -> None:
        """Takes the end of an answer."""
        post = _post_of(answer)
        if not self.is_open(post):
            return
        if post.is_answered:
            self.close(post)
        elif error is not None:
            self._take_failure(post, answer, error)
        elif answer.is_events:
            self._resume(post, "Its events ended before the response")
        elif post.is_resumed:
            if answer.status == 404:
                self._owner.lost(SessionEnded(_EXPIRED))
            else:
                self.refuse(post, f"The rest cannot be had. {refusals.describe(answer)}")
        elif not answer.is_good:
            self._take_error_status(post, answer)
        elif post.is_request:
            self._take_body(post, answer)
        else:
            self._accept(post)

    def _accept(self, post: Post) -> None:
        self.is_proven = True
        self.close(post)
        if post.own is None:
            self._owner.accepted(post.message)
        elif not post.own.done():
            post.own.set_result(b"")

    def _take_body(self, post: Post, answer: HttpAnswer) -> None:
        if answer.is_json:
            self.is_proven = True
            self.take_json(post, answer.body)
        elif answer.trouble is None and answer.is_too_big and answer.content_type == b"application/json":
            self.refuse(post, over_limit())
        elif not self._is_elsewhere(answer):
            self.refuse(post, refusals.describe(answer))

    def take_json(self, post: Post, body: bytes) -> None:
        """Takes a whole body that should be the answer."""
        id_token = maybe_response_id(body)
        if id_token is not None and post.is_named_by(id_token):
            self._answer(post, body)
        else:
            self._answer_otherwise(post, body)
        if not post.is_answered:
            self.refuse(post, "It is no answer to what was asked")
        self.close(post)

    def _take_error_status(self, post: Post, answer: HttpAnswer) -> None:
        error = refusals.maybe_error(answer)
        is_unknown_method = error is not None and refusals.error_code(error) == METHOD_NOT_FOUND
        if answer.status == 404 and post.had_session and not is_unknown_method:
            self._owner.lost(SessionEnded(_EXPIRED), post)
            return
        if error is not None:
            self.is_proven = True
            if self._owner.is_retried(post, error, answer.body):
                return
        elif self._is_elsewhere(answer):
            return
        self.wants_credentials = answer.status == 401
        if error is None or not post.is_request:
            self.trouble = refusals.describe(answer)
            log.warning("The upstream did not take a message. %s.", self.trouble)
        if not post.is_request:
            post.fail_own(UpstreamLost(refusals.describe(answer)))
        elif error is not None and answer.status not in REFUSING:
            self.take_json(post, answer.body)
        else:
            assert post.id_token is not None
            self._answer(post, refusals.reply_for_status(post.id_token, answer, post.had_session, error))
        self.close(post)

    def _is_elsewhere(self, answer: HttpAnswer) -> bool:
        if self.is_proven or not refusals.is_another_kind(answer):
            return False
        return self._owner.is_elsewhere(f"HTTP {answer.status}")

    def _take_failure(self, post: Post, answer: HttpAnswer, error: UpstreamError) -> None:
        if isinstance(error, RequestFailed):
            self._take_silence(post, error)
            return
        is_lost = isinstance(error, ConnectFailed | UpstreamLost) or answer.status == 0
        if answer.is_events and post.last_id is not None and not post.is_modern:
            self._resume(post, error.detail)
        elif post.own is not None:
            post.fail_own(error)
            self.close(post)
        elif is_lost and not (answer.is_events and post.message.method == "subscriptions/listen"):
            # What could not be connected has reached nobody.
            self._owner.lost(error, post if isinstance(error, ConnectFailed) else None)
        else:
            # A listen stream may have been silent for hours: that somebody on the way gave up on it says
            # nothing about the upstream.
            self.refuse(post, error.detail)

    def _take_silence(self, post: Post, error: RequestFailed) -> None:
        """One request is not answered; whether it was heard cannot be known, so it is not sent again."""
        if post.own is not None:
            post.fail_own(error)
            self.close(post)
        elif post.is_resumed:
            self._resume(post, error.detail)
        elif post.is_request:
            log.warning("A request got no answer. %s.", error.detail, extra=error.for_log)
            assert post.id_token is not None
            self._answer(post, upstream_error_reply(post.id_token, error))
            self.close(post)
        else:
            log.warning("A message may not have reached the upstream. %s.", error.detail, extra=error.for_log)
            self._accept(post)

    # --- messages ----------------------------------------------------------------------------------------

    def deliver(self, raw: bytes) -> None:
        """Passes on one message."""
        assert self._owner.receiver is not None
        self._owner.receiver.from_upstream(raw)

    def skip_long(self, event: SseEvent | Oversize, post: Post | None) -> None:
        """Says what became of a message that is too long to be passed on."""
        if isinstance(event, SseEvent):
            id_token, size = maybe_response_id(event.data or b""), len(event.data or b"")
        else:
            id_token, size = refusals.maybe_id_of_long_event(event), event.size
        if post is not None and id_token is not None and post.is_named_by(id_token):
            self.refuse(post, over_limit(size))
        else:
            assert self._owner.receiver is not None
            self._owner.receiver.upstream_refused(id_token, over_limit(size))

    def _answer(self, post: Post, raw: bytes) -> None:
        """Passes on the response that `post` was there for."""
        post.is_answered = True
        if post.message.method == "initialize":
            self._session.take_version(raw)
        elif post.message.method == "tools/list" and post.is_modern:
            self._session.schemas.learn(raw)
        if post.answer is not None and post.answer.is_events and self.is_open(post):
            post.timer = self._loop.call_later(limits.LISTEN_LINGER_SECONDS, self.close, post)
        if post.message.method == "initialize":
            self._owner.closed(post)  # what waits for it need not wait for the end of a stream
        if post.own is None:
            self.deliver(raw)
        elif not post.own.done():
            post.own.set_result(raw)

    def _answer_otherwise(self, post: Post, raw: bytes) -> None:
        """Makes what it can of a message that does not answer `post` by its id."""
        try:
            message = read_upstream_message(raw)
        except UpstreamProtocolError as why:
            self.refuse(post, why.reason)
            return
        if isinstance(message, Batch):
            if self._session.version == BATCH_VERSION.encode():
                post.is_answered = True
                self.deliver(raw)
        elif message.id_token in (None, b"null") and "error" in message.envelope:
            # It could not read the id, but this is what it has to say.
            assert post.id_token is not None
            self._answer(post, raw_error_reply(post.id_token, bytes(message.envelope["error"])))
        else:
            self.deliver(raw)

    # --- the rest of an answer ---------------------------------------------------------------------------

    def _resume(self, post: Post, why: str) -> None:
        """Asks for the rest of an answer, if the upstream said how."""
        post.barren += 1
        if post.last_id is None or post.is_modern or post.barren > limits.RESUME_ATTEMPTS:
            self.refuse(post, why)
            return
        post.is_resumed = True
        post.answer = None
        post.timer = self._loop.call_later(post.retry, self._reopen, post)

    def _reopen(self, post: Post) -> None:
        post.timer = None
        post.answer = HttpAnswer(self, post)
        post.answer.last_id = post.last_id
        self.request(b"GET", self._session.headers_for_stream(post.last_id), b"", post.answer)


def _post_of(answer: HttpAnswer) -> Post:
    post = answer.purpose
    assert isinstance(post, Post)
    return post
