"""One HTTP request whose whole answer is waited for, up to a size and for a time."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from penstock.errors import RequestFailed, UpstreamError
from penstock.net.http_client import HttpClient, Ticket
from penstock.wire.http.http1 import Headers


class Fetched(Struct, frozen=True):
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes


async def fetch(
    client: HttpClient,
    method: bytes,
    target: bytes,
    headers: Headers,
    body: bytes,
    most: int,
    seconds: float,
) -> Fetched:
    """The answer of `client`'s server, of at most so many bytes. Raises UpstreamError."""
    answer = WholeAnswer(most)
    try:
        async with asyncio.timeout(seconds):
            answer.ticket = client.request(method, target, headers, body, answer)
            await answer.done
    except TimeoutError:
        raise RequestFailed(f"No answer within {seconds:g} s") from None
    finally:
        if answer.ticket is not None:
            answer.ticket.cancel()  # does nothing when the response is complete
    return Fetched(answer.status, answer.headers, bytes(answer.body))


class WholeAnswer:
    """Gathers a response up to a size."""

    def __init__(self, most: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status = 0
        self.headers: Headers = []
        self.body = bytearray()
        self.ticket: Ticket | None = None
        self._most = most

    def on_head(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers

    def on_data(self, chunk: bytes) -> None:
        self.body += chunk
        if len(self.body) > self._most:
            self.fail(self.too_long(self._most))
            if self.ticket is not None:
                self.ticket.cancel()

    def too_long(self, most: int) -> Exception:
        """What whoever waits gets when there is more of it."""
        return RequestFailed(f"It answered with more than {most} bytes")

    def on_end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def on_failure(self, error: UpstreamError) -> None:
        self.fail(error)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
