"""What becomes of a response that nobody waits for."""

from __future__ import annotations

import logging

from penstock.errors import UpstreamError
from penstock.wire.http.http1 import Headers

log = logging.getLogger("penstock")


class IgnoreResponse:
    """Receives what nobody waits for."""

    def on_head(self, status: int, headers: Headers) -> None:
        """Nobody waits for it."""

    def on_data(self, chunk: bytes) -> None:
        """Nobody waits for it."""

    def on_end(self) -> None:
        """Nobody waits for it."""

    def on_failure(self, error: UpstreamError) -> None:
        """Whoever waits on another stream hears of it there."""
        log.debug("An answer to the upstream was lost. %s.", error.detail)
