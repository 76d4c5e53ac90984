"""A link for a modern client over stdio, before an upstream that may speak only the legacy era."""

from __future__ import annotations

import logging

from penstock import __version__
from penstock.bridge.envelope import object_of
from penstock.bridge.modern_face import ModernFace
from penstock.relay.adapters.era_link import ProbingLink, names_modern
from penstock.relay.contracts import UpstreamLink
from penstock.relay.tool_list_pages import own_id, own_request
from penstock.wire.mcp.eras import maybe_modern_meta
from penstock.wire.mcp.message import Message

log = logging.getLogger("penstock")

OWN_INFO = b'{"name":"penstock","version":"%b"}' % __version__.encode()


class ModernClientLink(ProbingLink):
    """Asks the upstream for the modern era before the first request of a modern client goes up."""

    def __init__(self, inner: UpstreamLink, input_seconds: float) -> None:
        super().__init__(inner)
        self._input_seconds = input_seconds
        self._is_asked = False

    def send(self, message: Message) -> None:
        """Asks before the first request is sent."""
        if not self._is_asked:
            self._is_asked = True
            meta = maybe_modern_meta(message.params) or b"{}"
            self.ask(own_request(own_id(), "server/discover", object_of({"_meta": meta})))
        super().send(message)

    def decide(self, answer: Message | None) -> None:
        """Translates for an upstream that did not prove that it speaks the modern era."""
        if answer is None or not names_modern(answer):
            log.info("The upstream speaks only the older era of MCP: what the client says is translated.")
            self._face = ModernFace(own_id, OWN_INFO, self._input_seconds)
