"""The listener's front: which door a request is for."""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.downstream.host_origin_check import HostOriginCheck
from penstock.downstream.mcp_head import Door, read_head
from penstock.downstream.replies import refuse
from penstock.net.http_exchange import Reply, Request

HEALTH = b"/healthz"
READY = b"/readyz"
STATUS = b"/status"
# Metadata of the upstream, asked for with the user's own headers: nothing in the path may lead elsewhere.
# Dots in escapes are dots to some, a backslash is a slash, and a semicolon may hide what follows it.
_WELL_KNOWN = re.compile(rb"/\.well-known(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+)+/?").fullmatch


def is_well_known(path: bytes) -> bool:
    """Whether metadata of an upstream may be asked for at this path."""
    return _WELL_KNOWN(path) is not None


def by_path(doors: dict[bytes, Door]) -> Door:
    """The doors without a guard, for requests that have passed one."""

    def handle(request: Request, reply: Reply) -> None:
        door = doors.get(request.path)
        if door is None:
            refuse(reply, 404, "Not found")
        else:
            door(request, reply)

    return handle


class Router:
    """Checks who asks, then hands the request to the door at its path."""

    def __init__(
        self,
        guard: HostOriginCheck,
        doors: dict[bytes, Door],
        well_known: Door | None,
        health: Callable[[], tuple[int, bytes]] = lambda: (200, b"ok\n"),
    ) -> None:
        """`health` is what `/healthz` answers."""
        self._health = health
        self._guard = guard
        self._doors = doors
        self._well_known = well_known

    def __call__(self, request: Request, reply: Reply) -> None:
        """Takes one request."""
        head = read_head(request)
        if head.door is not None:  # a head like this one was let in before
            reply.extra = head.extra
            head.door(request, reply)
            return
        refusal = self._guard.maybe_refusal(request)
        if refusal is not None:
            refuse(reply, 403, refusal)
            return
        reply.extra = self._guard.cors(request)
        if request.method == b"OPTIONS":
            self._guard.preflight(request, reply)
            return
        path = request.path
        found = self._doors.get(path)
        if found is not None:
            head.extra, head.door = reply.extra, found
            found(request, reply)
        elif path == HEALTH:
            status, text = self._health()
            reply.send(status, [(b"Content-Type", b"text/plain")], text)
        elif self._well_known is not None and _WELL_KNOWN(path):
            self._well_known(request, reply)
        else:
            refuse(reply, 404, "Not found")
