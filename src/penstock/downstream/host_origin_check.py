"""Who may talk to the listener at all: checks of Host, Origin and Sec-Fetch-Site against pages in browsers.

A page can rebind a name of its own to our address (DNS rebinding), send requests that need no permission
(CSRF), or lead its reader to us (navigation). None of that may reach an upstream or start a process.
"""

from __future__ import annotations

import re

from penstock.net.http_exchange import Reply, Request
from penstock.wire.http.http1 import Headers

_LOOPBACK_NAMES = frozenset((b"localhost", b"127.0.0.1", b"[::1]"))
# No name that can be rebound: whoever wrote an address meant that address.
_IS_ADDRESS = re.compile(rb"\[[0-9a-f:.]+\]|[0-9]{1,3}(?:\.[0-9]{1,3}){3}").fullmatch
_ELSEWHERE = frozenset((b"cross-site", b"same-site"))  # to a browser every port of a host is the same site
_ORIGIN = re.compile(rb"https?://(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::[0-9]{1,5})?")
_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::[0-9]{1,5})?")
_EXPOSED = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
_TAKEN_HEADER = re.compile(
    rb"(?i)mcp-[a-z0-9-]+|last-event-id|authorization|content-type|accept|cache-control"
)


class HostOriginCheck:
    """Knows by which names we may be called and from which pages."""

    def __init__(self, hosts: list[str], origins: list[str]) -> None:
        """On loopback only loopback names are ours, and those in `hosts`. Pages from `origins` may use us,
        and pages of this machine."""
        self._is_loopback = True
        self._hosts = frozenset(host.lower().encode() for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/").encode() for origin in origins)

    def open_to_others(self, machine: str) -> None:
        """We are bound to more than loopback: any address may be ours, and so is the name of the `machine`.
        Pages of this machine are no more to be trusted than others."""
        self._is_loopback = False
        self._hosts |= {machine.lower().encode()}

    def maybe_refusal(self, request: Request) -> str | None:
        """Why a request must not be served; None when it may."""
        host = _maybe_name(_HOST, request.header(b"host"))
        if not self._is_our_name(host):
            return "Forbidden: unknown Host; if it is ours, --allow-host says so"
        origin = request.header(b"origin")
        if origin is not None:
            return None if self._is_our_page(origin) else "Forbidden: unknown Origin"
        # Without an Origin: an image, a frame, a form that navigates, a link that somebody clicked.
        site = request.header(b"sec-fetch-site")
        return "Forbidden: from a page of another site" if site in _ELSEWHERE else None

    def _is_our_name(self, host: bytes | None) -> bool:
        if host in self._hosts or host in _LOOPBACK_NAMES:
            return True
        return host is not None and not self._is_loopback and _IS_ADDRESS(host) is not None

    def _is_our_page(self, origin: bytes) -> bool:
        if origin.lower() in self._origins:
            return True
        return self._is_loopback and _maybe_name(_ORIGIN, origin) in _LOOPBACK_NAMES

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
