"""The one shared link for clients of the modern era: opened when the first of them comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import ToolListFailed, UpstreamError
from penstock.gate.gate import Gate
from penstock.policy.tools.catalog import ToolCatalog, view
from penstock.policy.tools.drift import maybe_drift
from penstock.relay.catalogs import Catalogs
from penstock.relay.contracts import UpstreamLink
from penstock.relay.kept_lists import CatalogKey
from penstock.relay.multiplexer import Multiplexer
from penstock.relay.upstream_probe import NotThisEra, UpstreamProbe
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Kind, Message

if TYPE_CHECKING:  # loaded when an upstream has refused the modern era
    from penstock.relay.adapters.bridged_links import BridgedLinks

log = logging.getLogger("penstock")

_KEY = CatalogKey(Era.MODERN)

Outcome = tuple[Multiplexer, ToolCatalog] | UpstreamError
_UNUSED_SECONDS = 5.0
_NOT_SPOKEN = b'{"code":-32601,"message":"Method not found"}'


class SharedLink:
    """Opens the shared link, learns the modern catalog over it, and opens another when it is lost."""

    def __init__(
        self,
        open_link: Callable[[], UpstreamLink],
        gate: Gate,
        catalogs: Catalogs,
        tools_seconds: float,
        on_lost: Callable[[UpstreamError], None],
        era: str = "same",
        input_seconds: float = limits.INPUT_SECONDS,
    ) -> None:
        """`on_lost` hears when the shared link is gone; `era`: whether an upstream of the other era is
        translated."""
        self._open_link = open_link
        self._gate = gate
        self._catalogs = catalogs
        self._tools_seconds = tools_seconds
        self._on_lost = on_lost
        self._ready: tuple[Multiplexer, ToolCatalog] | None = None
        self._waiting: list[Callable[[Outcome], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._verdict: NotThisEra | None = None
        self._era = era
        self._input_seconds = input_seconds
        self._bridged: BridgedLinks | None = None
        self._unused: UpstreamLink | None = None  # opened, asked for the modern era, and not greeted
        self._closing: asyncio.Task[None] | None = None
        self.carry: Callable[[Headers], Headers] | None = None  # picks what of clients' headers goes up
        self.new_state: Callable[[], bytes] | None = None  # where what clients show to go on names us
        if era == "legacy":
            self.settle_legacy()

    def is_translated(self, method: str | None) -> bool:
        """Whether a request is led to an upstream that has refused this era. Clients that know both eras ask
        with server/discover, and fall back by themselves when they hear the refusal."""
        if self._verdict is None or self._era in ("same", "modern"):
            return False
        return self._era != "auto" or method != "server/discover"

    def maybe_wrong(self, message: Message) -> bytes | None:
        """The refusal of a request that cannot be translated, whatever the upstream is: nobody is started
        for it."""
        from penstock.bridge.modern_results import maybe_wrong_meta

        return maybe_wrong_meta(message) if message.kind is Kind.REQUEST else None

    def serve_translated(self, key: bytes, headers: Headers, then: Callable[[Outcome], None]) -> None:
        """Calls `then` with a link to the upstream of the other era, for clients that are `key`. `headers`
        are those of the request that wants it."""
        if self._bridged is None:
            from penstock.relay.adapters.bridged_links import BridgedLinks

            log.info("The upstream speaks only the older era of MCP: what modern clients say is translated.")
            self._bridged = BridgedLinks(
                self._open_link,
                self._gate,
                self._catalogs,
                self._tools_seconds,
                self._input_seconds,
                self.carry,
                self._take_unused(),
                self.new_state,
            )
        self._bridged.serve(key, headers, then)

    def _keep_unused(self, link: UpstreamLink) -> None:
        """Keeps a command that was started only to hear its refusal, for whoever is translated next: most
        likely the client for which it was asked. Nobody does without it for long."""
        self._unused = link
        asyncio.get_running_loop().call_later(_UNUSED_SECONDS, self._drop_unused)

    def _take_unused(self) -> UpstreamLink | None:
        link, self._unused = self._unused, None
        return link

    def _drop_unused(self) -> None:
        link = self._take_unused()
        if link is not None:
            self._closing = asyncio.get_running_loop().create_task(link.close())

    def settle_legacy(self) -> None:
        """The upstream is known to speak the legacy era only."""
        self._verdict = self._verdict or NotThisEra("It speaks the older era only", _NOT_SPOKEN)

    @property
    def refusal(self) -> bytes | None:
        """The error object of an upstream that does not speak the modern era."""
        return self._gate.shown_error(self._verdict.error) if self._verdict is not None else None

    def adopt(self, link: UpstreamLink, catalog: ToolCatalog) -> None:
        """Uses a link that is already open and known to be modern."""
        self._ready = (self._share(link), catalog)

    def serve(self, then: Callable[[Outcome], None]) -> None:
        """Calls `then` with the link and its catalog, now or when they are there."""
        if self._ready is not None and not self._ready[0].is_lost:
            then(self._ready)
            return
        if self._verdict is not None:
            then(self._verdict)
            return
        self._ready = None
        self._waiting.append(then)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._open())

    def withdraw(self, then: Callable[[Outcome], None]) -> None:
        """Nobody waits there any more: what is kept for it goes now, and not when the upstream answers."""
        if then in self._waiting:
            self._waiting.remove(then)

    def end_listeners(self) -> None:
        """Ends the requests that only listen."""
        if self._ready is not None:
            self._ready[0].end_listeners()
        if self._bridged is not None:
            self._bridged.end_listeners()

    def lose(self, error: UpstreamError) -> None:
        """The upstream is gone, as another link has found out: everybody who waits hears it."""
        if self._ready is not None and not self._ready[0].is_lost:
            self._ready[0].upstream_lost(error)
        if self._bridged is not None:
            self._bridged.lose(error)

    async def close(self) -> None:
        """Closes the link."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._ready is not None:
            await self._ready[0].close()
        self._drop_unused()
        if self._closing is not None:
            await self._closing
        if self._bridged is not None:
            await self._bridged.close()

    async def _open(self) -> None:
        outcome: Outcome
        try:
            outcome = self._ready = await self._learn()
        except UpstreamError as error:
            log.warning("%s. %s.", error.headline, error.detail, extra=error.for_log)
            if isinstance(error, NotThisEra):
                self._verdict = error
            outcome = error
        finally:
            self._task = None
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(outcome)

    async def _learn(self) -> tuple[Multiplexer, ToolCatalog]:
        link = self._open_link()
        try:
            probe = UpstreamProbe(link, self._tools_seconds, self._gate)
            _, tools = await probe.learn(Era.MODERN)
            known = self._catalogs.maybe_known(_KEY)
            if known is None:
                return self._share(link), self._catalogs.put(_KEY, tools)
            catalog = view(tools, self._gate.choice)
        except NotThisEra:
            if link.facts.transport == "stdio" and self._era in ("auto", "bridge"):
                self._keep_unused(link)
            else:
                await link.close()
            raise
        except BaseException as error:
            await link.close()
            is_met = self._catalogs.maybe_known(CatalogKey(Era.LEGACY)) is not None
            is_silent = isinstance(error, UpstreamError) and not isinstance(error, ToolListFailed)
            if is_met and is_silent and link.facts.transport == "stdio":
                # A command that took a handshake at the start, and ends or says nothing when it is asked for
                # the modern era, has refused that era in its own way.
                raise NotThisEra(str(error), _NOT_SPOKEN) from None
            raise
        # The list is frozen for our life: a link that had to be opened anew does not bring a new one.
        drift = maybe_drift(known, catalog)
        if drift is not None:
            log.warning(
                "The upstream's tools are not what they were; clients keep the list they had. %s", drift
            )
        return self._share(link), known

    def _share(self, link: UpstreamLink) -> Multiplexer:
        return Multiplexer(link, self._gate, self._on_lost)
