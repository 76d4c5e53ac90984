"""What rules remember: a client's session, a request under way, and what a condition may look at."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.wire.mcp.message import Kind, Message

Direction = Literal["client", "upstream"]
"""Who sent the message."""

Headers = tuple[tuple[bytes, bytes], ...]
"""Names and values of an HTTP request, as they came. They may be credentials: nothing of them is logged."""

Scalar = str | int | float | bool | None


class MethodStats(Struct):
    """How often one method came by in one session."""

    requests: int = 0
    notifications: int = 0
    responses: int = 0
    errors: int = 0
    blocked: int = 0


class SessionState(Struct):
    """One client's session. Whoever serves the session makes it and counts what comes by."""

    id: str
    started: float  # on the monotonic clock
    mcp_session_id: str | None = None
    client_name: str | None = None
    principal: str = ""  # whose rights the client has: what was made for one is never given to another
    upstream: str = ""  # which upstream the session speaks with
    message_count: int = 0
    stats: dict[str, MethodStats] = msgspec.field(default_factory=dict)
    values: dict[str, Scalar] = msgspec.field(default_factory=dict)  # set_state, state_equals ...
    annotations: dict[str, dict[str, bytes] | None] = msgspec.field(default_factory=dict)  # by tool
    tasks: dict[str, Message] = msgspec.field(default_factory=dict)  # which request began which task

    def count(self, method: str | None, kind: Kind, is_error: bool) -> None:
        """Takes note of one message; only so many methods have statistics of their own."""
        self.message_count += 1
        stats = self.stats_of(method)
        if kind is Kind.REQUEST:
            stats.requests += 1
        elif kind is Kind.NOTIFICATION:
            stats.notifications += 1
        elif is_error:
            stats.errors += 1
        else:
            stats.responses += 1

    def stats_of(self, method: str | None) -> MethodStats:
        """The statistics of `method`, or the common ones of all that came too late for their own."""
        name = method or ""
        found = self.stats.get(name)
        if found is None:
            if len(self.stats) >= limits.SESSION_METHODS or len(name) > limits.NAME_LENGTH:
                name = OTHER_METHODS
            found = self.stats.setdefault(name, MethodStats())
        return found


OTHER_METHODS = "(other)"


class ExchangeState(Struct):
    """A request under way. The interceptor keeps `request` as it was passed on, with all changes."""

    request: Message
    started: float  # on the monotonic clock
    answered: float | None = None
    intercepted: bool = False  # some rule's conditions held
    modified: list[str] = msgspec.field(default_factory=list)  # ids of the rules that changed something
    headers: Headers = ()  # of the HTTP request that brought it; none over stdio
    to_store: list[tuple[bytes, float]] = msgspec.field(default_factory=list)  # cache: key and lifetime


class Context(Struct):
    """What a condition sees beside the message."""

    session: SessionState
    direction: Direction
    now: float  # on the monotonic clock
    exchange: ExchangeState | None = None  # of a request: its own; of a response: that of its request
    wall: float = 0.0  # seconds since the epoch
    looks: Any = None  # what the rules have found in the message so far (message_parts.Looks)
