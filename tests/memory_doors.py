"""Penstock's doors with nothing but memory on both sides: the real code, and thousands of messages a second.

Each takes what one client sends and says what went up, as the bytes on the wire, and what came back.
"""

from __future__ import annotations

import asyncio
import base64
import functools
from typing import Any

import msgspec

import hostile
from penstock.downstream.legacy_http import LegacyDoor as LegacyHttpDoor
from penstock.downstream.modern_http import ModernDoor as ModernHttpDoor
from penstock.downstream.passthrough import Passthrough
from penstock.downstream.sse import SseDoor as LegacySseDoor
from penstock.errors import ClientProtocolError
from penstock.gate.gate import Gate
from penstock.gate.session_table import SessionTable
from penstock.net.http_exchange import Reply, Request
from penstock.policy.exchange import Session
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools.catalog import ToolCatalog, view
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.upstream_tools import UpstreamTools, read_tools
from penstock.relay.catalogs import Catalogs
from penstock.relay.contracts import LinkFacts
from penstock.relay.kept_lists import EVERYBODYS, KeptLists
from penstock.relay.link_pool import LinkPool
from penstock.relay.session_relay import SessionRelay
from penstock.relay.sessions import Sessions
from penstock.relay.shared_link import SharedLink
from penstock.wire.http.url import parse_url
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Message, read_client_message
from penstock.wire.mcp.ndjson import to_line

CHOICE = ToolFilter(deny=(compile_pattern(hostile.DENY, "deny list"),))
GATE = Gate(CHOICE)


@functools.cache
def upstream_tools() -> UpstreamTools:
    """What an upstream lists that has all the tools."""
    names = [*hostile.ALLOWED, *hostile.DENIED, hostile.UNSPOKEN]
    tools = b",".join(b'{"name":%b,"inputSchema":{"type":"object"}}' % msgspec.json.encode(n) for n in names)
    return read_tools([b'{"tools":[%b]}' % tools])


@functools.cache
def catalog() -> ToolCatalog:
    """What the filter leaves of them."""
    return view(upstream_tools(), CHOICE)


class Memory:
    """What an end has been given."""

    receiver: Any = None
    url = parse_url("http://upstream/mcp")

    def __init__(self) -> None:
        self.given: list[bytes] = []

    def send(self, what: Any, *more: Any) -> None:
        """A message, from the relay."""
        self.given.append(what if isinstance(what, bytes) else what.raw)

    def refuse(self, raw: bytes, route: Any = None) -> None:
        """A refusal, from the relay."""
        self.given.append(raw)

    def prepare(self, method: bytes, target: bytes, headers: Any) -> bytes:
        """The beginning of a request, from the passthrough."""
        return method

    def request_as(self, start: bytes, method: bytes, body: bytes, receiver: Any) -> None:
        """The rest of it."""
        self.given.append(body)

    def request(self, method: bytes, target: bytes, headers: Any, body: bytes, receiver: Any) -> None:
        """A request, from the passthrough."""
        self.given.append(body)

    def pause(self, reason: str) -> None:
        """Nobody is paused here."""

    resume = pause

    # As an HTTP connection:
    persistence = b""
    is_full = False
    unread = untaken = 0

    def end_reply(self, data: bytes) -> None:
        """The end of a reply."""
        self.given.append(data)

    write = write_head = end_reply

    def close_after_reply(self) -> None:
        """Nothing to close."""

    abort = close_after_reply


HELLO = b'{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{}}'
HELLO_BACK = b'{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"%b"}}'


class PipeDoor:
    """A client on stdio, or any legacy client whose upstream is behind a pipe."""

    is_line = True

    def __init__(
        self, version: str = "2025-03-26", gate: Gate = GATE, sessions: SessionTable | None = None
    ) -> None:
        self.client, self.upstream = Memory(), Memory()
        known = {Era.LEGACY: catalog(), Era.MODERN: catalog()}
        session = None if sessions is None else sessions.new()
        self.relay = SessionRelay(self.client, self.upstream, gate, session, catalogs=known)  # type: ignore[arg-type]
        self.relay.from_client(HELLO)
        self.relay.from_upstream(HELLO_BACK % version.encode())
        self.client.given.clear()
        self.upstream.given.clear()

    def take(self, raw: bytes) -> tuple[list[bytes], list[bytes]]:
        """What goes up as lines, and what comes back, for one message."""
        self.relay.from_client(raw)
        return [to_line(message) for message in self.upstream.given], self.client.given


class CableDoor:
    """A client of Streamable HTTP in front of an upstream that speaks it too."""

    is_line = False

    def __init__(
        self, version: bytes = b"2025-03-26", gate: Gate = GATE, sessions: SessionTable | None = None
    ) -> None:
        self.upstream, self._version = Memory(), version
        catalogs = _known_catalogs()
        self._door = Passthrough(
            self.upstream,  # type: ignore[arg-type]
            [],
            gate,
            catalogs,
            lambda error: None,
            LinkFacts("streamable"),
            known=sessions,
        )

    def take(self, raw: bytes) -> tuple[list[bytes], list[bytes]]:
        """What goes up as bodies, and what comes back, for one POST."""
        connection = Memory()

        async def go() -> None:  # initialize is timed
            self._door.handle(post(raw, self._version), Reply(connection, False, True))  # type: ignore[arg-type]

        _LOOP.run(go())
        return self.upstream.given, connection.given


class ModernDoor:
    """A modern client in front of one shared pipe. Its headers always say what Penstock reads in the body."""

    is_line = True

    def __init__(self, gate: Gate = GATE, sessions: SessionTable | None = None) -> None:
        self.upstream = Memory()
        shared_link = SharedLink(
            _never,  # type: ignore[arg-type]
            gate,
            _known_catalogs(),
            1.0,
            lambda error: None,
        )
        shared_link.adopt(self.upstream, catalog())  # type: ignore[arg-type]
        self._door = ModernHttpDoor(shared_link, gate, sessions)

    def take(self, raw: bytes) -> tuple[list[bytes], list[bytes]]:
        """What goes up as lines, and what comes back, for one POST."""
        connection = Memory()
        self._door.handle(post(raw, b"2026-07-28"), Reply(connection, False, True))  # type: ignore[arg-type]
        return [to_line(message) for message in self.upstream.given], connection.given


class LegacyDoor:
    """A legacy client of Streamable HTTP in front of a pipe of its own."""

    is_line = True

    def __init__(
        self, version: bytes = b"2025-03-26", gate: Gate = GATE, sessions: SessionTable | None = None
    ) -> None:
        self.upstream, self._version = Memory(), version
        self._pool = _pool(self.upstream, gate, sessions)
        _LOOP.run(self._begin())

    async def _begin(self) -> None:
        self._door = LegacyHttpDoor(self._pool, Sessions(), lambda error: None)
        connection = self._post(HELLO)
        self.upstream.receiver.from_upstream(HELLO_BACK % self._version)
        heads = b"".join(connection.given).split(b"\r\n")
        (self._session,) = [line.split()[1] for line in heads if line.startswith(b"Mcp-Session-Id:")]
        self.upstream.given.clear()

    def _post(self, raw: bytes, *more: tuple[bytes, bytes]) -> Memory:
        connection = Memory()
        self._door.handle(post(raw, self._version, *more), Reply(connection, False, True))  # type: ignore[arg-type]
        return connection

    def take(self, raw: bytes) -> tuple[list[bytes], list[bytes]]:
        """What goes up as lines, and what comes back, for one POST."""

        async def go() -> Memory:
            return self._post(raw, (b"Mcp-Session-Id", self._session))

        connection = _LOOP.run(go())
        return [to_line(message) for message in self.upstream.given], connection.given


class SseDoor:
    """A client of the older HTTP+SSE transport in front of a pipe of its own."""

    is_line = True

    def __init__(
        self, version: bytes = b"2025-03-26", gate: Gate = GATE, sessions: SessionTable | None = None
    ) -> None:
        self.upstream, self._version = Memory(), version
        self._stream = Memory()
        self._pool = _pool(self.upstream, gate, sessions)
        _LOOP.run(self._begin())

    async def _begin(self) -> None:
        self._door = LegacySseDoor(self._pool, Sessions(), lambda error: None)
        accept = {b"accept": b"text/event-stream"}
        opening = Request(b"GET", b"/sse", [], b"", None, 1, accept)
        self._door.handle_stream(opening, Reply(self._stream, False, True))  # type: ignore[arg-type]
        said = b"".join(self._stream.given)
        self._target = said.partition(b"data: ")[2].split(b"\n")[0].strip()
        self._post(HELLO)
        self.upstream.receiver.from_upstream(HELLO_BACK % self._version)
        self.upstream.given.clear()
        self._stream.given.clear()

    def _post(self, raw: bytes) -> Memory:
        connection = Memory()
        request = post(raw, self._version)
        request.target = self._target
        self._door.handle_message(request, Reply(connection, False, True))  # type: ignore[arg-type]
        return connection

    def take(self, raw: bytes) -> tuple[list[bytes], list[bytes]]:
        """What goes up as lines, and what comes back, to the POST and on the stream."""

        async def go() -> Memory:
            return self._post(raw)

        connection = _LOOP.run(go())
        return [to_line(message) for message in self.upstream.given], connection.given + self._stream.given


DOORS = {
    "pipe": PipeDoor,
    "passthrough": CableDoor,
    "modern": ModernDoor,
    "legacy": LegacyDoor,
    "sse": SseDoor,
}
_LOOP = asyncio.Runner()


def forget_doors() -> None:
    """What doors made so far meant to do later is forgotten, and they with it: nobody ends them, and who
    makes thousands would keep all of their sessions, streams and timers."""
    global _LOOP
    _LOOP.close()
    _LOOP = asyncio.Runner()


def _pool(upstream: Memory, gate: Gate, sessions: SessionTable | None) -> LinkPool:
    return LinkPool(
        lambda: upstream,  # type: ignore[arg-type, return-value]
        gate,
        _known_catalogs(),
        1.0,
        lambda known: None,
        lambda session_id: Session() if sessions is None else sessions.new(session_id),
    )


def _known_catalogs() -> Catalogs:
    catalogs = Catalogs(CHOICE, KeptLists(_never))
    for key in EVERYBODYS:
        catalogs.put(key, upstream_tools())
    return catalogs


async def _never(*what: Any) -> Any:
    raise AssertionError("everything is known beforehand")


def post(raw: bytes, version: bytes, *more: tuple[bytes, bytes]) -> Request:
    headers = [(b"Content-Type", b"application/json"), (b"MCP-Protocol-Version", version), *more]
    if version == b"2026-07-28":
        headers += _mirrors(raw)
    fields = {name.lower(): value for name, value in headers}
    return Request(b"POST", b"/mcp", headers, raw, None, 1, fields)


def _mirrors(raw: bytes) -> list[tuple[bytes, bytes]]:
    try:
        message = read_client_message(raw)
    except ClientProtocolError:
        return []
    if not isinstance(message, Message) or message.method is None:
        return []
    out = [(b"Mcp-Method", _header(message.method))]
    try:
        out.append((b"Mcp-Name", _header(msgspec.json.decode((message.params or {})["name"], type=str))))
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        pass
    return out


def _header(text: str) -> bytes:
    if text.isascii() and text.isprintable():
        return text.encode()
    return b"=?base64?%b?=" % base64.b64encode(text.encode())
