"""Somebody whom we know by a credential, and what belongs to nobody else."""

from __future__ import annotations

from penstock import limits
from penstock.digests import sha256

NEVER = float("inf")
"""When a credential lapses that has no end."""
JWT = b"jwt "
"""What the keys of callers begin with whom an authorization server knows."""


class Caller:
    """One identity: a token's, a certificate's, a subject's. Its sessions are its own."""

    __slots__ = ("id", "key", "pin", "sessions")

    def __init__(self, caller_id: str, key: bytes, pin: str | None = None) -> None:
        """`key` stands for it wherever something is kept apart; `pin` is the one profile that it opens."""
        self.id = caller_id
        self.key = key
        self.pin = pin
        self.sessions: dict[bytes, str] = {}  # ids that were given to it, and in which profile

    def own(self, session: bytes, profile: str) -> None:
        """A session has begun; the longest unused one is forgotten when there are too many."""
        session = kept_id(session)
        self.sessions.pop(session, None)
        self.sessions[session] = profile
        if len(self.sessions) > limits.CALLER_SESSIONS:
            del self.sessions[next(iter(self.sessions))]

    def profile_of(self, session: bytes) -> str | None:
        """In which profile this session lives; None when it is not this caller's."""
        session = kept_id(session)
        profile = self.sessions.pop(session, None)
        if profile is not None:
            self.sessions[session] = profile
        return profile


def kept_id(session: bytes) -> bytes:
    """What is kept of an id: upstreams may choose long ones."""
    return session if len(session) <= limits.KNOWN_SESSION_ID_BYTES else sha256(session)


class Admission:
    """That somebody was let in, and for how long."""

    __slots__ = ("caller", "expires", "until")

    def __init__(self, caller: Caller, until: float = NEVER, expires: float = NEVER) -> None:
        """`until`: when the credential is looked at again; `expires`: when it is worth nothing any more."""
        self.caller = caller
        self.until = until
        self.expires = expires


class Subject:
    """Whose token is exchanged: what the caller showed last."""

    __slots__ = ("expires", "token", "who")

    def __init__(self, who: str) -> None:
        self.who = who
        self.token = b""
        self.expires = 0.0

    def show(self, token: bytes, expires: float) -> None:
        """The caller has come again, maybe with another token."""
        self.token, self.expires = token, expires


class Challenge:
    """That somebody was not let in, and why, in the words of RFC 6750."""

    __slots__ = ("description", "error", "status")

    def __init__(self, status: int = 401, error: str | None = None, description: str = "") -> None:
        self.status = status
        self.error = error
        self.description = description


NO_CREDENTIALS = Challenge()
BAD_TOKEN = Challenge(401, "invalid_token", "The access token is not valid")
