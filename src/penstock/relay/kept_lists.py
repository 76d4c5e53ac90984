"""What an upstream listed, unfiltered: one list an era, and one a principal where it wants to know who asks.

Whoever filters looks at these (`catalogs.Catalogs`), so that another filter is not another fetch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Protocol
from weakref import WeakSet

from msgspec import Struct

from penstock import limits
from penstock.errors import UpstreamError
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.tools.upstream_tools import UpstreamTools, frozen_to
from penstock.wire.mcp.eras import Era

log = logging.getLogger("penstock")

Learn = Callable[[Era], Awaitable[UpstreamTools]]
Waiter = Callable[[ToolCatalog | UpstreamError], None]


class CatalogKey(Struct, frozen=True):
    """Whose list: an era's, and where upstreams ask for credentials, a principal's."""

    era: Era
    principal: bytes = b""


EVERYBODYS = (CatalogKey(Era.LEGACY), CatalogKey(Era.MODERN))

Look = Callable[[CatalogKey, UpstreamTools], ToolCatalog | UpstreamError]
"""What somebody sees of a list through a filter, or why it may not be shown."""


class View(Protocol):
    """Somebody who keeps what was seen of the lists."""

    def replace(self, key: CatalogKey, tools: UpstreamTools) -> None:
        """The list is another one now."""

    def forget(self, key: CatalogKey) -> None:
        """The list is gone."""


class KeptLists:
    """What is known, who waits for what is not, and how it is learned."""

    def __init__(self, learn: Learn, is_by_principal: bool = False) -> None:
        """`learn` asks in our own name; with `is_by_principal` only a client's own credentials will do."""
        self._learn = learn
        self.is_by_principal = is_by_principal
        self.is_refreshed = False  # the lists follow the upstream's
        self.views: WeakSet[View] = WeakSet()
        self._kept: OrderedDict[CatalogKey, UpstreamTools] = OrderedDict()
        self._waiting: dict[CatalogKey, list[tuple[Look, Waiter]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def maybe_kept(self, key: CatalogKey) -> UpstreamTools | None:
        """The list, if it is already there."""
        return self._kept.get(key)

    def put(self, key: CatalogKey, tools: UpstreamTools) -> UpstreamTools:
        """Keeps a list and shows it to all who wait for it; of a second era, what was there in the first."""
        other = CatalogKey(Era.LEGACY if key.era is Era.MODERN else Era.MODERN, key.principal)
        first = self._kept.get(other)
        if first is not None and not self.is_refreshed:
            tools = frozen_to(tools, first)
        self._kept[key] = tools
        for view in self.views:
            view.replace(key, tools)
        while len(self._kept) > limits.CATALOGS:
            self.drop(next(iter(self._kept)))
        for look, waiter in self._waiting.pop(key, []):
            outcome = look(key, tools)
            if isinstance(outcome, UpstreamError):
                log.warning("%s. %s.", outcome.headline, outcome.detail, extra=outcome.for_log)
            waiter(outcome)
        return tools

    def drop(self, key: CatalogKey) -> None:
        """Forgets a list, and what was seen of it."""
        self._kept.pop(key, None)
        for view in self.views:
            view.forget(key)

    def wait(self, key: CatalogKey, waiter: tuple[Look, Waiter], fetch: Callable[[], None] | None) -> None:
        """Shows the next list to `waiter` when it is there; the first who waits has it fetched."""
        first = key not in self._waiting
        self._waiting.setdefault(key, []).append(waiter)
        if not first:
            return
        if fetch is not None:
            fetch()
        else:
            task = asyncio.get_running_loop().create_task(self._learn_now(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def withdraw(self, key: CatalogKey, waiter: tuple[Look, Waiter]) -> None:
        """Nobody waits there any more."""
        waiting = self._waiting.get(key, [])
        if waiter in waiting:
            waiting.remove(waiter)

    def fail(self, key: CatalogKey, error: UpstreamError) -> None:
        """The list cannot be had this time."""
        for _, waiter in self._waiting.pop(key, []):
            waiter(error)

    async def _learn_now(self, key: CatalogKey) -> None:
        try:
            self.put(key, await self._learn(key.era))
        except UpstreamError as error:
            log.warning("%s. %s.", error.headline, error.detail, extra=error.for_log)
            self.fail(key, error)
