"""Where other instances bring requests whose sessions are ours. What they bring goes no further."""

from __future__ import annotations

import logging

from penstock.downstream.mcp_head import Door
from penstock.downstream.replies import refuse
from penstock.fleet.hop import Hops
from penstock.net.http_exchange import Reply, Request

log = logging.getLogger("penstock")

_MOST_TOLD = 10


class PeerDoor:
    """Takes signed requests, and nothing else."""

    def __init__(self, hops: Hops, tag: str, own: Door) -> None:
        self._hops = hops
        self._tag = tag
        self._own = own
        self._refused = 0

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes one request."""
        arrived = self._hops.maybe_arrived(request, self._tag)
        if arrived is None:
            self._refused += 1
            if self._refused <= _MOST_TOLD:
                log.warning("Refused a request at the peer door: it was not signed for us, or came twice.")
            refuse(reply, 403, "Forbidden")
            return
        self._own(arrived, reply)
