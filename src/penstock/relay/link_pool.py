"""Opening an upstream link for each session, and closing all of them in the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock import limits
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.tools.schema import SchemaCheck
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.relay.catalogs import Catalogs
from penstock.relay.contracts import ClientLink, UpstreamLink
from penstock.relay.session_relay import SessionRelay

if TYPE_CHECKING:  # loaded only where there are rules
    from penstock.relay.review import Review, Reviews

log = logging.getLogger("penstock")


def open_relay(
    client: ClientLink, link: UpstreamLink, choice: ToolFilter, review: Review | None, **options: Any
) -> SessionRelay:
    """A relay, with rules where there are some; `options` are those of `SessionRelay`."""
    if review is None:
        return SessionRelay(client, link, choice, **options)
    from penstock.relay.ruled_relay import RuledSessionRelay

    return RuledSessionRelay(client, link, choice, review, **options)


class LinkPool:
    """Where sessions get their links and relays."""

    def __init__(
        self,
        open_link: Callable[[], UpstreamLink],
        choice: ToolFilter,
        catalogs: Catalogs,
        tools_seconds: float,
        on_catalog: Callable[[ToolCatalog], None],
        schema: SchemaCheck | None,
        reviews: Reviews | None,
    ) -> None:
        self.open_link = open_link
        self.choice = choice
        self.catalogs = catalogs
        self._tools_seconds = tools_seconds
        self._on_catalog = on_catalog
        self._schema = schema
        self._reviews = reviews
        self._closing: set[asyncio.Task[None]] = set()

    def new_relay(
        self, session_id: bytes, client: ClientLink, link: UpstreamLink, on_fatal: Callable[[Exception], None]
    ) -> SessionRelay:
        """A relay between `client` and a link of its own."""
        return open_relay(
            client,
            link,
            self.choice,
            self._reviews.new(session_id) if self._reviews is not None else None,
            tools_seconds=self._tools_seconds,
            on_catalog=self._on_catalog,
            on_fatal=on_fatal,
            catalogs=self.catalogs.by_era(),
            schema=self._schema,
        )

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
