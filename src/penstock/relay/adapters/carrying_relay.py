"""A session whose client speaks HTTP or SSE, over a link to an upstream that does so as well.

What the client's requests say of it goes up with its messages, and an upstream that wants other credentials
is heard as if the client had asked it itself. No message goes up with what another request has shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from penstock.errors import ClientProtocolError
from penstock.policy.exchange import Exchange, Headers, Route
from penstock.relay.catalogs import rights_of
from penstock.relay.contracts import UpstreamLink
from penstock.relay.session_relay import SessionRelay
from penstock.wire.http.http1 import Headers as HttpHeaders
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.carried import HttpRefusal, carried
from penstock.wire.mcp.message import INVALID_REQUEST, Batch, Kind, Message


class _Refusable(Protocol):
    def deny(self, refusal: HttpRefusal) -> None: ...


class _OwnRequests:
    """Sends what the relay asks itself: in the name of whoever has to wait for it."""

    def __init__(self, relay: CarryingRelay) -> None:
        self._relay = relay

    def send(self, message: Message) -> None:
        self._relay.ask(message)


class CarryingRelay(SessionRelay):
    """The same conversation, with headers."""

    def __init__(
        self, *args: Any, carry: Callable[[HttpHeaders], HttpHeaders], is_by_principal: bool, **options: Any
    ) -> None:
        """`carry` picks what of a request's headers goes up. With `is_by_principal` the tools are those of
        whoever has shown these credentials, and nobody else's."""
        super().__init__(*args, **options)
        self._carry = carry
        self._is_by_principal = is_by_principal
        self._rights: bytes | None = None
        self._shown: HttpHeaders = []  # what goes up with requests of our own
        self.room.upstream = cast(UpstreamLink, _OwnRequests(self))

    def use(self, link: UpstreamLink) -> None:
        """Speaks with the upstream over `link` from now on."""
        self._upstream = link

    def ask(self, message: Message) -> None:
        """Sends a request of our own."""
        self._upstream.send(carried(message, self._shown))

    def take(self, message: Message | Batch, route: Route | None = None, headers: Headers = ()) -> bool:
        """Passes on, answers or drops what a client said, in the name of whoever sent it."""
        if self._is_by_principal:
            rights = rights_of(self._carry(list(headers)))
            if self._rights is not None and rights != self._rights:
                if self.room.is_fetching:
                    # What comes is for whoever asked for it.
                    reason = "Invalid request: the credentials of this session have just changed"
                    token = message.id_token if isinstance(message, Message) else None
                    refusal = ClientProtocolError(INVALID_REQUEST, reason, token)
                    self.refuse_client(refusal, route, message.raw)
                    return True
                # What this one may see is asked for once more, with what it shows.
                self._catalog = None
                self._was_catalog_seen = False
            self._rights = rights
        if isinstance(message, Message) and message.kind is Kind.RESPONSE:
            message = carried(message, self._carry(list(headers)))
        return super().take(message, route, headers)

    def _pass_on(self, message: Message, exchange: Exchange) -> bool:
        self._shown = self._carry(list(exchange.headers))
        return super()._pass_on(carried(message, self._shown), exchange)

    def _hold(self, message: Message, exchange: Exchange) -> None:
        self._shown = self._carry(list(exchange.headers))
        super()._hold(message, exchange)

    def _is_handshake_taken(self, message: Message, exchange: Exchange) -> bool:
        if isinstance(message.raw, HttpRefusal):
            return True  # which says nothing about eras
        return super()._is_handshake_taken(message, exchange)

    def _take_stray_response(self, message: Message) -> None:
        refusal = message.raw
        if not isinstance(refusal, HttpRefusal) or not self.room.owns(message.id_token):
            super()._take_stray_response(message)
            return
        # No tools for these credentials: whoever waits for them hears that, and may come back with others.
        self.room.stop()
        for _, exchange in self.room.leave():
            raw = with_value(refusal, message.envelope, "id", exchange.id_token)
            self._reply(exchange, refusal.reworded(raw))
        self._go_on()

    def _to_client(self, raw: bytes, route: Route | None, message: Message | None = None) -> None:
        if isinstance(raw, HttpRefusal) and hasattr(route, "deny"):
            cast(_Refusable, route).deny(raw)
        else:
            super()._to_client(raw, route, message)
