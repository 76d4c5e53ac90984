"""Sessions with a legacy upstream, for modern clients: one for each set of rights and capabilities.

Nobody is asked what he cannot answer, and no client speaks in a session that another's rights have opened.
Clients with equal ones share a session, as they would share a connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from weakref import WeakSet

from msgspec import structs

from penstock import limits
from penstock.bridge.modern_face import ModernFace
from penstock.bridge.modern_results import result_for_modern
from penstock.bridge.parked import PARKED_IN_ALL
from penstock.errors import UpstreamError
from penstock.gate.gate import Gate
from penstock.policy.tools.catalog import ToolCatalog
from penstock.relay.adapters.bridged_link import BridgedLink
from penstock.relay.adapters.bridged_multiplexer import BridgedMultiplexer
from penstock.relay.adapters.modern_client_link import OWN_INFO
from penstock.relay.catalogs import Catalogs
from penstock.relay.contracts import UpstreamLink
from penstock.relay.kept_lists import CatalogKey
from penstock.relay.multiplexer import Multiplexer
from penstock.relay.tool_list_pages import own_id
from penstock.relay.upstream_probe import UpstreamProbe
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.carried import Denied
from penstock.wire.mcp.eras import Era

log = logging.getLogger("penstock")

Outcome = tuple[Multiplexer, ToolCatalog] | UpstreamError


class SpareLink:
    """A link that is open and not greeted yet: a command takes a while to start."""

    def __init__(self, link: UpstreamLink) -> None:
        self.link = link
        self.is_lost = False
        link.receiver = self

    def from_upstream(self, raw: bytes) -> None:
        """Nobody has asked it anything."""

    def upstream_noise(self, raw: bytes) -> None:
        """A line that is no message was skipped, and told."""

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None:
        """Nobody waits for anything."""

    def upstream_lost(self, error: UpstreamError) -> None:
        """It has ended before anybody needed it."""
        self.is_lost = True


class BridgedLinks:
    """Opens a link for each key, and learns the tools once, as modern clients shall see them."""

    def __init__(
        self,
        open_link: Callable[[], UpstreamLink],
        gate: Gate,
        catalogs: Catalogs,
        tools_seconds: float,
        input_seconds: float,
        carry: Callable[[Headers], Headers] | None,
        spare: UpstreamLink | None,
        new_state: Callable[[], bytes] | None,
    ) -> None:
        """`carry` picks what of a request's headers goes up, where anything does. `spare` is a link that is
        open already, and not greeted. `new_state` makes what clients show to go on, where it says more than
        that."""
        self._new_state = new_state
        self._open_link = open_link
        self._gate = gate
        self._catalogs = catalogs
        self._tools_seconds = tools_seconds
        self._input_seconds = input_seconds
        self._carry = carry
        self._open: dict[bytes, Multiplexer] = {}  # used longest ago first
        self._spare: SpareLink | None = None if spare is None else SpareLink(spare)
        self._faces: WeakSet[ModernFace] = WeakSet()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[CatalogKey, list[Callable[[ToolCatalog | UpstreamError], None]]] = {}

    def serve(self, key: bytes, headers: Headers, then: Callable[[Outcome], None]) -> None:
        """Calls `then` with the link for `key` and the catalog, now or when they are there. `headers` are
        those of the request that wants it."""
        own = self._carry(headers) if self._carry is not None else []
        whose = self._catalogs.key(Era.MODERN, own)

        def ready(catalog: ToolCatalog | UpstreamError) -> None:
            then(catalog if isinstance(catalog, UpstreamError) else (self._link_for(key), catalog))

        known = self._catalogs.maybe_known(whose) or self._maybe_translated(whose)
        if known is not None:
            ready(known)
            return
        self._waiting.setdefault(whose, []).append(ready)
        if len(self._waiting[whose]) == 1:
            self._start(self._learn(whose, own))

    def _maybe_translated(self, whose: CatalogKey) -> ToolCatalog | None:
        """The tools as modern clients shall see them, out of the list that is known of the same upstream;
        None where it has to be asked."""
        lists = self._catalogs.lists
        kept = None if lists.is_refreshed else lists.maybe_kept(CatalogKey(Era.LEGACY, whose.principal))
        if kept is None or kept.refusal is not None:
            return None
        page = result_for_modern(kept.first_page, "tools/list")
        return self._catalogs.put(whose, structs.replace(kept, first_page=page))

    def lose(self, error: UpstreamError) -> None:
        """The upstream is gone, as another link has found out."""
        for shared in list(self._open.values()):
            if not shared.is_lost:
                shared.upstream_lost(error)

    def end_listeners(self) -> None:
        """Ends the requests that only listen."""
        for shared in self._open.values():
            shared.end_listeners()

    async def close(self) -> None:
        """Closes every link."""
        links = [shared.link for shared in self._open.values()]
        if self._spare is not None:
            links.append(self._spare.link)
        self._open.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(link.close() for link in links), *self._tasks, return_exceptions=True)

    def _link_for(self, key: bytes) -> Multiplexer:
        shared = self._open.pop(key, None)
        if shared is None or shared.is_lost:
            self._make_room()
            link = self._spare.link if self._spare is not None and not self._spare.is_lost else None
            self._spare = None
            bridged = self._bridged(link or self._open_link())
            shared = BridgedMultiplexer(bridged, self._gate, lambda error: self._forget(key), self._carry)
            if bridged.facts.transport == "stdio":
                self._spare = SpareLink(self._open_link())
        self._open[key] = shared
        return shared

    def _make_room(self) -> None:
        idle = [key for key, shared in self._open.items() if not shared.is_busy]
        if len(self._open) >= limits.SESSIONS and idle:
            self._start(self._open.pop(idle[0]).close())

    def _forget(self, key: bytes) -> None:
        self._open.pop(key, None)

    def _bridged(self, link: UpstreamLink) -> BridgedLink:
        face = ModernFace(own_id, OWN_INFO, self._input_seconds, self._is_full, self._new_state)
        self._faces.add(face)
        return BridgedLink(link, face)

    def _is_full(self) -> bool:
        return sum(face.parked for face in self._faces) >= PARKED_IN_ALL

    async def _learn(self, whose: CatalogKey, headers: Headers) -> None:
        link = self._bridged(self._open_link())
        link.credentials = headers
        outcome: ToolCatalog | UpstreamError
        try:
            probe = UpstreamProbe(link, self._tools_seconds, self._gate)
            _, tools = await probe.learn(Era.MODERN)
            outcome = self._catalogs.put(whose, tools)
        except UpstreamError as error:
            outcome = Denied(error.detail, link.refusal) if link.refusal is not None else error
        finally:
            await link.close()
        for ready in self._waiting.pop(whose):
            ready(outcome)

    def _start(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
