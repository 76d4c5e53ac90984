"""Penstock's doors with nothing but memory on both sides: the real code, and thousands of messages a second.

Each takes what one client sends and says what went up, as the bytes on the wire, and what came back.
"""

from __future__ import annotations

import base64
import functools
from typing import Any

import msgspec

import hostile
from penstock.downstream.modern_http import ModernDoor as ModernHttpDoor
from penstock.downstream.passthrough import Passthrough
from penstock.errors import ClientProtocolError
from penstock.gate.gate import Gate
from penstock.net.http_exchange import Reply, Request
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools.catalog import ToolCatalog, build_catalog
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.relay.catalogs import CatalogKey, Catalogs
from penstock.relay.session_relay import SessionRelay
from penstock.relay.shared_link import SharedLink
from penstock.wire.http.url import parse_url
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Message, read_client_message
from penstock.wire.mcp.ndjson import to_line

CHOICE = ToolFilter(deny=(compile_pattern(hostile.DENY, "deny list"),))
GATE = Gate(CHOICE)


@functools.cache
def catalog() -> ToolCatalog:
    """What the filter leaves of an upstream that has all the tools."""
    names = [*hostile.ALLOWED, *hostile.DENIED, hostile.UNSPOKEN]
    tools = b",".join(b'{"name":%b,"inputSchema":{"type":"object"}}' % msgspec.json.encode(n) for n in names)
    return build_catalog([b'{"tools":[%b]}' % tools], CHOICE)


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


class PipeDoor:
    """A client on stdio, or any legacy client whose upstream is behind a pipe."""

    is_line = True

    def __init__(self, version: str = "2025-03-26") -> None:
        self.client, self.upstream = Memory(), Memory()
        known = {Era.LEGACY: catalog(), Era.MODERN: catalog()}
        self.relay = SessionRelay(self.client, self.upstream, GATE, catalogs=known)  # type: ignore[arg-type]
        self.relay.from_client(b'{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{}}')
        self.relay.from_upstream(
            b'{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"%b"}}' % version.encode()
        )
        self.client.given.clear()
        self.upstream.given.clear()

    def take(self, raw: bytes) -> tuple[list[bytes], list[bytes]]:
        """What goes up as lines, and what comes back, for one message."""
        self.relay.from_client(raw)
        return [to_line(message) for message in self.upstream.given], self.client.given


class CableDoor:
    """A client of Streamable HTTP in front of an upstream that speaks it too."""

    is_line = False

    def __init__(self, version: bytes = b"2025-03-26") -> None:
        self.upstream, self._version = Memory(), version
        catalogs = Catalogs(_never)
        for era in Era:
            catalogs.put(CatalogKey(era), catalog())
        self._door = Passthrough(
            self.upstream,  # type: ignore[arg-type]
            [],
            GATE,
            catalogs,
            lambda known: None,
            lambda error: None,
            has_sessions=False,
            known=None,
        )

    def take(self, raw: bytes) -> tuple[list[bytes], list[bytes]]:
        """What goes up as bodies, and what comes back, for one POST."""
        connection = Memory()
        self._door.handle(post(raw, self._version), Reply(connection, False, True))  # type: ignore[arg-type]
        return self.upstream.given, connection.given


class ModernDoor:
    """A modern client in front of one shared pipe. Its headers always say what Penstock reads in the body."""

    is_line = True

    def __init__(self) -> None:
        self.upstream = Memory()
        shared_link = SharedLink(
            _never,  # type: ignore[arg-type]
            GATE,
            Catalogs(_never),
            1.0,
            lambda known: None,
            lambda error: None,
        )
        shared_link.adopt(self.upstream, catalog())  # type: ignore[arg-type]
        self._door = ModernHttpDoor(shared_link, GATE, None)

    def take(self, raw: bytes) -> tuple[list[bytes], list[bytes]]:
        """What goes up as lines, and what comes back, for one POST."""
        connection = Memory()
        self._door.handle(post(raw, b"2026-07-28"), Reply(connection, False, True))  # type: ignore[arg-type]
        return [to_line(message) for message in self.upstream.given], connection.given


DOORS = {"pipe": PipeDoor, "passthrough": CableDoor, "modern": ModernDoor}


async def _never(*what: Any) -> Any:
    raise AssertionError("everything is known beforehand")


def post(raw: bytes, version: bytes) -> Request:
    headers = [(b"Content-Type", b"application/json"), (b"MCP-Protocol-Version", version)]
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
