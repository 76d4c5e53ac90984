"""One client's session, and one request with its answer, as everybody knows them who decides or carries out.

Pure data. The plain path fills in only what it needs to find its way back; the request itself, the times and
what rules did are there where rules or observers look at messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.verdict import Wait
from penstock.wire.mcp.eras import MODERN_VERSIONS, Era
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import Kind, Message

if TYPE_CHECKING:  # loaded only where there are rules
    from penstock.policy.rules.interceptor import Interceptor

Scalar = str | int | float | bool | None

Headers = Sequence[tuple[bytes, bytes]]
"""Names and values of an HTTP request, as they came. They may be credentials: nothing of them is logged."""

Route = object
"""Where a client's message came from, as its link knows it. Nobody else looks into it."""


class MethodStats(Struct):
    """How often one method came by in one session, where there are rules."""

    requests: int = 0
    notifications: int = 0
    responses: int = 0
    errors: int = 0
    blocked: int = 0


OTHER_METHODS = "(other)"


class Session(Struct):
    """One client's session. It always exists, whether anybody looks at it or not."""

    id: str = ""
    started: float = 0.0  # on the monotonic clock
    mcp_session_id: str | None = None
    client_name: str | None = None
    principal: str = ""  # whose rights the client has: what was made for one is never given to another
    upstream: str = ""  # which upstream the session speaks with
    is_shared: bool = False  # modern clients with the same rights are one session: ids may be anybody's
    era: Era | None = None  # as far as it is known
    version: object = MODERN_VERSIONS[-1]  # of the protocol, until another one is agreed on
    message_count: int = 0  # what rules or observers have seen come by, both ways
    stats: dict[str, MethodStats] = msgspec.field(default_factory=dict)  # by method
    values: dict[str, Scalar] = msgspec.field(default_factory=dict)  # set_state, state_equals ...
    annotations: dict[str, dict[str, bytes] | None] = msgspec.field(default_factory=dict)  # by tool
    variant: str = ""  # which of several rule sets it has
    flow: Any = None  # what rules remember of answers (rules/flow.Flow)
    tasks: dict[str, Message] = msgspec.field(default_factory=dict)  # which request began which task
    waiting: dict[Wait, None] = msgspec.field(default_factory=dict)  # messages not decided about yet
    on_idle: Callable[[], None] | None = None  # called when no message waits any more
    profile: str = ""  # which profile its client sees, where there are some

    def count(self, method: str | None, kind: Kind, is_error: bool = False) -> None:
        """Takes note of one message; `method` of a response is that of its request."""
        self.message_count += 1
        stats = self.stats.get(method or "") or self.stats_of(method)
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
        if name not in self.stats and (
            len(self.stats) >= limits.SESSION_METHODS or len(name) > limits.NAME_LENGTH
        ):
            name = OTHER_METHODS
        return self.stats.setdefault(name, MethodStats())

    def decided(self, wait: Wait) -> None:
        """A message waits no more."""
        if self.waiting.pop(wait, wait) is None and not self.waiting and self.on_idle is not None:
            self.on_idle()

    def cancel(self, id_token: bytes) -> bool:
        """Whether a request of the client's that still waits under this id was cancelled by this."""
        key = id_key(id_token)
        for wait in self.waiting:
            message = wait.message
            if wait.is_from_client and message.kind is Kind.REQUEST:
                assert message.id_token is not None
                if id_key(message.id_token) == key:
                    wait.cancel()
                    return True
        return False

    def fail_requests(self, why: str) -> None:
        """The upstream will hear nothing more: whoever waits to be passed on hears why."""
        for wait in [one for one in self.waiting if one.is_from_client]:
            if wait.message.kind is Kind.RESPONSE:
                wait.cancel()
            else:
                wait.fail(why)

    def client_left(self) -> None:
        """The client will say no more: who waits for a person because of it waits in vain."""
        for wait in tuple(self.waiting):
            wait.client_left()

    def end(self, why: str = "The session has ended") -> None:
        """The session is over: nothing waits for verdicts any more."""
        self.fail_requests(why)
        for wait in list(self.waiting):
            if wait.message.kind is Kind.RESPONSE:
                wait.fail(why)
            else:
                wait.cancel()


class _NoSession(Session, frozen=True):  # type: ignore[misc]  # msgspec can
    """Stands where nobody asks whose message it is."""


class _NoRequest(Message, frozen=True):  # type: ignore[misc]
    """Stands where nobody keeps the request: it may be ten megabytes."""


NO_SESSION = _NoSession()
NO_REQUEST = _NoRequest(b"", Kind.REQUEST, b"", "", {}, None)


class Exchange(Struct):
    """One request and, when it comes, its answer; also one notification, which has none."""

    id_token: bytes = b""
    method: str = ""
    route: Route | None = None
    session: Session = NO_SESSION
    catalog: ToolCatalog | None = None  # the tools that its client may call; None while they are on their way
    headers: Headers = ()  # of the HTTP request that brought it; none over stdio
    meta: bytes | None = None  # what a modern request says of its sender, while the catalog is not there
    version: object = None  # of the protocol, where it is not that of the session
    progress_token: bytes | None = None  # the client's own, where it was renumbered
    weight: int = 0  # bytes that are kept for it; in a table of pending requests, with its id and method
    # What follows is kept where rules or observers look at messages.
    request: Message = NO_REQUEST  # as it was passed on, with all changes
    response: Message | None = None
    started: float = 0.0  # on the monotonic clock
    answered: float | None = None
    rules: Interceptor | None = None  # those in force when it began: a reload does not change them midway
    intercepted: bool = False  # some rule's conditions held
    modified: tuple[str, ...] = ()  # ids of the rules that changed something
    to_store: tuple[tuple[bytes, float], ...] = ()  # cache: key and lifetime
    record: Any = None  # what observers were told of the request (gate/record.Record)
    status: int | None = None  # of HTTP, where the upstream's answer had one

    @staticmethod
    def of(message: Message, started: float = 0.0, session: Session = NO_SESSION) -> Exchange:
        """The exchange that `message` begins, with the message kept."""
        return Exchange(
            message.id_token or b"", message.method or "", session=session, request=message, started=started
        )
