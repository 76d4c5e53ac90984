"""Who may talk to the listener at all: the checks of Host and Origin against pages that rebind names."""

from __future__ import annotations

import re

from penstock.net.http_exchange import Reply, Request
from penstock.wire.http.http1 import Headers

_LOOPBACK_NAMES = frozenset((b"localhost", b"127.0.0.1", b"[::1]"))
_ORIGIN = re.compile(rb"https?://(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::[0-9]{1,5})?")
_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::[0-9]{1,5})?")
_EXPOSED = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
_TAKEN_HEADER = re.compile(
    rb"(?i)mcp-[a-z0-9-]+|last-event-id|authorization|content-type|accept|cache-control"
)


class HostOriginCheck:
    """Knows by which names we may be called and from which pages."""

    def __init__(self, is_loopback: bool, hosts: list[str], origins: list[str]) -> None:
        """On loopback only loopback names are ours, and those in `hosts`. Elsewhere the name is not known,
        so any is taken unless `hosts` says otherwise. Pages from `origins` may use us."""
        self._is_loopback = is_loopback
        self._hosts = frozenset(host.lower().encode() for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/").encode() for origin in origins)

    def maybe_refusal(self, request: Request) -> str | None:
        """Why a request must not be served; None when it may."""
        host = _maybe_name(_HOST, request.header(b"host"))
        if not self._is_our_name(host):
            return "Forbidden: unknown Host"
        origin = request.header(b"origin")
        if origin is None or origin.lower() in self._origins:
            return None
        name = _maybe_name(_ORIGIN, origin)
        if name is None:
            return "Forbidden: unknown Origin"
        if self._is_loopback and name in _LOOPBACK_NAMES:
            return None
        return None if not self._is_loopback and name == host else "Forbidden: unknown Origin"

    def _is_our_name(self, host: bytes | None) -> bool:
        if host in self._hosts:
            return True
        return host in _LOOPBACK_NAMES if self._is_loopback else not self._hosts

    def cors(self, request: Request) -> Headers:
        """The headers that let a page from an allowed origin read the reply."""
        origin = request.header(b"origin")
        if origin is None or origin.lower() not in self._origins:
            return []
        return [
            (b"Access-Control-Allow-Origin", origin),
            (b"Access-Control-Expose-Headers", _EXPOSED),
            (b"Vary", b"Origin"),
        ]

    def preflight(self, request: Request, reply: Reply) -> None:
        """Answers a browser that asks whether a page may make a request."""
        headers: Headers = []
        if reply.extra:
            asked = request.header(b"access-control-request-headers") or b""
            taken = [name.strip() for name in asked.split(b",") if _TAKEN_HEADER.fullmatch(name.strip())]
            headers = [
                (b"Access-Control-Allow-Methods", b"GET, POST, DELETE, OPTIONS"),
                (b"Access-Control-Allow-Headers", b", ".join(taken)),
                (b"Access-Control-Max-Age", b"600"),
            ]
        reply.send(204, headers)


def _maybe_name(shape: re.Pattern[bytes], value: bytes | None) -> bytes | None:
    found = shape.fullmatch(value.lower()) if value is not None else None
    return found[1] if found else None
