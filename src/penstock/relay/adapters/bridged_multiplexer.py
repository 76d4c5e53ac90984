"""Many modern clients with equal rights, over one translated link to an upstream of the legacy era."""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import UpstreamError
from penstock.gate.gate import Gate
from penstock.policy.exchange import Exchange
from penstock.relay.adapters.bridged_link import BridgedLink
from penstock.relay.multiplexer import Asker, Multiplexer
from penstock.wire.http.http1 import Headers
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.carried import HttpRefusal, carried
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import Kind, Message


class BridgedMultiplexer(Multiplexer):
    """The same as for a link of their own era, with what HTTP says beside messages."""

    def __init__(
        self,
        link: BridgedLink,
        gate: Gate,
        on_lost: Callable[[UpstreamError], None],
        carry: Callable[[Headers], Headers] | None,
    ) -> None:
        """`carry` picks what of a request's headers goes up, where anything does."""
        super().__init__(link, gate, on_lost)
        self._bridged = link
        self._carry = carry

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer, or will come back for one."""
        return super().is_busy or self._bridged.is_waiting

    def _renumbered(self, message: Message, number: bytes, exchange: Exchange) -> Message:
        renumbered = super()._renumbered(message, number, exchange)
        if self._carry is None:
            return renumbered
        return carried(renumbered, self._carry(list(exchange.headers)))

    def _take_response(self, message: Message) -> None:
        refusal = message.raw
        if not isinstance(refusal, HttpRefusal) or message.id_token is None:
            super()._take_response(message)
            return
        asker = self._asked.pop(id_key(message.id_token), None)
        if asker is not None:
            token = asker.exchange.id_token
            raw = with_value(message.raw, message.envelope, "id", token)
            asker.deny(Message(raw, Kind.RESPONSE, token, None), refusal)

    def _route(self, message: Message) -> tuple[Asker | None, bytes]:
        via = self._bridged.via
        return (self._asked.get(id_key(via)), message.raw) if via is not None else super()._route(message)
