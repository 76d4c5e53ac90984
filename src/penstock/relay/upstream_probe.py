"""Penstock's own conversation with an upstream, to learn its tools when no client has spoken yet."""

from __future__ import annotations

import asyncio
import logging

import msgspec
from msgspec import Raw

from penstock import __version__
from penstock.errors import Failure, ToolListFailed, ToolListTimeout, UpstreamError, UpstreamProtocolError
from penstock.gate.gate import Gate
from penstock.policy.tools.upstream_tools import UpstreamTools
from penstock.relay.contracts import UpstreamLink
from penstock.relay.server_info import maybe_server_info
from penstock.relay.tool_list_pages import (
    ToolListPages,
    maybe_error_text,
    own_id,
    own_notification,
    own_request,
)
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.carried import HttpRefusal, carried
from penstock.wire.mcp.eras import (
    LEGACY_VERSIONS,
    META_CAPABILITIES,
    META_CLIENT,
    META_VERSION,
    MODERN_VERSIONS,
    Era,
)
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import METHOD_NOT_FOUND, Batch, Kind, Message, read_upstream_message
from penstock.wire.mcp.replies import error_reply, result_reply

log = logging.getLogger("penstock")

_CLIENT = {"name": "penstock", "version": __version__}

CAPABILITIES: dict[str, object] = {
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}
"""Some upstreams list a tool only to clients that can do what it asks of them. Which clients will come is not
known yet, so we offer every capability with every mode; a client that cannot do it is told so by the upstream
when it calls."""


_OPENING: dict[str, object] = {
    "protocolVersion": LEGACY_VERSIONS[-1],
    "capabilities": CAPABILITIES,
    "clientInfo": _CLIENT,
}


class NotThisEra(ToolListFailed):
    """The upstream answers, but not in the era that was asked for; `error` is its own error object."""

    def __init__(self, detail: str, error: bytes) -> None:
        super().__init__(detail)
        self.error = error


class UpstreamProbe:
    """One handshake and one tool list, over a link that nobody else uses meanwhile."""

    def __init__(
        self,
        link: UpstreamLink,
        tools_seconds: float,
        gate: Gate | None = None,
        headers: Headers | None = None,
    ) -> None:
        """All that follows the first answer may take `tools_seconds`. How long that one takes is the link's
        affair: starting a command and reaching a URL have times, and words, of their own.

        `gate` is told what is asked and answered, so that those who observe know of it. `headers` are those
        of a client in whose name is asked."""
        self._link = link
        self._gate = gate
        self._headers = headers
        self._seconds = tools_seconds
        self._deadline: asyncio.Timeout | None = None
        self._waiting: dict[bytes, asyncio.Future[Message]] = {}
        self._lost: UpstreamError | None = None
        self.greeting: bytes | None = None  # what it said of itself
        self.meta: bytes | None = None  # what a request must carry, in the modern era
        link.receiver = self

    async def learn(self, era: Era | None = None) -> tuple[Era, UpstreamTools]:
        """Which era the upstream speaks (the one asked for, or the first it answers in) and its tools.

        Raises ToolListFailed, or the UpstreamError that the link met.
        """
        try:
            async with asyncio.timeout(None) as self._deadline:
                return await self._learn(era)
        except TimeoutError:
            raise ToolListTimeout(self._seconds) from None

    async def _learn(self, era: Era | None) -> tuple[Era, UpstreamTools]:
        if era is not Era.MODERN:
            answer = await self._ask("initialize", _OPENING)
            if "result" in answer.envelope:
                self.greeting = bytes(answer.envelope["result"])
                self._link.send(own_notification("notifications/initialized"))
                return Era.LEGACY, await self._list(None, _offers_tools(answer))
            if era is Era.LEGACY:
                raise NotThisEra("The upstream refused to initialize", bytes(answer.envelope["error"]))
        meta = msgspec.json.encode(
            {META_VERSION: MODERN_VERSIONS[-1], META_CLIENT: _CLIENT, META_CAPABILITIES: CAPABILITIES}
        )
        answer = await self._ask("server/discover", {"_meta": Raw(meta)})
        if "result" not in answer.envelope:
            raise NotThisEra(self._why_unknown(answer), bytes(answer.envelope["error"]))
        self.greeting, self.meta = bytes(answer.envelope["result"]), meta
        return Era.MODERN, await self._list(meta, _offers_tools(answer))

    async def speaks(self, era: Era) -> bool | None:
        """Whether the upstream speaks an era; False when it has refused it and proven the other one, None
        when its answers say neither. Raises the UpstreamError that the link met."""
        from penstock.relay.adapters.era_link import names_modern, says_nothing

        meta = {META_VERSION: MODERN_VERSIONS[-1], META_CLIENT: _CLIENT, META_CAPABILITIES: CAPABILITIES}
        questions: dict[Era, tuple[str, dict[str, object]]] = {
            Era.LEGACY: ("initialize", _OPENING),
            Era.MODERN: ("server/discover", {"_meta": meta}),
        }
        for asked in (era, Era.LEGACY if era is Era.MODERN else Era.MODERN):
            answer = await self.ask(*questions[asked])
            if names_modern(answer) if asked is Era.MODERN else answer.has_result:
                return asked is era
            if answer.has_result or says_nothing(answer):
                return None
        return None

    async def maybe_refusal(self) -> HttpRefusal | None:
        """What an upstream answers to whoever begins with these headers, if it wants others. Raises as
        `speaks` does."""
        raw = (await self.ask("initialize", _OPENING)).raw
        return raw if isinstance(raw, HttpRefusal) else None

    def _why_unknown(self, answer: Message) -> str:
        """Why an upstream that answered neither era is none: how it refused, if the link knows."""
        trouble = self._link.facts.trouble
        if trouble is not None:
            return trouble
        said = maybe_error_text(answer.envelope["error"])
        return f"It answers neither initialize nor server/discover: {said}"

    async def _list(self, meta: bytes | None, offers_tools: bool) -> UpstreamTools:
        fetch = ToolListPages(meta, error_means_none=not offers_tools)
        request: Message | None = fetch.first_request()
        while request is not None:
            request = fetch.take(await self._send(request))
        return fetch.tools(None if self._gate is None else self._gate.list_check)

    async def ask(self, method: str, params: dict[str, object]) -> Message:
        """The answer to a further request. Raises ToolListFailed, or the UpstreamError that the link met."""
        if self.meta is not None:
            params = {**params, "_meta": Raw(self.meta)}
        try:
            async with asyncio.timeout(self._seconds):
                return await self._ask(method, params)
        except TimeoutError:
            raise ToolListFailed(f"{method} is not answered", Failure.TIMEOUT) from None

    async def _ask(self, method: str, params: dict[str, object]) -> Message:
        return await self._send(own_request(own_id(), method, msgspec.json.encode(params)))

    async def _send(self, request: Message) -> Message:
        assert request.id_token is not None
        if self._lost is not None:
            raise self._lost
        key = id_key(request.id_token)
        answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._gate is not None:
            self._gate.said("penstock", "pass", request.raw)
        if self._headers:
            request = carried(request, self._headers)
        self._link.send(request)
        try:
            message: Message = await answer
            if self._deadline is not None:
                self._deadline.reschedule(asyncio.get_running_loop().time() + self._seconds)
                self._deadline = None
            return message
        finally:
            self._waiting.pop(key, None)

    def from_upstream(self, raw: bytes) -> None:
        """Takes answers; what an upstream may ask of a client is answered so that it goes on."""
        try:
            message = read_upstream_message(raw)
        except UpstreamProtocolError as refusal:
            self.upstream_refused(refusal.id_token, refusal.reason)
            return
        if isinstance(message, Batch) or message.id_token is None:
            return
        if message.kind is Kind.REQUEST:
            if id_key(message.id_token) in self._waiting:
                self._fail(ToolListFailed("It sends back what it is sent, so it is no MCP server"))
            elif message.method == "ping":
                self._reply(result_reply(message.id_token, b"{}"))
            elif message.method == "roots/list":
                self._reply(result_reply(message.id_token, b'{"roots":[]}'))
            else:
                self._reply(error_reply(message.id_token, METHOD_NOT_FOUND, "Method not found"))
            return
        answer = self._waiting.get(id_key(message.id_token))
        if answer is not None and not answer.done():
            if self._gate is not None:
                self._gate.said("upstream", "answer", raw)
            answer.set_result(message)

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped, and told."""

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """An answer that cannot be read is no answer."""
        log.warning("Skipped a message from the upstream. %s.", why)
        if id_token is not None and id_key(id_token) in self._waiting:
            self._fail(ToolListFailed("The answer cannot be read"))

    def upstream_lost(self, error: UpstreamError) -> None:
        """The link is gone, and so is the answer."""
        self._lost = error
        self._fail(error)

    def _fail(self, error: UpstreamError) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)

    def _reply(self, raw: bytes) -> None:
        reply = read_upstream_message(raw)
        assert isinstance(reply, Message)
        self._link.send(reply)


def _offers_tools(answer: Message) -> bool:
    server_info = maybe_server_info(answer.envelope["result"])
    return server_info is None or server_info.has_tools
