"""Sessions of clients over HTTP that have a relay and an upstream link of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from penstock import limits
from penstock.downstream.replies import send_failure
from penstock.errors import PenstockError, UpstreamError
from penstock.net.http_exchange import Reply
from penstock.policy.exchange import Route
from penstock.relay.contracts import UpstreamLink
from penstock.relay.link_pool import LinkPool
from penstock.relay.sessions import Sessions
from penstock.wire.mcp.message import Message

log = logging.getLogger("penstock")

UNREAD = "client does not read"


class LinkSession:
    """One client: its relay, its upstream link, and how both end."""

    def __init__(self, session_id: bytes, link: UpstreamLink, pool: LinkPool, carries: bool = False) -> None:
        """`carries`: its messages come with headers that matter to the upstream."""
        self.id = session_id
        self.on_over: Callable[[PenstockError | None], None] = lambda error: None
        self._link = link
        self._pool = pool
        self._is_over = False
        self._relay = pool.new_relay(session_id, self, link, self._on_fatal, carries)

    @property
    def is_busy(self) -> bool:
        """Whether something is under way or a stream is open."""
        return True

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the client is not answered yet."""
        return self._relay.pending > 0 or self._relay.is_holding

    @property
    def is_shy(self) -> bool:
        """Whether the client only ever said hello."""
        return False

    @property
    def patience(self) -> float:
        """How long the session may be idle: less for a client that only ever said hello."""
        return limits.SESSION_SHY_SECONDS if self.is_shy else float("inf")

    @property
    def backlog(self) -> int:
        """What waits here or upstream, in bytes, with what is known of what is not answered."""
        beside = limits.BESIDE_BYTES * len(self._relay.requests.exchanges)
        return 0 if self._is_over else self._link.untaken + self._relay.room.bytes_held + beside

    def send(self, raw: bytes, route: Route | None, message: Message | None) -> None:
        """Gives the client a message."""
        raise NotImplementedError

    def refuse(self, raw: bytes, route: Route | None) -> None:
        """Tells the client that what it posted was not passed on."""
        raise NotImplementedError

    def progress(self, raw: bytes, route: Route | None) -> bool:
        """Tells the client progress of what came by `route`; False when nobody is there to hear any."""
        raise NotImplementedError

    def pause(self, reason: str) -> None:
        """Each post is read whole before it is taken, so there is nothing to pause."""

    def resume(self, reason: str) -> None:
        """See pause."""

    cork = uncork = lambda self: None

    def end(self) -> None:
        """The client left, or has to."""
        self._finish(None)

    def lose(self, error: UpstreamError) -> None:
        """The upstream is gone for everybody: who waits hears it, then the session ends."""
        self._relay.upstream_lost(error)

    def _hang_up(self) -> None:
        """Ends everything on which the client still hears."""
        raise NotImplementedError

    def _on_fatal(self, error: Exception) -> None:
        self._finish(error if isinstance(error, PenstockError) else None)

    def _finish(self, error: PenstockError | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._hang_up()
            self._relay.end()
            self._pool.close_link(self._link)
            self.on_over(error)


AnySession = TypeVar("AnySession", bound=LinkSession)


class LinkDoor:
    """A door behind which each client has a session with a link of its own."""

    def __init__(self, pool: LinkPool, sessions: Sessions, on_lost: Callable[[PenstockError], None]) -> None:
        self._pool = pool
        self._sessions = sessions
        self._on_lost = on_lost

    @property
    def _is_full(self) -> bool:
        """Whether there is no room for one more session."""
        return self._pool.is_full or not self._sessions.make_room()

    def _maybe_link(self, reply: Reply, id_token: bytes | None) -> UpstreamLink | None:
        """A new link; None when there is none, and the client has been told."""
        try:
            return self._pool.open_link()
        except UpstreamError as error:
            log.warning("%s. %s.", error.headline, error.detail, extra=error.for_log)
            send_failure(reply, id_token, error)
            self._on_lost(error)
            return None

    def _kept(self, session: AnySession) -> AnySession:
        """The session, known from now on until it is over."""

        def over(error: PenstockError | None) -> None:
            self._sessions.remove(session)
            if error is not None:
                self._on_lost(error)

        session.on_over = over
        self._sessions.add(session)
        return session
