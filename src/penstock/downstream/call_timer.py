"""The time limit of requests that pass through to an HTTP upstream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import ConnectTimeout, Failure, RequestFailed
from penstock.wire.mcp.eras import Era

if TYPE_CHECKING:
    from penstock.downstream.passthrough_response import PassthroughResponse

    Responses = set[PassthroughResponse]
else:
    Responses = set

_LASTING = frozenset(("initialize", "subscriptions/listen"))


class CallTimeout(RequestFailed):
    """A request took longer than --call-timeout."""

    def __init__(self, seconds: float) -> None:
        super().__init__("--call-timeout gives it longer")
        self.safe_message = f"Request timeout after {round(seconds * 1000)}ms"
        self.failure = Failure.TIMEOUT


class HelloTimeout(RequestFailed):
    """A client's handshake was not answered within --connect-timeout. Other sessions may be well."""

    def __init__(self, url: str, seconds: float) -> None:
        said = ConnectTimeout(url, seconds)
        super().__init__(said.detail)
        self.headline, self.cause = said.headline, said.cause
        self.safe_message, self.failure = said.safe_message, said.failure


def limit_hello(response: PassthroughResponse, url: str, seconds: float) -> None:
    """Lets the answer to a handshake take no longer than connecting may; then its connection is closed."""

    def on_late() -> None:
        ticket = response.ticket
        response.on_failure(HelloTimeout(url, seconds))
        if ticket is not None:
            ticket.cancel()  # the protocol has no other way to take a handshake back

    response.hello_timer = asyncio.get_running_loop().call_later(seconds, on_late)


class CallTimer(Responses):
    """A set of responses under way that starts a clock for each, and stops it when the response leaves."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timers: dict[PassthroughResponse, asyncio.TimerHandle] = {}

    def add(self, response: PassthroughResponse) -> None:
        """A request goes out."""
        super().add(response)
        message = response.message
        if message is not None and message.id_token is not None and message.method not in _LASTING:
            self._timers[response] = self._loop.call_later(self._seconds, self._on_late, response)

    def discard(self, response: object) -> None:
        """Its answer is over."""
        super().discard(response)
        timer = self._timers.pop(response, None)  # type: ignore[call-overload]
        if timer is not None:
            timer.cancel()

    def _on_late(self, response: PassthroughResponse) -> None:
        error = CallTimeout(self._seconds)
        ticket, message = response.ticket, response.message
        response.on_failure(error)
        if ticket is not None:
            ticket.cancel()  # in the modern era this is how one cancels
        if response.head.era is Era.LEGACY and message is not None and message.id_token is not None:
            reason = msgspec.json.encode(error.safe_message)
            raw = (
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b,"reason":%b}}'
                % (message.id_token, reason)
            )
            response.passthrough.answer_upstream(raw, response.upstream_headers)
