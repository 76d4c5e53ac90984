"""Clients of Streamable HTTP, modern era, when the upstream speaks over one pipe or stream.

Every POST stands alone. The server's duties fall to us: the routing headers must say what the body says, an
error of the protocol has its HTTP status, and a client that hangs up has cancelled.
"""

from __future__ import annotations

import logging

import msgspec
from msgspec import Raw

from penstock.downstream.event_stream import EventStream
from penstock.downstream.replies import accepts, maybe_wrong_body, refuse, refuse_message, send_json
from penstock.errors import ClientProtocolError, UpstreamError
from penstock.net.http_exchange import Reply, Request
from penstock.policy import tool_gate
from penstock.policy.catalog import ToolCatalog
from penstock.policy.tool_filter import ToolFilter
from penstock.policy.verdict import FORWARD, Answer, Drop
from penstock.relay.modern_desk import ModernDesk
from penstock.relay.shared import SharedUpstream
from penstock.wire.ambiguity import members
from penstock.wire.mcp_headers import Mirror, mirrors_of
from penstock.wire.message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Batch,
    Kind,
    Message,
    read_client_message,
)
from penstock.wire.replies import error_reply
from penstock.wire.routing_headers import HEADER_MISMATCH, check_routing_headers, maybe_mirror_mismatch

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

    def __init__(self, reply: Reply, message: Message) -> None:
        self._reply = reply
        self._message = message
        self._stream: EventStream | None = None
        self._shared: SharedUpstream | None = None
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

    def ask(self, shared: SharedUpstream) -> None:
        """Passes the request on."""
        self._shared = shared
        self._reply.on_gone = self._on_gone
        self._number = shared.ask(self._message, self)

    def push(self, raw: bytes) -> None:
        """Something that comes before the answer."""
        if self._stream is None:
            self._stream = EventStream(self._reply)
            self._stream.on_gone = self._on_gone
            self._stream.on_drain = self._shared.on_drain if self._shared is not None else None
        self._stream.send(raw, "message")

    def answer(self, raw: bytes, code: int) -> None:
        """The answer, with the status that its error has in this era."""
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

    def __init__(self, desk: ModernDesk, choice: ToolFilter) -> None:
        self._desk = desk
        self._choice = choice
        self._marked: dict[str, tuple[Mirror, ...]] | None = None
        self._marked_of: ToolCatalog | None = None

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes one request of a modern client."""
        if request.method != b"POST":
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"POST")])
            return
        wrong = maybe_wrong_body(request)
        if wrong is not None:
            refuse(reply, *wrong)
            return
        if not (accepts(request, b"application/json") and accepts(request, b"text/event-stream")):
            refuse(
                reply, 406, "Not acceptable: the client must accept application/json and text/event-stream"
            )
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
            self._desk.serve(lambda outcome: self._take(message, request.fields, reply, outcome))

    def _take(
        self,
        message: Message,
        fields: dict[bytes, bytes],
        reply: Reply,
        outcome: tuple[SharedUpstream, ToolCatalog] | UpstreamError,
    ) -> None:
        if reply.is_gone:
            return
        if isinstance(outcome, UpstreamError):
            self._unavailable(message, reply, outcome)
            return
        shared, catalog = outcome
        mismatch = self._maybe_mismatch(message, catalog, fields)
        if mismatch is not None:
            text = f"Header mismatch: {mismatch} does not say what the body says"
            send_json(reply, 400, error_reply(message.id_token, HEADER_MISMATCH, text))
            return
        verdict = tool_gate.judge(message, catalog) if self._choice.is_active else FORWARD
        if verdict is FORWARD:
            if message.kind is Kind.REQUEST:
                ModernPost(reply, message).ask(shared)
            else:
                shared.tell(message)
                reply.send(202, [])
        elif isinstance(verdict, Answer):
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
                if (marked := mirrors_of(msgspec.json.decode(members(tool.raw)["inputSchema"])))
            }
        if name is None or not self._marked:
            return ()
        try:
            return self._marked.get(msgspec.json.decode(name, type=str), ())
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ()

    def _unavailable(self, message: Message, reply: Reply, error: UpstreamError) -> None:
        refusal = self._desk.refusal
        if refusal is not None:
            # A legacy upstream: its own word for "I do not know this", so that dual clients fall back.
            raw = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (message.id_token or b"null", refusal)
            send_json(reply, 400, raw)
        else:
            send_json(reply, 502, error_reply(message.id_token, INTERNAL_ERROR, error.safe_message))
