"""Opening an upstream link for each session, and closing all of them in the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from penstock import limits
from penstock.gate.gate import Gate
from penstock.policy.exchange import Session
from penstock.policy.tools.catalog import ToolCatalog
from penstock.relay.catalogs import Catalogs
from penstock.relay.contracts import ClientLink, UpstreamLink
from penstock.relay.first_request import FirstRequestLink
from penstock.relay.session_relay import SessionRelay
from penstock.wire.http.http1 import Headers

log = logging.getLogger("penstock")


class LinkPool:
    """Where sessions get their links and relays."""

    def __init__(
        self,
        open_link: Callable[[], UpstreamLink],
        gate: Gate,
        catalogs: Catalogs,
        tools_seconds: float,
        on_catalog: Callable[[ToolCatalog], None],
        new_session: Callable[[bytes], Session],
        era: str = "same",
        input_seconds: float = limits.INPUT_SECONDS,
        refreshes: bool = False,
    ) -> None:
        """`era`: what is known of the upstream's, or that nothing is translated; see `FirstRequestLink`."""
        self.open_link = open_link
        self.gate = gate
        self.catalogs = catalogs
        self._tools_seconds = tools_seconds
        self._on_catalog = on_catalog
        self._new_session = new_session
        self.era = era
        self.carry: Callable[[Headers], Headers] | None = None  # picks what of clients' headers goes up
        self._input_seconds = input_seconds
        self._refreshes = refreshes
        self._closing: set[asyncio.Task[None]] = set()

    def new_relay(
        self,
        session_id: bytes,
        client: ClientLink,
        link: UpstreamLink,
        on_fatal: Callable[[Exception], None],
        carries: bool = False,
    ) -> SessionRelay:
        """A relay between `client` and a link of its own; `carries`: its messages come with headers."""
        first: FirstRequestLink | None = None
        if self.era != "same":
            first = FirstRequestLink(link, self.era, self._input_seconds)
        make: Callable[..., SessionRelay] = SessionRelay
        if carries and self.carry is not None:
            from penstock.relay.adapters.carrying_relay import CarryingRelay

            is_by_principal = self.catalogs.lists.is_by_principal
            make = partial(CarryingRelay, carry=self.carry, is_by_principal=is_by_principal)
        relay = make(
            client,
            first or link,
            self.gate,
            self._new_session(session_id),
            tools_seconds=self._tools_seconds,
            on_catalog=self._on_catalog,
            on_fatal=on_fatal,
            # A list that follows the upstream's may have changed since the start: each session asks.
            catalogs={} if self._refreshes else self.catalogs.by_era(),
            translates=self.era in ("auto", "bridge"),
            refreshes=self._refreshes,
        )
        if first is not None:
            first.on_chosen = relay.use
        return relay

    @property
    def is_full(self) -> bool:
        """Whether so many links are being closed that no new one may be opened.

        A child that does not leave takes seconds to end. Whoever comes and goes faster than that would have
        any number of them.
        """
        return len(self._closing) >= limits.SESSIONS

    def close_link(self, link: UpstreamLink) -> None:
        """Closes a link that nobody needs any more, in its own time."""
        task = asyncio.get_running_loop().create_task(self._close(link))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def closed(self) -> None:
        """Waits until every link is closed."""
        while self._closing:
            await asyncio.wait(self._closing)

    async def _close(self, link: UpstreamLink) -> None:
        try:
            await link.close()
        except Exception:
            log.exception("A link to the upstream could not be closed.")
