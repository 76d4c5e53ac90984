"""What a request to the hub must be before anybody looks at it: for us, from our own page, and JSON."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import msgspec

from penstock.net.http_exchange import Reply, Request
from penstock.watch.site_files import SAFETY

_encode = msgspec.json.Encoder().encode
_SITES = (None, b"same-origin", b"none")
_BODY_BYTES = 16 << 20


class Refused(Exception):
    """A request that is not answered with what it asks for."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class OwnNames:
    """The names under which the hub is reached, ports included."""

    def __init__(self, scheme: str, names: list[str], port: int) -> None:
        shown = [f"[{name}]" if ":" in name else name for name in names]
        is_usual = port == (443 if scheme == "https" else 80)
        self.hosts = {f"{name}:{port}".lower().encode() for name in shown}
        if is_usual:
            self.hosts |= {name.lower().encode() for name in shown}
        self.origins = {f"{scheme}://".encode() + host for host in self.hosts}

    def check(self, request: Request) -> None:
        """Raises Refused for a request that another site may have made, or that is for another name."""
        host = (request.header(b"host") or b"").lower()
        if host not in self.hosts:
            raise Refused(403, "host", "This is not a name of ours")
        origin = request.header(b"origin")
        if origin is not None and origin.lower() not in self.origins:
            raise Refused(403, "origin", "Another site has no business here")
        if request.header(b"sec-fetch-site") not in _SITES:
            raise Refused(403, "site", "Another site has no business here")
        if request.method in (b"POST", b"PUT", b"DELETE"):
            kind = (request.header(b"content-type") or b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                raise Refused(415, "type", "The body must be application/json")


def read_query(request: Request) -> dict[str, str]:
    """The query's values by name."""
    try:
        return dict(parse_qsl(request.query.decode("utf-8"), keep_blank_values=True, max_num_fields=20))
    except (ValueError, UnicodeDecodeError):
        raise Refused(400, "query", "The query cannot be read") from None


def read_body(request: Request) -> dict[str, Any]:
    """The JSON object in the body."""
    if len(request.body) > _BODY_BYTES:
        raise Refused(413, "size", "The body is too large")
    try:
        return msgspec.json.decode(request.body or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(400, "json", "The body must be a JSON object") from None


def whole(text: str | None, default: int) -> int:
    """A whole number of the query."""
    if text is None or text == "":
        return default
    if not text.lstrip("-").isdecimal() or len(text) > 15:
        raise Refused(400, "number", f"{text[:40]} is no whole number")
    return int(text)


def send_json(reply: Reply, status: int, value: object) -> None:
    """Answers with JSON."""
    reply.send(status, [(b"Content-Type", b"application/json"), *SAFETY], _encode(value))


def send_refusal(reply: Reply, why: Refused) -> None:
    """Answers with what was wrong."""
    send_json(reply, why.status, {"error": {"code": why.code, "message": why.message}})
