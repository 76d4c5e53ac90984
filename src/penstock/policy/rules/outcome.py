"""What the interceptor decided about one message."""

from __future__ import annotations

from msgspec import Struct


class Pass(Struct, frozen=True, gc=False):
    """Send `raw` on to the other side. Unless `changed`, it is the very bytes that came in.

    A blocked response passes too, as an error with its id: somebody waits for it.
    """

    raw: bytes
    changed: bool


class Refuse(Struct, frozen=True, gc=False):
    """Do not pass it on. `raw` is the reply to whoever sent it; None (a notification): just drop it."""

    raw: bytes | None
    rule: str
    action: str  # "block", "rate_limit", "cache" (an answer from the cache is no offence), ...


class Outcome(Struct, frozen=True):
    """A verdict, and which rules had a part in it, for those who watch."""

    verdict: Pass | Refuse
    rules: tuple[str, ...] = ()  # ids of the rules whose conditions held, in the order in which they ran
    blocked_by: str | None = None  # rule or interceptor; also set when a response passes as an error
    reason: str | None = None  # why it was blocked, in the words that the sender may read
