"""Clients of Streamable HTTP, modern era, when the upstream speaks over one pipe or stream.

Every POST stands alone. The server's duties fall to us: the routing headers must say what the body says, an
error of the protocol has its HTTP status, and a client that hangs up has cancelled.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from penstock.downstream.event_stream import EventStream
from penstock.downstream.replies import (
    is_refused_for_now,
    maybe_wrong_post,
    refuse,
    refuse_message,
    send_json,
    wait_unless_gone,
)
from penstock.errors import ClientProtocolError, UpstreamError
from penstock.net.http_exchange import Reply, Request
from penstock.policy.tools import tool_gate
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, Answer, Drop, Verdict, is_open
from penstock.relay.catalogs import principal_of
from penstock.relay.multiplexer import Multiplexer
from penstock.relay.shared_link import SharedLink
from penstock.wire.json.ambiguity import members
from penstock.wire.mcp.mcp_headers import Mirror, mirrors_in
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Batch,
    Kind,
    Message,
    read_client_message,
    read_upstream_message,
)
from penstock.wire.mcp.replies import error_code, error_reply
from penstock.wire.mcp.routing_headers import HEADER_MISMATCH, check_routing_headers, maybe_mirror_mismatch

if TYPE_CHECKING:  # loaded only where there are rules
    from penstock.relay.review import Asked, Review, Reviews

log = logging.getLogger("penstock")

_MISSING_CAPABILITY = -32021
_UNSUPPORTED_VERSION = -32022
_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    _MISSING_CAPABILITY: 400,
    _UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}

_HANDSHAKE = frozenset(("initialize", "notifications/initialized"))
"""What would turn the shared upstream into one of the legacy era."""


class ModernPost:
    """One POST of a modern client."""

    def __init__(self, reply: Reply, message: Message, review: Review | None, asked: Asked | None) -> None:
        self._reply = reply
        self._message = message
        self._review = review
        self._asked = asked
        self._stream: EventStream | None = None
        self._shared: Multiplexer | None = None
        self._number = b""

    @property
    def is_full(self) -> bool:
        """Whether the client reads more slowly than we write."""
        return self._stream is not None and self._stream.is_full

    @property
    def unread(self) -> int:
        """Bytes that wait for the client to read."""
        return self._stream.unread if self._stream is not None else 0

    def end(self) -> None:
        """Ends a stream that has no end of its own."""
        if self._stream is not None:
            self._stream.finish()
        elif not self._reply.is_started:
            refuse(self._reply, 503, "Shutting down")

    def cut(self) -> None:
        """Hangs up on the client."""
        if self._stream is not None:
            self._stream.cut()

    def ask(self, shared: Multiplexer) -> None:
        """Passes the request on."""
        self._shared = shared
        self._reply.on_gone = self._on_gone
        self._number = shared.ask(self._message, self)

    def push(self, raw: bytes) -> None:
        """Something that comes before the answer."""
        if self._review is not None:
            message = read_upstream_message(raw)
            assert isinstance(message, Message)
            asked = self._review.begin_upstream(message)
            if asked.watches("upstream"):
                self._review.ask_upstream(
                    message, asked, lambda passed: self._push(passed.raw), lambda reply: None
                )
                return
        self._push(raw)

    def answer(self, raw: bytes, code: int) -> None:
        """The answer, with the status that its error has in this era."""
        if self._review is None or self._asked is None:
            self._answer(raw, code)
            return
        message = read_upstream_message(raw)
        assert isinstance(message, Message)
        self._review.note(message, self._message.method)
        if not self._asked.watches("upstream"):
            self._answer(raw, code)
            return
        self._review.ask_upstream(
            message,
            self._asked,
            lambda passed: self._answer(
                passed.raw, code if passed.raw is raw else _code_for_status(self._message, passed.raw)
            ),
            lambda reply: None,
        )

    def _push(self, raw: bytes) -> None:
        if self._reply.is_gone or self._reply.is_finished:
            return
        if self._stream is None:
            self._stream = EventStream(self._reply)
            self._stream.on_gone = self._on_gone
            self._stream.on_drain = self._shared.on_drain if self._shared is not None else None
        self._stream.send(raw, "message")

    def _answer(self, raw: bytes, code: int) -> None:
        if self._stream is not None:
            self._stream.send(raw, "message")
            self._stream.finish()
        elif not self._reply.is_started and not self._reply.is_gone:
            send_json(self._reply, _STATUS.get(code, 200), raw)

    def _on_gone(self) -> None:
        if self._shared is not None:
            self._shared.cancel(self._number)


class ModernDoor:
    """`/mcp` for modern clients of an upstream that is not HTTP itself."""

    def __init__(self, shared_link: SharedLink, choice: ToolFilter, reviews: Reviews | None) -> None:
        self._shared_link = shared_link
        self._reviews = reviews
        self._choice = choice
        self._marked: dict[str, tuple[Mirror, ...]] | None = None
        self._marked_of: ToolCatalog | None = None

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes one request of a modern client."""
        if request.method != b"POST":
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"POST")])
            return
        wrong = maybe_wrong_post(request)
        if wrong is not None:
            refuse(reply, *wrong)
            return
        try:
            message = read_client_message(request.body)
            if isinstance(message, Batch):
                raise ClientProtocolError(
                    INVALID_REQUEST, "Invalid request: batches are not part of this protocol version"
                )
            check_routing_headers(message, request.fields, is_required=message.kind is Kind.REQUEST)
        except ClientProtocolError as refusal:
            log.warning("Refused a message from a client. %s.", refusal.reason)
            refuse_message(reply, refusal)
            return
        if message.kind is Kind.RESPONSE:
            refuse(reply, 400, "Invalid request: this protocol version has no responses from clients")
        elif message.method in _HANDSHAKE:
            text = f"Method not found: {message.method}"
            send_json(reply, 404, error_reply(message.id_token, METHOD_NOT_FOUND, text))
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
    ) -> None:
        if reply.is_gone:
            return
        if isinstance(outcome, UpstreamError):
            self._unavailable(message, reply, outcome)
            return
        shared, catalog = outcome
        mismatch = self._maybe_mismatch(message, catalog, request.fields)
        if mismatch is not None:
            text = f"Header mismatch: {mismatch} does not say what the body says"
            send_json(reply, 400, error_reply(message.id_token, HEADER_MISMATCH, text))
            return
        verdict = self._judge(message, catalog)
        review = self._maybe_review(request)
        if review is None:
            self._follow(verdict, message, reply, shared, None, None)
            return
        asked = review.begin(message)
        if not (is_open(verdict) and asked.watches("client")):
            self._follow(verdict, message, reply, shared, review, asked)
            return
        waiting = review.ask_client(
            message,
            asked,
            lambda passed: self._follow(self._judge(passed, catalog), passed, reply, shared, review, asked),
            lambda raw: self._refused(message, raw, reply),
        )
        if waiting is not None and message.kind is Kind.REQUEST:
            reply.on_gone = waiting.cancel  # whoever hangs up has cancelled

    def _refused(self, message: Message, raw: bytes | None, reply: Reply) -> None:
        """The rules keep a message from going on; `raw` is the answer, if there is one."""
        if raw is None:
            reply.send(202, [])
        else:
            send_json(reply, _STATUS.get(_code_for_status(message, raw), 200), raw)

    def _judge(self, message: Message, catalog: ToolCatalog) -> Verdict:
        return tool_gate.judge(message, catalog) if self._choice.is_active else FORWARD

    def _maybe_review(self, request: Request) -> Review | None:
        """The rules as this client meets them; in this era there are no sessions, only principals."""
        if self._reviews is None:
            return None
        principal = principal_of(request.header(b"authorization"))
        return self._reviews.find(b"principal " + principal, None, principal)

    def _follow(
        self,
        verdict: Verdict,
        message: Message,
        reply: Reply,
        shared: Multiplexer,
        review: Review | None,
        asked: Asked | None,
    ) -> None:
        if verdict is FORWARD:
            if is_refused_for_now(reply, shared.link):
                return
            if message.kind is Kind.REQUEST:
                ModernPost(reply, message, review, asked).ask(shared)
            else:
                shared.tell(message)
                reply.send(202, [])
        elif isinstance(verdict, Answer):
            if verdict.is_list:
                ModernPost(reply, message, review, asked).answer(verdict.raw, verdict.code)
            else:
                send_json(reply, _STATUS.get(verdict.code, 200), verdict.raw)
        elif isinstance(verdict, Drop):
            log.warning("Dropped a message from a client: %s.", verdict.why)
            reply.send(202, []) if message.id_token is None else refuse(reply, 400, "Invalid request: no id")

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

    def _unavailable(self, message: Message, reply: Reply, error: UpstreamError) -> None:
        refusal = self._shared_link.refusal
        if refusal is not None:
            # A legacy upstream: its own word for "I do not know this", so that dual clients fall back.
            raw = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (message.id_token or b"null", refusal)
            send_json(reply, 400, raw)
        else:
            send_json(reply, 502, error_reply(message.id_token, INTERNAL_ERROR, error.safe_message))


def _code_for_status(request: Message, raw: bytes) -> int:
    """The code whose status an answer of ours gets. A tool that is not there has none: see the tool gate."""
    return 0 if request.method == tool_gate.CALL else error_code(raw)
