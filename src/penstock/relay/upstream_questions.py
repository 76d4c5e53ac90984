"""What is asked of an upstream beside all sessions, each time over a link of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import UpstreamError
from penstock.policy.tools.upstream_tools import UpstreamTools
from penstock.relay.link_pool import LinkPool
from penstock.relay.upstream_probe import UpstreamProbe
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.carried import HttpRefusal
from penstock.wire.mcp.eras import Era

log = logging.getLogger("penstock")


class UpstreamQuestions:
    """Asks over links of `pool`."""

    def __init__(self, pool: LinkPool, tools_seconds: float) -> None:
        self._pool = pool
        self._tools_seconds = tools_seconds

    async def tools(self, era: Era) -> UpstreamTools:
        """The tools of an era that nobody spoke so far. Raises UpstreamError."""
        with self._probe() as probe:
            _, tools = await probe.learn(era)
        return tools

    async def speaks(self, era: Era, headers: Headers) -> bool | None:
        """Whether the upstream speaks an era; False when it speaks only the other one, None when it does not
        say. It is asked with the headers of a client."""
        try:
            with self._probe(headers) as probe:
                return await probe.speaks(era)
        except UpstreamError as error:
            log.info("The upstream does not say which era of MCP it speaks: %s.", error.detail)
            return None

    async def maybe_refusal(self, headers: Headers) -> HttpRefusal | None:
        """What the upstream says to a client that shows these, if it wants others."""
        try:
            with self._probe(headers) as probe:
                return await probe.maybe_refusal()
        except UpstreamError as error:
            log.info("The upstream does not say whether it takes a client: %s.", error.detail)
            return None

    @contextmanager
    def _probe(self, headers: Headers | None = None) -> Iterator[UpstreamProbe]:
        link = self._pool.open_link()
        try:
            yield UpstreamProbe(link, self._tools_seconds, self._pool.gate, headers)
        finally:
            self._pool.close_link(link)
