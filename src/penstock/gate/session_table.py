"""The sessions of clients that no relay keeps: those of pass-through, and modern clients, which have none.

Loaded only where rules or observers want to know whose a message is.
"""

from __future__ import annotations

import os
import time
from typing import Protocol

import msgspec
from msgspec import structs

from penstock import limits
from penstock.gate.pending import PendingTable
from penstock.policy.exchange import Session
from penstock.wire.mcp.eras import Era


class TrackedSession(Session):
    """A session with its requests, whose answers may come by another way than they went."""

    requests: PendingTable = msgspec.field(default_factory=lambda: PendingTable(limits.REVIEWED_REQUESTS))
    upstream_requests: PendingTable = msgspec.field(
        default_factory=lambda: PendingTable(limits.REVIEWED_REQUESTS)
    )


class Table(Protocol):
    """Where sessions are remembered, for a while and not too many; whoever makes it ends what it forgets."""

    def get(self, key: bytes) -> TrackedSession | None: ...

    def put(self, key: bytes, value: TrackedSession) -> None: ...

    def pop(self, key: bytes) -> TrackedSession | None: ...

    def values(self) -> list[TrackedSession]: ...


class SessionTable:
    """Makes sessions, and finds them again by what their clients show."""

    def __init__(self, upstream: str, known: Table) -> None:
        """`upstream` stands for it in the keys of what rules remember."""
        self._upstream = upstream
        self._known = known

    def new(
        self, session_id: bytes | None = None, principal: bytes = b"", era: Era | None = None
    ) -> TrackedSession:
        """A new session; `session_id` is the one that its client knows, if there is one."""
        return TrackedSession(
            id=os.urandom(8).hex(),
            started=time.monotonic(),
            mcp_session_id=session_id.decode("ascii", "replace") if session_id is not None else None,
            principal=principal.hex(),
            upstream=self._upstream,
            era=era,
            is_shared=era is Era.MODERN,
        )

    def find(self, key: bytes, session_id: bytes | None, principal: bytes, era: Era) -> TrackedSession:
        """The session known under `key`, made when it is asked for first."""
        session = self._known.get(key)
        if session is None:
            session = self.new(session_id, principal, era)
            self.keep(key, session)
        elif session.principal != principal.hex():
            # The session is the same, and so is what it remembers; the rights are not, so that nothing that
            # was kept for one caller is given to another that knows the session id.
            session = structs.replace(session, principal=principal.hex())
            self.keep(key, session)
        return session

    def find_http(
        self,
        era: Era,
        session_id: bytes | None,
        principal: bytes,
        rights: bytes,
        connection: int,
        is_hello: bool,
    ) -> TrackedSession:
        """The session of a request over HTTP: by session id, or by principal where there are no sessions.

        `rights` stands for all that tells the upstream who asks; `is_hello`: a session begins here."""
        if era is Era.MODERN:
            # There are no sessions in this era: an id is whatever the client likes, and a new one each time
            # would be a way out of every limit.
            return self.find(b"principal " + principal, None, rights, era)
        if session_id is not None:
            return self.find(b"session " + session_id, session_id, rights, era)
        if is_hello:
            return self.new(None, rights, era)
        return self.find(b"connection %d" % connection, None, rights, era)

    def keep(self, key: bytes, session: TrackedSession) -> None:
        """Knows `session` under `key` from now on."""
        self._known.put(key, session)

    def forget(self, key: bytes) -> None:
        """The session is over."""
        session = self._known.pop(key)
        if session is not None:
            session.end()

    def end_all(self, why: str) -> None:
        """The upstream is gone, and with it everything that waits."""
        for session in self._known.values():
            session.end(why)
