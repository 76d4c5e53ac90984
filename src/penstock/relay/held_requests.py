"""Where a client's tool requests wait for the catalog, and the fetch that they wait for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from penstock.errors import Failure, ToolListFailed, ToolListTimeout
from penstock.gate.gate import Gate
from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools.catalog import ToolCatalog, view
from penstock.relay.contracts import UpstreamLink
from penstock.relay.tool_list_pages import ToolListPages
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import Message

Held = tuple[Message, Exchange]


class HeldRequests:
    """Holds messages, fetches the tool list over the session's own link, and says how that ended."""

    def __init__(
        self,
        upstream: UpstreamLink,
        gate: Gate,
        session: Session,
        seconds: float,
        first_seconds: float,
        on_ready: Callable[[ToolCatalog], None],
        on_failed: Callable[[ToolListFailed, bytes | None, bool], None],
    ) -> None:
        """The list may take `seconds`, and `first_seconds` more where the upstream has not answered yet.

        `on_failed` gets the failure, the upstream's own error object if there is one, and whether that
        is the end: after a handshake there is no second chance."""
        self.upstream = upstream
        self._gate = gate
        self._session = session
        self._seconds = seconds
        self._first_seconds = first_seconds
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._held: deque[Held] = deque()
        self._fetch: ToolListPages | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_final = False
        self.bytes_held = 0

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits."""
        return not self._held

    @property
    def is_fetching(self) -> bool:
        """Whether the list is on its way."""
        return self._fetch is not None

    def hold(self, message: Message, exchange: Exchange) -> None:
        """Lets a message wait."""
        self._held.append((message, exchange))
        self.bytes_held += len(message.raw)

    def leave(self) -> list[Held]:
        """Everybody who waited, in order; the room is empty then."""
        held = list(self._held)
        self._held.clear()
        self.bytes_held = 0
        return held

    def forget(self, id_token: bytes) -> bool:
        """Whether a request that waits under this id was cancelled by this.

        Where an answer travels by a route of its own, somebody waits there for something to come.
        """
        key = id_key(id_token)
        for entry in self._held:
            held, exchange = entry
            assert held.id_token is not None
            if exchange.route is None and id_key(held.id_token) == key:
                self._held.remove(entry)
                self.bytes_held -= len(held.raw)
                return True
        return False

    def fetch(self, meta: bytes | None, is_final: bool, error_means_none: bool) -> None:
        """Asks for the tool list, unless that was done. `meta` is what a modern request must carry."""
        if self._fetch is not None:
            return
        self._is_final = is_final
        self._fetch = ToolListPages(meta, error_means_none)
        seconds = self._seconds if is_final else self._seconds + self._first_seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._timed_out)
        self._ask(self._fetch.first_request())

    def owns(self, id_token: bytes | None) -> bool:
        """Whether a response belongs to the fetch."""
        return self._fetch is not None and self._fetch.owns(id_token)

    def take_page(self, message: Message) -> None:
        """Takes one page of the list."""
        assert self._fetch is not None
        self._gate.said("upstream", "answer", message.raw, session=self._session)
        try:
            request = self._fetch.take(message)
            if request is not None:
                self._ask(request)
                return
            if self._fetch.refusal is not None and not self._is_final:
                raise ToolListFailed("The upstream has no tools before its handshake")
            catalog = view(self._fetch.tools(self._gate.list_check), self._gate.choice)
        except ToolListFailed as failure:
            self.fail(failure)
            return
        self.stop()
        self._on_ready(catalog)

    def fail(self, failure: ToolListFailed) -> None:
        """The list will not come."""
        refusal = self._fetch.refusal if self._fetch is not None else None
        self.stop()
        self._on_failed(failure, refusal, self._is_final or failure.failure is Failure.TIMEOUT)

    def stop(self) -> None:
        """Waits for no list any more."""
        self._fetch = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self, request: Message) -> None:
        self._gate.said("penstock", "pass", request.raw, session=self._session)
        self.upstream.send(request)

    def _timed_out(self) -> None:
        self.fail(ToolListTimeout(self._seconds))
