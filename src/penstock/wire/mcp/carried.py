"""What HTTP says beside a message, where the message goes on over a link: credentials up, a refusal back."""

from __future__ import annotations

from penstock.errors import ToolListFailed
from penstock.wire.http.http1 import Headers, find_all
from penstock.wire.mcp.message import Message


class CarriedMessage(Message, gc=False):
    """A message that goes up with headers of the client that sent it."""

    headers: Headers = []  # noqa: RUF012 - msgspec makes a new one each time


def carried(message: Message, headers: Headers) -> CarriedMessage:
    """`message`, with these headers."""
    return CarriedMessage(
        message.raw,
        message.kind,
        message.id_token,
        message.method,
        message.members,
        message.inner,
        message.tool,
        message.result,
        headers,
    )


class HttpRefusal(bytes):
    """An error that stands for an HTTP answer without one: it is an ordinary message to whoever does not know
    it; who answers over HTTP can give the status back, and what the upstream wants."""

    status: int
    headers: Headers

    def __new__(cls, raw: bytes, status: int, headers: Headers) -> HttpRefusal:
        refusal = super().__new__(cls, raw)
        refusal.status = status
        refusal.headers = [(b"WWW-Authenticate", value) for value in find_all(headers, b"www-authenticate")]
        return refusal

    def reworded(self, raw: bytes) -> HttpRefusal:
        """The same refusal of another request."""
        return HttpRefusal(raw, self.status, self.headers)


class Denied(ToolListFailed):
    """The upstream does not give its tools to whoever has shown these credentials."""

    def __init__(self, detail: str, refusal: HttpRefusal) -> None:
        super().__init__(detail)
        self.refusal = refusal


REFUSING = frozenset((401, 403))
"""What an upstream answers that wants other credentials."""
