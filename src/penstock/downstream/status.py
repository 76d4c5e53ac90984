"""`/status`: how each of several upstreams is. It names them, so only this machine and admins may ask."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from penstock.downstream.replies import refuse
from penstock.net.http_exchange import Reply, Request

_FORWARDED = (b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip")
"""What a reverse proxy on this machine says of whom it asks for."""


class StatusDoor:
    """Answers with a line for each upstream."""

    def __init__(
        self,
        lines: Callable[[], bytes],
        admits: Callable[[Request], bool] = lambda request: False,
        is_behind_proxy: bool = False,
    ) -> None:
        """`admits`: who may ask beside this machine itself. Behind a proxy on this machine everybody seems to
        be on this machine."""
        self._lines = lines
        self._admits = admits
        self._is_behind_proxy = is_behind_proxy

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes a request for `/status`."""
        is_passed_on = self._is_behind_proxy or any(name in request.fields for name in _FORWARDED)
        is_local = _is_local(request.peer) and not is_passed_on
        if not is_local and not self._admits(request):
            refuse(reply, 404, "Not found")
        elif request.method not in (b"GET", b"HEAD"):
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"GET, HEAD")])
        else:
            headers = [(b"Content-Type", b"text/plain; charset=utf-8"), (b"Cache-Control", b"no-store")]
            reply.send(200, headers, self._lines())


def _is_local(peer: object) -> bool:
    """Whether a request comes from this machine; what has no address does."""
    if peer is None:
        return True
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])  # type: ignore[index]
    except (ValueError, TypeError, IndexError, KeyError):
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
