"""`/readyz`: whether the upstream is there, for whoever decides where requests go."""

from __future__ import annotations

import time

import msgspec

from penstock.downstream.replies import JSON, refuse, send_json
from penstock.errors import ClientProtocolError, Failure
from penstock.net.http_exchange import Reply, Request
from penstock.relay.upstream_state import UpstreamState
from penstock.wire.mcp.message import INTERNAL_ERROR, Message, read_client_message
from penstock.wire.mcp.replies import error_reply


class Readiness:
    """Answers from the state of the upstream."""

    def __init__(self, state: UpstreamState) -> None:
        self._state = state

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes a request for `/readyz`: 200 when the upstream is there, else 503."""
        if request.method not in (b"GET", b"HEAD"):
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"GET, HEAD")])
            return
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._state.since))
        body = msgspec.json.encode({"state": self._state.current, "since": since})
        reply.send(200 if self._state.is_ready else 503, JSON, body + b"\n")

    def not_ready(self, request: Request, reply: Reply) -> None:
        """Takes what is for an upstream that is not there yet: who asked something hears it by its id."""
        text, data = "The upstream MCP is not there yet", {"code": Failure.REFUSED}
        raw = error_reply(_maybe_id(request), INTERNAL_ERROR, text, data)
        send_json(reply, 503, raw, [(b"Retry-After", b"1")])


def _maybe_id(request: Request) -> bytes | None:
    if request.method != b"POST":
        return None
    try:
        message = read_client_message(request.body)
    except ClientProtocolError as refusal:
        return refusal.id_token
    return message.id_token if isinstance(message, Message) else None
