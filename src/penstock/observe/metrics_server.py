"""The listener for Prometheus: a port of its own, so that who may use the gate may not read its figures."""

from __future__ import annotations

import socket

from penstock.errors import ConfigError
from penstock.net.http_server import HttpServer, Reply, Request, ServerLimits
from penstock.observe import bounds
from penstock.observe.metrics import Metrics

_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
_OPEN_METRICS = b"application/openmetrics-text; version=1.0.0; charset=utf-8"


class MetricsServer:
    """Serves `/metrics`, to GET only, to few at a time."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._server = HttpServer(
            self._handle, ServerLimits(connections=bounds.METRICS_CONNECTIONS, refusals=1)
        )
        self._host = ""
        self.port = 0

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Starts to serve. Raises ConfigError when the port is taken."""
        self._host = host
        try:
            address = await self._server.listen(host, port)
        except OSError as why:
            raise ConfigError(f"Cannot serve metrics on {host}:{port}", str(why.strerror or why)) from None
        self.port = address[1]
        return address

    async def close(self) -> None:
        """Ends it."""
        await self._server.drain(0.1)

    def _handle(self, request: Request, reply: Reply) -> None:
        if not self._is_for_us(request.header(b"host")):
            reply.send(403, [(b"Content-Type", b"text/plain")], b"This is not a name of ours.\n")
        elif request.path != b"/metrics":
            reply.send(404, [(b"Content-Type", b"text/plain")], b"There is only /metrics here.\n")
        elif request.method not in (b"GET", b"HEAD"):
            reply.send(405, [(b"Allow", b"GET, HEAD"), (b"Content-Type", b"text/plain")], b"GET only.\n")
        else:
            is_open = b"application/openmetrics-text" in (request.header(b"accept") or b"")
            kind = _OPEN_METRICS if is_open else _TEXT
            headers = [(b"Content-Type", kind), (b"Cache-Control", b"no-store")]
            reply.send(200, headers, self._metrics.text(is_open))

    def _is_for_us(self, host: bytes | None) -> bool:
        """Whether the Host header names this machine: no page must read us under its own name."""
        if host is None:
            return False
        name, _, port = host.decode("latin-1").lower().rpartition(":")
        if not name or not port.isdecimal() or host.endswith(b"]"):
            name = host.decode("latin-1").lower()
        name = name.strip("[]")
        if name in ("localhost", self._host.lower()) or _is_loopback(name):
            return True
        is_public = not (self._host == "localhost" or _is_loopback(self._host))
        return is_public and (_is_address(name) or name in (socket.gethostname().lower(), socket.getfqdn()))


def _is_address(name: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, name)
        except (OSError, ValueError):
            continue
        return True
    return False


def _is_loopback(name: str) -> bool:
    return _is_address(name) and (name.startswith("127.") or name == "::1")
