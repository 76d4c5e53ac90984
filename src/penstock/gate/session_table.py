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
from penstock.digests import sha256
from penstock.gate.pending import ByteShare, PendingTable
from penstock.policy.exchange import Session
from penstock.wire.mcp.eras import Era


class TrackedSession(Session):
    """A session with its requests, whose answers may come by another way than they went."""

    requests: PendingTable = msgspec.field(default_factory=PendingTable)
    upstream_requests: PendingTable = msgspec.field(default_factory=PendingTable)
    is_proven: bool = False  # the upstream has taken something in it
    is_everywhere: bool = False  # other instances find it by the same key

    @property
    def is_in_use(self) -> bool:
        """Whether somebody waits in it, or rules have set something that must not be lost."""
        return bool(self.waiting or self.values or self.tasks)


class Table(Protocol):
    """Where sessions are remembered, for a while and not too many; whoever makes it ends what it forgets."""

    def get(self, key: bytes) -> TrackedSession | None: ...

    def put(self, key: bytes, value: TrackedSession) -> None: ...

    def offer(self, key: bytes, value: TrackedSession) -> bool:
        """Whether there was room for one more without taking it from who is in use."""

    def pop(self, key: bytes) -> TrackedSession | None: ...

    def values(self) -> list[TrackedSession]: ...


class SessionTable:
    """Makes sessions, and finds them again by what their clients show."""

    def __init__(self, upstream: str, known: Table, profile: str = "") -> None:
        """`upstream` stands for it in the keys of what rules remember; `profile` is what all of them see."""
        self._profile = profile
        self._upstream = upstream
        self._known = known
        self.maybe_known = known.get  # by its key, as `whose` gives it
        self._share = ByteShare(limits.REVIEWED_BYTES)
        self._rest: dict[Era, TrackedSession] = {}

    def new(
        self,
        session_id: bytes | None = None,
        principal: bytes = b"",
        era: Era | None = None,
        key: bytes | None = None,
    ) -> TrackedSession:
        """A new session; `session_id` is the one that its client knows, if there is one. One that is known
        under `key` has the same id whenever it is made: what is counted under it goes on."""
        return TrackedSession(
            id=os.urandom(8).hex() if key is None else _id_of(key),
            started=time.monotonic(),
            mcp_session_id=session_id.decode("ascii", "replace") if session_id is not None else None,
            principal=principal.hex(),
            upstream=self._upstream,
            era=era,
            is_shared=era is Era.MODERN,
            is_everywhere=key is not None,
            requests=self._table(),
            upstream_requests=self._table(),
            profile=self._profile,
        )

    def _table(self) -> PendingTable:
        return PendingTable(limits.REVIEWED_REQUESTS, limits.REVIEWED_SESSION_BYTES, self._share)

    def find(self, key: bytes, session_id: bytes | None, principal: bytes, era: Era) -> TrackedSession:
        """The session known under `key`, made when it is asked for first. When all that are known are in use,
        newcomers share one: nobody's state falls to them, and limits hold for them all together."""
        session = self._known.get(key)
        if session is None:
            session = self.new(session_id, principal, era, key)
            if not self._known.offer(key, session):
                session = self._rest.setdefault(era, session)
                session.is_shared = True
        elif session.principal != principal.hex():
            # The session is the same, and so is what it remembers; the rights are not, so that nothing that
            # was kept for one caller is given to another that knows the session id.
            session = structs.replace(session, principal=principal.hex())
            self.keep(key, session)
        return session

    def whose(self, session_id: bytes, rights: bytes) -> tuple[bytes, str]:
        """Under which key `find_http` knows a legacy client with a session id that its upstream checks, and
        the principal that the session must be of."""
        return _key(session_id), rights.hex()

    def find_http(
        self,
        era: Era,
        session_id: bytes | None,
        principal: bytes,
        rights: bytes,
        peer: bytes,
        is_hello: bool,
    ) -> TrackedSession:
        """The session of a request over HTTP, by what the upstream really checks: its session id, or else the
        `principal`, or else, where both are whatever the client likes, the address that it comes from. A new
        one each time would be a way out of every limit.

        `rights` stands for all that tells the upstream who asks; `is_hello`: a session begins here."""
        if era is Era.LEGACY and session_id is not None:
            return self.find(_key(session_id), session_id, rights, era)
        if era is Era.LEGACY and is_hello:
            return self.new(None, rights, era)
        whose = b"principal " + principal if principal else b"peer " + peer
        session = self.find(era.value.encode() + b" " + whose, None, rights, era)
        session.is_shared = True
        return session

    def begin(self, session_id: bytes, session: TrackedSession) -> None:
        """The upstream has answered a handshake with this id. One that is known already stays as it is."""
        key = _key(session_id)
        session.mcp_session_id = session_id.decode("ascii", "replace")
        if self._known.get(key) is None:
            session.id, session.is_everywhere = _id_of(key), True
            self._known.offer(key, session)

    def refused(self, session_id: bytes) -> None:
        """The upstream takes nothing in a session of this id: if it never did, somebody has made it up."""
        session = self._known.get(_key(session_id))
        if session is not None and not session.is_proven and not session.waiting:
            self._known.pop(_key(session_id))

    def keep(self, key: bytes, session: TrackedSession) -> None:
        """Knows `session` under `key` from now on."""
        self._known.put(key, session)

    def forget(self, session_id: bytes) -> None:
        """The session is over."""
        session = self._known.pop(_key(session_id))
        if session is not None:
            session.end()

    def end_all(self, why: str) -> None:
        """The upstream is gone, and with it everything that waits."""
        for session in self._known.values():
            session.end(why)


def _key(session_id: bytes) -> bytes:
    return b"session " + session_id


def _id_of(key: bytes) -> str:
    """What a session is called where others see it: its own id is a secret of its client's."""
    return sha256(key).hex()[:16]
