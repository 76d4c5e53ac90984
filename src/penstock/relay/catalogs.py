"""The catalogs of one upstream: one an era, and one a principal where the upstream wants to know who asks.

What the upstream listed is kept unfiltered (`kept_lists`); the catalogs here are views of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.digests import sha256
from penstock.errors import ToolListRefused, UpstreamError
from penstock.policy.tools.catalog import ToolCatalog, view
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.upstream_tools import UpstreamTools
from penstock.relay.kept_lists import EVERYBODYS, CatalogKey, KeptLists, Waiter
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.eras import Era, maybe_modern_meta
from penstock.wire.mcp.message import Kind, Message

log = logging.getLogger("penstock")

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


def principal_of(authorization: bytes | None) -> bytes:
    """What stands for the credentials of a request; the credentials themselves are not kept."""
    if not authorization:
        return b""
    return sha256(authorization)


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
    """What clients see of an upstream's lists through one filter. Others may look at the same lists through
    another one (`through`): a list is fetched once for all of them."""

    def __init__(
        self, choice: ToolFilter, lists: KeptLists, on_new: Callable[[ToolCatalog], None] | None = None
    ) -> None:
        """`on_new` hears of every catalog that is made, so that people can be told."""
        self._choice = choice
        self.lists = lists
        self._on_new = on_new
        self._known: dict[CatalogKey, ToolCatalog] = {}
        self.maybe_known = self._known.get  # the catalog, if it is already there; asked for every call
        lists.views.add(self)

    def key(self, era: Era, headers: Headers) -> CatalogKey:
        """Under which key the catalog of a request with these headers is kept."""
        if self.lists.is_by_principal:
            return CatalogKey(era, rights_of(headers))
        return EVERYBODYS[era is Era.MODERN]

    def by_era(self) -> dict[Era, ToolCatalog]:
        """The catalogs that are everybody's."""
        if self.lists.is_by_principal:
            return {}  # also what was learnt for who shows no credentials that we know for such
        seen = {key.era: self._outcome(key) for key in EVERYBODYS}
        return {era: catalog for era, catalog in seen.items() if isinstance(catalog, ToolCatalog)}

    def put(self, key: CatalogKey, tools: UpstreamTools) -> ToolCatalog:
        """Keeps what the upstream listed, and gives back what is seen of it: of a second era, what was there
        in the first. Raises ToolListRefused.

        It does not change any more, but may be forgotten when there are too many.
        """
        outcome = self.seen(key, self.lists.put(key, tools))
        if isinstance(outcome, UpstreamError):
            raise outcome
        return outcome

    def refresh(self, key: CatalogKey, waiter: Waiter, fetch: Callable[[], None] | None = None) -> None:
        """Learns a catalog anew, though it is known; until then the old one counts."""
        self.lists.wait(key, (self.seen, waiter), fetch)

    def wait(self, key: CatalogKey, waiter: Waiter, fetch: Callable[[], None] | None = None) -> None:
        """Calls `waiter` when the catalog is there or cannot be had. `fetch` starts the first attempt when
        it needs the client's own request; it reports to the lists with `put` or `fail`."""
        outcome = self._outcome(key)
        if outcome is not None:
            waiter(outcome)
        else:
            self.refresh(key, waiter, fetch)

    def withdraw(self, key: CatalogKey, waiter: Waiter) -> None:
        """Nobody waits there any more: what is kept for it goes now, and not when the upstream answers."""
        self.lists.withdraw(key, (self.seen, waiter))

    def replace(self, key: CatalogKey, tools: UpstreamTools) -> None:
        """The list is another one now. Where that may not be shown, the old one counts on."""
        known = self._known.pop(key, None)
        if known is None:
            return  # nobody has looked at it so far
        try:
            self._known[key] = self._view(tools)
        except ToolListRefused as refusal:
            log.warning("%s. %s.", refusal.headline, refusal.detail, extra=refusal.for_log)
            self._known[key] = known

    def forget(self, key: CatalogKey) -> None:
        """The list is gone."""
        self._known.pop(key, None)

    def seen(self, key: CatalogKey, tools: UpstreamTools) -> ToolCatalog | UpstreamError:
        """What is seen of a list that is kept, or why nothing may be."""
        known = self._known.get(key)
        if known is not None:
            return known
        try:
            catalog = self._known[key] = self._view(tools)
        except ToolListRefused as refusal:
            self.lists.drop(key)  # whoever comes next looks whether it has changed
            return refusal
        return catalog

    def _view(self, tools: UpstreamTools) -> ToolCatalog:
        catalog = view(tools, self._choice)
        if self._on_new is not None:
            self._on_new(catalog)
        return catalog

    def _outcome(self, key: CatalogKey) -> ToolCatalog | UpstreamError | None:
        tools = self.lists.maybe_kept(key)
        return None if tools is None else self.seen(key, tools)
