"""The catalogs of one upstream: one an era, and one a principal where the upstream wants to know who asks."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct

from penstock import limits
from penstock.errors import UpstreamError
from penstock.policy.tools.catalog import ToolCatalog, frozen_to
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.eras import Era, maybe_modern_meta
from penstock.wire.mcp.message import Kind, Message

log = logging.getLogger("penstock")

Learn = Callable[[Era], Awaitable[ToolCatalog]]
Waiter = Callable[[ToolCatalog | UpstreamError], None]


LIST_CHANGED = "notifications/tools/list_changed"
_FROZEN = (
    "The upstream's tool list has changed. Clients keep the list they had, and new tools stay hidden until a "
    "restart; --refresh-tools (tools.refresh: on-change) follows such changes."
)
_told: set[str] = set()


def say_frozen() -> None:
    """Tells people, once, that new tools stay hidden, and which option shows them."""
    if _FROZEN not in _told:
        _told.add(_FROZEN)
        log.warning("%s", _FROZEN)


class CatalogKey(Struct, frozen=True):
    """Whose catalog: an era's, and where upstreams ask for credentials, a principal's."""

    era: Era
    principal: bytes = b""


_EVERYBODYS = (CatalogKey(Era.LEGACY), CatalogKey(Era.MODERN))


def principal_of(authorization: bytes | None) -> bytes:
    """What stands for the credentials of a request; the credentials themselves are not kept."""
    if not authorization:
        return b""
    import hashlib  # with OpenSSL behind it, which an upstream without credentials does not need

    return hashlib.sha256(authorization).digest()


_NO_RIGHTS = frozenset(
    b"accept accept-encoding baggage b3 cache-control content-encoding content-language content-length "
    b"content-type date dnt expect host last-event-id mcp-method mcp-name mcp-protocol-version "
    b"mcp-session-id origin pragma priority referer te traceparent tracestate upgrade-insecure-requests "
    b"user-agent via x-correlation-id x-request-id".split()
)
_NO_RIGHTS_BEGINNINGS = (b"mcp-param-", b"sec-", b"x-b3-", b"if-")


def rights_of(headers: Headers) -> bytes:
    """What stands for all that a request tells the upstream of its sender.

    Not only Authorization: keys and cookies have headers of many names, so whatever is not known to say
    nothing of the sender counts. At worst something is made twice for one; it is never given to another.
    """
    telling = []
    for name, value in headers:
        name = name.lower()
        if name not in _NO_RIGHTS and not name.startswith(_NO_RIGHTS_BEGINNINGS):
            telling.append((name, value))
    if not telling:
        return b""
    import hashlib

    state = hashlib.sha256()
    for name, value in sorted(telling):
        state.update(b"%d:%b%d:%b" % (len(name), name, len(value), value))
    return state.digest()


def maybe_own(known: dict[Era, ToolCatalog], message: Message, is_begun: bool) -> ToolCatalog | None:
    """Which known catalog is a session's own, by the first message that tells its era. `is_begun`: there was
    a handshake before it."""
    if message.method == "initialize" or is_begun:
        return known.get(Era.LEGACY)
    if maybe_modern_meta(message.params) is not None:
        return known.get(Era.MODERN)
    return known.get(Era.LEGACY) if message.kind is Kind.REQUEST else None


class Catalogs:
    """What is known, who waits for what is not, and how it is learned."""

    def __init__(self, learn: Learn, is_by_principal: bool = False) -> None:
        """`learn` asks in our own name; with `is_by_principal` only a client's own credentials will do."""
        self._learn = learn
        self.is_by_principal = is_by_principal
        self.is_refreshed = False  # the lists follow the upstream's
        self._known: OrderedDict[CatalogKey, ToolCatalog] = OrderedDict()
        self._waiting: dict[CatalogKey, list[Waiter]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def key(self, era: Era, headers: Headers) -> CatalogKey:
        """Under which key the catalog of a request with these headers is kept."""
        if self.is_by_principal:
            return CatalogKey(era, rights_of(headers))
        return _EVERYBODYS[era is Era.MODERN]

    def by_era(self) -> dict[Era, ToolCatalog]:
        """The catalogs that are everybody's."""
        if self.is_by_principal:
            return {}  # also what was learnt for who shows no credentials that we know for such
        return {key.era: catalog for key, catalog in self._known.items() if not key.principal}

    def maybe_known(self, key: CatalogKey) -> ToolCatalog | None:
        """The catalog, if it is already there."""
        return self._known.get(key)

    def put(self, key: CatalogKey, catalog: ToolCatalog) -> ToolCatalog:
        """Keeps a catalog, and gives back what is kept: of a second era, what was there in the first.

        It does not change any more, but may be forgotten when there are too many.
        """
        other = CatalogKey(Era.LEGACY if key.era is Era.MODERN else Era.MODERN, key.principal)
        first = self._known.get(other)
        if first is not None and not self.is_refreshed:
            catalog = frozen_to(catalog, first)
        self._known[key] = catalog
        while len(self._known) > limits.CATALOGS:
            self._known.popitem(last=False)
        self._release(key, catalog)
        return catalog

    def refresh(self, key: CatalogKey, waiter: Waiter, fetch: Callable[[], None] | None = None) -> None:
        """Learns a catalog anew, though it is known; until then the old one counts."""
        self.wait(key, waiter, fetch)

    def wait(self, key: CatalogKey, waiter: Waiter, fetch: Callable[[], None] | None = None) -> None:
        """Calls `waiter` when the catalog is there or cannot be had. `fetch` starts the first attempt when
        it needs the client's own request; it reports with `put` or `fail`."""
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

    def withdraw(self, key: CatalogKey, waiter: Waiter) -> None:
        """Nobody waits there any more: what is kept for it goes now, and not when the upstream answers."""
        waiting = self._waiting.get(key, [])
        if waiter in waiting:
            waiting.remove(waiter)

    def fail(self, key: CatalogKey, error: UpstreamError) -> None:
        """The catalog cannot be had this time."""
        self._release(key, error)

    async def _learn_now(self, key: CatalogKey) -> None:
        try:
            self.put(key, await self._learn(key.era))
        except UpstreamError as error:
            log.warning("%s. %s.", error.headline, error.detail)
            self.fail(key, error)

    def _release(self, key: CatalogKey, outcome: ToolCatalog | UpstreamError) -> None:
        for waiter in self._waiting.pop(key, []):
            waiter(outcome)
