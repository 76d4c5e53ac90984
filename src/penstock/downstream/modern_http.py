"""Clients of Streamable HTTP, modern era, when the upstream speaks over one pipe or stream.

Every POST stands alone. The server's duties fall to us: the routing headers must say what the body says, an
error of the protocol has its HTTP status, and a client that hangs up has cancelled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Raw

from penstock import limits
from penstock.downstream.mcp_head import peer_of, read_head
from penstock.downstream.post_reply import PostReply
from penstock.downstream.replies import (
    drop_posted,
    is_denied,
    is_refused_for_now,
    refuse,
    refuse_unread,
    send_failure,
    send_json,
    status_for,
    status_of,
    wait_unless_gone,
)
from penstock.errors import ClientProtocolError, UpstreamError
from penstock.gate.carry import carry_out
from penstock.gate.gate import Gate
from penstock.net.http_exchange import Reply, Request
from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools import tool_gate
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.verdict import FORWARD, Drop, Verdict, Wait, Why
from penstock.relay.backlog import BACKLOG
from penstock.relay.batch_replies import no_batches
from penstock.relay.catalogs import rights_of
from penstock.relay.multiplexer import Multiplexer
from penstock.relay.shared_link import SharedLink
from penstock.wire.json.ambiguity import members
from penstock.wire.mcp.eras import MODERN_VERSIONS, Era, maybe_modern_meta
from penstock.wire.mcp.mcp_headers import Mirror, mirrors_in
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Batch,
    Kind,
    Message,
    read_client_message,
)
from penstock.wire.mcp.replies import CANCELLED, error_code, error_reply
from penstock.wire.mcp.routing_headers import HEADER_MISMATCH, check_routing_headers, maybe_mirror_mismatch

if TYPE_CHECKING:  # loaded only where there are rules or observers
    from penstock.gate.session_table import SessionTable
    from penstock.wire.mcp.carried import HttpRefusal

log = logging.getLogger("penstock")

_VERSION = MODERN_VERSIONS[-1]
_HANDSHAKE = frozenset(("initialize", "notifications/initialized"))
"""What would turn the shared upstream into one of the legacy era."""


Tell = Callable[[bytes, Callable[[], None]], None]


class Following(Protocol):
    """Lets others know of what a client will come back with."""

    def tell(self, request: Request, raw: bytes, then: Callable[[], None]) -> None:
        """Calls `then` when others know what the answer `raw` gives to whoever sent `request`."""


class ModernPost(PostReply):
    """One POST of a modern client."""

    def __init__(self, reply: Reply, exchange: Exchange, gate: Gate, tell: Tell | None = None) -> None:
        """`tell` lets others know of what an answer gives, before it goes on."""
        super().__init__(reply)
        self.exchange = exchange
        self._tell = tell
        self._gate = gate
        self._shared: Multiplexer | None = None
        self._number = b""
        self._wait: Wait | None = None

    def wait_for(self, verdict: Wait, message: Message) -> None:
        """Nothing is decided about the request yet."""
        self._wait = verdict
        verdict.hear(message, self)

    def progress(self, raw: bytes, route: object) -> bool:
        """Tells the client that its request still waits, on a stream that the answer will end."""
        self._push(raw)
        return self._stream is not None and self._stream.is_open

    def end(self) -> None:
        """Ends a stream that has no end of its own."""
        self._end_without(503, "Shutting down")

    def cut(self) -> None:
        """Hangs up on the client."""
        if self._stream is not None:
            self._stream.cut()

    def ask(self, shared: Multiplexer, message: Message) -> None:
        """Passes the request on."""
        self._shared = shared
        self._wait = None
        self._on_drain = shared.on_drain
        if self._stream is not None:  # it was begun while the request waited
            self._stream.on_drain = shared.on_drain
        self._number = shared.ask(message, self)

    def push(self, message: Message) -> None:
        """Something of the upstream's that comes before the answer."""
        exchange = Exchange(b"", message.method or "", session=self.exchange.session, version=_VERSION)
        carry_out(self._gate.upstream_says(message, exchange), message, lambda passed: self._push(passed.raw))

    def answer(self, message: Message) -> None:
        """The upstream's answer, with the status that its error has in this era."""
        verdict = self._gate.upstream_says(message, self.exchange)
        if verdict is FORWARD:
            self._finish(200 if message.has_result else status_of(error_code(message.raw)), message.raw)
        else:
            carry_out(verdict, message, lambda passed: self._answer(passed.raw, passed is not message))

    def deny(self, message: Message, refusal: HttpRefusal) -> None:
        """The upstream wants other credentials: the client hears it as if it had asked it itself."""
        verdict = self._gate.upstream_says(message, self.exchange)
        status, more = refusal.status, refusal.headers
        carry_out(verdict, message, lambda passed: self._end_with(status, passed.raw, more))

    def fail(self, code: int, text: str, failure: str | None = None) -> None:
        """An error of ours in its place; `failure` is the code of what went wrong with the upstream."""
        data = None if failure is None else {"code": failure}
        raw = error_reply(self.exchange.id_token, code, text, data)
        self._gate.said("penstock", "answer", raw, None, self.exchange)
        self._finish(status_of(code), raw)

    def _answer(self, raw: bytes, is_changed: bool) -> None:
        # A call has no status of its own, whatever the rules made of it: see the tool gate.
        is_plain = is_changed and self.exchange.method == tool_gate.CALL
        self._finish(200 if is_plain else status_of(error_code(raw)), raw)

    def _finish(self, status: int, raw: bytes) -> None:
        if self._tell is None:
            self._end_with(status, raw)
        else:
            self._tell(raw, lambda: self._end_with(status, raw))

    def answer_here(self, status: int, raw: bytes) -> None:
        """An answer of ours to what was not passed on."""
        self._wait = None
        self._end_with(status, raw)

    def is_refused_for_now(self, shared: Multiplexer) -> bool:
        """Whether the upstream does not keep up; then the client has been told."""
        self._wait = None
        if self._stream is None:
            return is_refused_for_now(self._reply, shared)
        if BACKLOG.maybe_objection(shared) is None:
            return False
        self.fail(INTERNAL_ERROR, "The upstream does not keep up")
        return True

    def _on_gone(self) -> None:
        if self._shared is not None:
            self._shared.cancel(self._number)
        elif self._wait is not None:
            self._wait.cancel()  # whoever hangs up has cancelled


class ModernDoor:
    """`/mcp` for modern clients of an upstream that is not HTTP itself."""

    def __init__(self, shared_link: SharedLink, gate: Gate, sessions: SessionTable | None) -> None:
        """Without `sessions` nobody asks whose a message is, and all clients are one."""
        self._shared_link = shared_link
        self._gate = gate
        self._sessions = sessions
        self._everybody = Session(era=Era.MODERN, is_shared=True)
        self._marked: dict[str, tuple[Mirror, ...]] | None = None
        self._marked_of: ToolCatalog | None = None
        self.following: Following | None = None  # where others may get what a client comes back with

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes one request of a modern client."""
        if request.method != b"POST":
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"POST")])
            return
        wrong = read_head(request).wrong_post
        if wrong is not None:
            refuse(reply, *wrong)
            return
        try:
            message = read_client_message(request.body)
            if isinstance(message, Batch):
                raise no_batches()
            check_routing_headers(message, request.fields, is_required=message.kind is Kind.REQUEST)
        except ClientProtocolError as refusal:
            refuse_unread(reply, refusal, self._gate, request.body, self._session(request))
            return
        if message.kind is Kind.RESPONSE:
            refuse(reply, 400, "Invalid request: this protocol version has no responses from clients")
        elif message.method in _HANDSHAKE:
            self._refuse(message, request, reply, METHOD_NOT_FOUND, f"Method not found: {message.method}")
        else:
            wait_unless_gone(
                reply,
                self._shared_link.serve,
                self._shared_link.withdraw,
                lambda outcome: self._take(message, request, reply, outcome),
            )

    def _take(
        self,
        message: Message,
        request: Request,
        reply: Reply,
        outcome: tuple[Multiplexer, ToolCatalog] | UpstreamError,
        is_translated: bool = False,
    ) -> None:
        if reply.is_gone:
            return
        if isinstance(outcome, UpstreamError):
            if self._shared_link.is_translated(message.method) and not is_translated:
                wrong = self._shared_link.maybe_wrong(message)
                if wrong is not None:
                    self._refuse_with(wrong, message, request, reply)
                    return
                self._shared_link.serve_translated(
                    self._key_of(message, request),
                    request.headers,
                    lambda outcome: self._take(message, request, reply, outcome, True),
                )
                return
            self._unavailable(message, reply, outcome)
            return
        shared, catalog = outcome
        mismatch = self._maybe_mismatch(message, catalog, request.fields)
        if mismatch is not None:
            text = f"Header mismatch: {mismatch} does not say what the body says"
            self._refuse(message, request, reply, HEADER_MISMATCH, text)
            return
        exchange = Exchange(
            message.id_token or b"",
            message.method or "",
            session=self._session(request),
            catalog=catalog,
            version=_VERSION,
            headers=request.headers,
        )
        tell = None if self.following is None else partial(self.following.tell, request)
        self._carry_out(self._gate.client_says(message, exchange), message, exchange, reply, shared, tell)

    def _refuse(self, message: Message, request: Request, reply: Reply, code: int, text: str) -> None:
        self._refuse_with(error_reply(message.id_token, code, text), message, request, reply, text)

    def _refuse_with(
        self, raw: bytes, message: Message, request: Request, reply: Reply, text: str = "It says too little"
    ) -> None:
        code = error_code(raw)
        status = status_of(code)
        why = Why("protocol", "refuse", text, code)
        session = self._session(request)
        self._gate.said("client", "refuse", message.raw, why, session=session, sent=raw, status=status)
        send_json(reply, status, raw)

    def _session(self, request: Request) -> Session:
        """Whose a message is; in this era there are no sessions, only principals."""
        if self._sessions is None:
            return self._everybody
        # An upstream behind a pipe sees no credentials: whatever a client shows is its own choice.
        rights = read_head(request).principal
        return self._sessions.find_http(Era.MODERN, None, b"", rights, peer_of(request), False)

    def _carry_out(
        self,
        verdict: Verdict,
        message: Message,
        exchange: Exchange,
        reply: Reply,
        shared: Multiplexer,
        tell: Tell | None,
    ) -> None:
        """Does what was decided."""
        is_request = message.kind is Kind.REQUEST
        if is_request and isinstance(verdict, Wait):
            self._carry_out_later(verdict, message, exchange, reply, shared, tell)
            return

        def forward(passed: Message) -> None:
            if shared.backlog > limits.BACKLOG_SMALL_BYTES and is_refused_for_now(reply, shared):
                return
            if is_request:
                ModernPost(reply, exchange, self._gate, tell).ask(shared, passed)
            else:
                shared.tell(passed)
                reply.send(202, [])

        carry_out(
            verdict,
            message,
            forward,
            lambda answer: send_json(reply, status_for(answer, Era.MODERN), answer.raw),
            lambda drop: drop_posted(drop, message, reply),
        )

    def _carry_out_later(
        self,
        verdict: Wait,
        message: Message,
        exchange: Exchange,
        reply: Reply,
        shared: Multiplexer,
        tell: Tell | None,
    ) -> None:
        """The same for a request that waits: its client may hear something before anything is decided."""
        post = ModernPost(reply, exchange, self._gate, tell)
        post.wait_for(verdict, message)

        def forward(passed: Message) -> None:
            if shared.backlog <= limits.BACKLOG_SMALL_BYTES or not post.is_refused_for_now(shared):
                post.ask(shared, passed)

        def drop(dropped: Drop) -> None:
            log.warning("Dropped a message from a client: %s.", dropped.why.reason)
            post.answer_here(200, error_reply(message.id_token, INTERNAL_ERROR, CANCELLED))

        carry_out(
            verdict,
            message,
            forward,
            lambda answer: post.answer_here(status_for(answer, Era.MODERN), answer.raw),
            drop,
        )

    def _maybe_mismatch(
        self, message: Message, catalog: ToolCatalog, fields: dict[bytes, bytes]
    ) -> str | None:
        """The header that repeats an argument of a tool call and says something else."""
        if message.method != tool_gate.CALL or message.params is None:
            return None
        mirrors = self._mirrors(message.params.get("name"), catalog)
        return maybe_mirror_mismatch(mirrors, message.params.get("arguments"), fields)

    def _mirrors(self, name: Raw | None, catalog: ToolCatalog) -> tuple[Mirror, ...]:
        if self._marked is None or self._marked_of is not catalog:
            self._marked_of = catalog
            self._marked = {
                tool.name: marked
                for tool in catalog.allowed
                if (marked := mirrors_in(members(tool.raw)["inputSchema"]))
            }
        if name is None or not self._marked:
            return ()
        try:
            return self._marked.get(msgspec.json.decode(name, type=str), ())
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ()

    def _key_of(self, message: Message, request: Request) -> bytes:
        """Who may share a session upstream: equal rights, and clients that can answer the same questions."""
        carry = self._shared_link.carry
        rights = read_head(request).principal if carry is None else rights_of(carry(request.headers))
        meta = maybe_modern_meta(message.params) or b""
        return (rights or peer_of(request)) + b"\0" + meta

    def _unavailable(self, message: Message, reply: Reply, error: UpstreamError) -> None:
        refusal = self._shared_link.refusal
        if refusal is None:
            send_failure(reply, message.id_token, error)
        elif not is_denied(reply, message.id_token, error):
            # A legacy upstream: its own word for "I do not know this", so that dual clients fall back.
            raw = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (message.id_token or b"null", refusal)
            send_json(reply, 400, raw)
