"""Links for a modern client with a link of its own, before an upstream that may speak only the legacy era."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock import __version__
from penstock.bridge.envelope import object_of
from penstock.errors import UpstreamError
from penstock.relay.adapters.bridged_link import BridgedLink
from penstock.relay.adapters.era_link import ProbingLink, maybe_response, names_modern
from penstock.relay.contracts import UpstreamLink
from penstock.relay.tool_list_pages import own_id, own_request
from penstock.wire.mcp.eras import maybe_modern_meta
from penstock.wire.mcp.message import Message

log = logging.getLogger("penstock")

OWN_INFO = b'{"name":"penstock","version":"%b"}' % __version__.encode()


class ModernClientLink(ProbingLink):
    """Asks the upstream for the modern era before the first request of a modern client goes up."""

    def __init__(
        self,
        inner: UpstreamLink,
        input_seconds: float,
        is_known: bool = False,
        reopen: Callable[[], UpstreamLink] | None = None,
    ) -> None:
        """`is_known`: it speaks the legacy era only, and is not asked. `reopen` opens another link to an
        upstream that could not bear the question."""
        super().__init__(inner)
        self._input_seconds = input_seconds
        self._is_asked = is_known
        self._reopen = reopen
        if is_known:
            self._translate()

    def send(self, message: Message) -> None:
        """Asks before the first request is sent."""
        if not self._is_asked:
            self._is_asked = True
            meta = maybe_modern_meta(message.params) or b"{}"
            self.ask(own_request(own_id(), "server/discover", object_of({"_meta": meta})))
        super().send(message)

    def decide(self, answer: Message | None) -> None:
        """Translates for an upstream that has refused the modern era, or did not say a word."""
        if answer is None or not (answer.has_result or names_modern(answer)):
            log.info("The upstream speaks only the older era of MCP: what the client says is translated.")
            self._translate()

    def upstream_lost(self, error: UpstreamError) -> None:
        """Some upstreams end when they are asked what they do not know: those are met once more."""
        reopen, self._reopen = self._reopen, None
        if self._probe is not None and reopen is not None:
            try:
                self._inner = reopen()
            except UpstreamError as why:
                error = why
            else:
                self._inner.receiver = self
                self._settle(None)
                return
        super().upstream_lost(error)

    def _translate(self) -> None:
        # Most upstreams speak their client's era: until one does not, nothing of this is loaded.
        from penstock.bridge.modern_face import ModernFace

        self._face = ModernFace(own_id, OWN_INFO, self._input_seconds)


class DiscoveryWatch(BridgedLink):
    """Hears what a client is answered that asks for the modern era itself, and falls back when it is not
    spoken: the client hears the upstream's own words, people hear which option other clients need."""

    def from_upstream(self, raw: bytes) -> None:
        """Passes everything on; after the first answer nobody listens here any more."""
        receiver = self.receiver
        assert receiver is not None
        answer = maybe_response(raw)
        if answer is not None:
            self._inner.receiver = receiver
            if not answer.has_result and not names_modern(answer):
                log.info(
                    "The upstream has refused the newer era of MCP. A client that knows no other one needs "
                    "--era bridge."
                )
        receiver.from_upstream(raw)
