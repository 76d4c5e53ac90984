"""The sessions of clients that connect over HTTP: how many there may be, and when one is over."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from typing import Protocol

from penstock import limits
from penstock.errors import UpstreamError

log = logging.getLogger("penstock")


class Session(Protocol):
    """What the register needs of a session."""

    id: bytes

    @property
    def is_busy(self) -> bool:
        """Whether something is under way or a stream is open."""

    @property
    def is_waiting(self) -> bool:
        """Whether a request of its client is not answered yet."""

    @property
    def is_shy(self) -> bool:
        """Whether its client never came back after its first request: nobody may know of it at all."""

    @property
    def patience(self) -> float:
        """How long it may be idle, unless all may only be so for less."""

    def end(self) -> None:
        """Ends it; everybody who waits hears so."""

    def lose(self, error: UpstreamError) -> None:
        """Ends it because the upstream is gone, and everybody who waits hears that."""


def _random_id() -> bytes:
    """An id that nobody can guess: 192 random bits."""
    return os.urandom(24).hex().encode()


class Sessions:
    """A bounded register of sessions that ends the idle ones."""

    def __init__(
        self,
        capacity: int = limits.SESSIONS,
        idle_seconds: float = limits.SESSION_IDLE_SECONDS,
        new_id: Callable[[], bytes] = _random_id,
    ) -> None:
        self.new_id = new_id
        self.takes_none = False  # we are about to end: only those there are go on
        self._capacity = capacity
        self._idle_seconds = idle_seconds
        self._look_seconds = min(_LOOK_SECONDS, idle_seconds / 2)
        self._sessions: dict[bytes, Session] = {}  # least recently used first
        self._used: dict[bytes, float] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._sessions.values()))

    def make_room(self) -> bool:
        """Ends the longest idle session that was never used, if there is no room for one more; False when
        there is none. What somebody uses does not fall to a newcomer, or anybody could end all sessions."""
        if self.takes_none:
            return False
        if len(self._sessions) < self._capacity:
            return True
        for session in self:
            if session.is_shy and not session.is_busy:
                log.info("Ended a session that was never used to make room for a new one.")
                session.end()
                self.remove(session)
                return True
        return False

    def add(self, session: Session) -> None:
        """Keeps a new session."""
        self._sessions[session.id] = session
        self._used[session.id] = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._look_seconds, self._look)

    def remove(self, session: Session) -> None:
        """Forgets a session that is over."""
        self._sessions.pop(session.id, None)
        self._used.pop(session.id, None)

    def find(self, session_id: bytes | None) -> Session | None:
        """The session with this id, which counts as used now."""
        session = self._sessions.get(session_id) if session_id is not None else None
        if session is not None:
            self._sessions[session.id] = self._sessions.pop(session.id)
            self._used[session.id] = self._loop.time()
        return session

    def end_settled(self) -> None:
        """Ends every session whose client waits for nothing."""
        for session in self:
            if not session.is_waiting:
                session.end()
                self.remove(session)

    def lose_all(self, error: UpstreamError) -> None:
        """Ends every session, because the upstream is gone."""
        for session in self:
            session.lose(error)
            self.remove(session)

    def end_all(self) -> None:
        """Ends every session."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session in self:
            session.end()
            self.remove(session)

    def _look(self) -> None:
        now = self._loop.time()
        for session in self:
            if session.is_busy:
                self._used[session.id] = now
                continue
            patience = min(session.patience, self._idle_seconds)
            if now - self._used[session.id] > patience:
                log.info("Ended a session that was idle for %g s (--session-idle).", patience)
                session.end()
                self.remove(session)
        self._timer = self._loop.call_later(self._look_seconds, self._look) if self._sessions else None


_LOOK_SECONDS = 5.0
