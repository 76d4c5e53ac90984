"""Fetching the tool list over HTTP with a client's own credentials, when the upstream insists on them."""

from __future__ import annotations

import asyncio

from penstock import limits
from penstock.errors import ToolListFailed, ToolListTimeout, UpstreamError, UpstreamProtocolError
from penstock.gate.gate import Gate
from penstock.net.http_client import HttpClient, Ticket
from penstock.relay.kept_lists import CatalogKey, KeptLists
from penstock.relay.tool_list_pages import ToolListPages
from penstock.wire.http.http1 import Headers, find
from penstock.wire.http.sse import SseEvent, SseReader
from penstock.wire.json.ambiguity import Members
from penstock.wire.mcp.eras import Era, maybe_modern_meta
from penstock.wire.mcp.message import INTERNAL_ERROR, Message, read_upstream_message
from penstock.wire.mcp.replies import error_reply

ABOUT_THE_BODY = frozenset((b"mcp-method", b"mcp-name", b"content-type", b"accept"))
JSON_BOTH_WAYS = [
    (b"Content-Type", b"application/json"),
    (b"Accept", b"application/json, text/event-stream"),
]


class CatalogFetch:
    """One walk through the pages of tools/list, with the headers of the client that needs it."""

    def __init__(
        self,
        client: HttpClient,
        gate: Gate,
        key: CatalogKey,
        lists: KeptLists,
        seconds: float,
    ) -> None:
        """All pages must come within `seconds`."""
        self._client = client
        self._gate = gate
        self._key = key
        self._lists = lists
        self._headers: Headers = []
        self._fetch = ToolListPages(None)
        self._reader: SseReader | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._status = 0
        self._answer_headers: Headers = []
        self._is_over = False
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._ticket: Ticket | None = None

    def start(self, headers: Headers, params: Members | None, era: Era) -> None:
        """Begins; the outcome goes to the kept lists."""
        kept = [
            field
            for field in headers
            if field[0].lower() not in ABOUT_THE_BODY and not field[0].lower().startswith(b"mcp-param-")
        ]
        self._headers = [*kept, *JSON_BOTH_WAYS]
        if era is Era.MODERN:
            self._headers.append((b"Mcp-Method", b"tools/list"))
            self._fetch = ToolListPages(maybe_modern_meta(params))
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._timed_out)
        self._send(self._fetch.first_request())

    def on_head(self, status: int, headers: Headers) -> None:
        """The head of one page."""
        self._status = status
        self._answer_headers = headers
        kind = (find(headers, b"content-type") or b"").split(b";")[0].strip().lower()
        self._reader = SseReader(limits.MESSAGE_BYTES) if kind == b"text/event-stream" else None

    def on_data(self, chunk: bytes) -> None:
        """A part of one page."""
        if self._reader is None:
            self._size += len(chunk)
            if self._size <= limits.MESSAGE_BYTES:
                self._body.append(chunk)
            return
        for event in self._reader.feed(chunk):
            if isinstance(event, SseEvent) and event.data and self._is_taken(event.data):
                return  # whatever follows is not kept, and need not end

    def on_end(self) -> None:
        """One page is complete."""
        if self._reader is not None or not self._is_taken(b"".join(self._body)):
            self.on_failure(self._no_list())

    def _no_list(self) -> ToolListFailed:
        detail = f"The upstream answered with HTTP {self._status} and no list"
        if self._status not in (401, 403):
            return ToolListFailed(detail)
        from penstock.wire.mcp.carried import Denied, HttpRefusal

        text = f"Upstream MCP answered HTTP {self._status}"
        reply = error_reply(None, INTERNAL_ERROR, text, {"status": self._status})
        return Denied(detail, HttpRefusal(reply, self._status, self._answer_headers))

    def on_failure(self, error: UpstreamError) -> None:
        """The list cannot be had."""
        if not self._is_over:
            self._end()
            self._lists.fail(self._key, error)

    def _timed_out(self) -> None:
        self.on_failure(ToolListTimeout(self._seconds))

    def _end(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._ticket is not None:
            self._ticket.cancel()

    def _is_taken(self, text: bytes) -> bool:
        """Whether `text` is the page that was asked for; then it has been taken."""
        try:
            message = read_upstream_message(text)
        except UpstreamProtocolError:
            return False
        if not isinstance(message, Message) or not self._fetch.owns(message.id_token):
            return False
        if self._ticket is not None:
            self._ticket.cancel()
        self._gate.said("upstream", "answer", text)
        self._take(message)
        return True

    def _take(self, page: Message) -> None:
        try:
            request = self._fetch.take(page)
            if request is not None:
                self._send(request)
                return
            tools = self._fetch.tools(self._gate.list_check)
        except ToolListFailed as failure:
            self.on_failure(failure)
            return
        self._end()
        self._lists.put(self._key, tools)

    def _send(self, request: Message) -> None:
        self._body = []
        self._size = 0
        self._gate.said("penstock", "pass", request.raw)
        self._ticket = self._client.request(
            b"POST", self._client.url.target, self._headers, request.raw, self
        )
