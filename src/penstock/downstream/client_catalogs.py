"""The catalogs of clients in pass-through: waited for, and fetched again when the upstream's list changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.downstream.catalog_fetch import CatalogFetch
from penstock.downstream.passthrough_head import PassthroughHead
from penstock.downstream.replies import wait_unless_gone
from penstock.errors import UpstreamError
from penstock.gate.gate import Gate
from penstock.net.http_client import HttpClient
from penstock.net.http_exchange import Reply
from penstock.policy.tools.catalog import ToolCatalog
from penstock.relay.catalogs import Catalogs, say_frozen
from penstock.wire.http.http1 import Headers
from penstock.wire.json.ambiguity import Members
from penstock.wire.mcp.eras import Era

if TYPE_CHECKING:
    from penstock.downstream.passthrough_response import PassthroughResponse


class ClientCatalogs:
    """Which tools a client may call, by what its head shows."""

    def __init__(self, client: HttpClient, gate: Gate, catalogs: Catalogs, seconds: float) -> None:
        """A fetch of ours may take `seconds`."""
        self._client = client
        self._gate = gate
        self._catalogs = catalogs
        self._seconds = seconds
        self.maybe_known = catalogs.maybe_known

    def wait(
        self,
        reply: Reply,
        head: PassthroughHead,
        params: Members | None,
        then: Callable[[ToolCatalog | UpstreamError], None],
    ) -> None:
        """Calls `then` when the catalog is there or cannot be had, unless the client has gone by then."""
        key = head.key
        known = self.maybe_known(key)
        if known is not None:
            then(known)
            return
        is_own = self._catalogs.lists.is_by_principal
        start = self._fetch(head, head.headers, params) if is_own else None
        wait_unless_gone(
            reply,
            lambda waiter: self._catalogs.wait(key, waiter, start),
            lambda waiter: self._catalogs.withdraw(key, waiter),
            then,
        )

    def is_change_told(self, response: PassthroughResponse, event: bytes) -> bool:
        """Whether a client hears at once that the tool list has changed; else it does when its own has."""
        head, lists = response.head, self._catalogs.lists
        old = self.maybe_known(head.key)
        if not self._gate.is_filtering or old is None:
            return True
        if not lists.is_refreshed:
            say_frozen()
            return True

        def compare(found: ToolCatalog | UpstreamError) -> None:
            is_changed = isinstance(found, ToolCatalog) and found.result != old.result
            response.emit_late(event if is_changed else None)

        is_own = lists.is_by_principal or head.era is Era.LEGACY  # in the session that heard of it
        start = self._fetch(head, response.upstream_headers, None) if is_own else None
        response.hold_back()
        self._catalogs.refresh(head.key, compare, start)
        return False

    def _fetch(self, head: PassthroughHead, headers: Headers, params: Members | None) -> Callable[[], None]:
        """Fetches the list with the client's own headers, when it is called."""
        fetch = CatalogFetch(self._client, self._gate, head.key, self._catalogs.lists, self._seconds)
        return partial(fetch.start, headers, params, head.era)
