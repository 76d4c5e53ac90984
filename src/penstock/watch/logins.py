"""Who may look: one-time codes, bearer tokens and roles. Nothing of it is ever written to a disk.

No cookies: pages on other ports of the same host would share them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import deque

from msgspec import Struct

from penstock.errors import ConfigError
from penstock.watch import bounds

ROLES = ("view", "approve", "control")
_USER = re.compile(r"([A-Za-z0-9_.@-]{1,64})[\s:]+(view|approve|control)[\s:]+([0-9a-fA-F]{64})")
_MOST_LOGINS = 200


class Login(Struct):
    """One login."""

    who: str
    role: str
    until: float
    streams: int = 0
    revealed: dict[int, float] = {}  # messages that are shown unmasked, and until when

    def may(self, role: str) -> bool:
        """Whether this one may do what needs `role`."""
        return ROLES.index(self.role) >= ROLES.index(role)


class User(Struct, frozen=True):
    """A row of the file of users."""

    name: str
    role: str
    digest: str  # SHA-256 of a random token, hexadecimal


class TooMany(Exception):
    """Too many wrong tries: nobody is heard for a while."""


class Logins:
    """Codes that are good once, and tokens. `clock` is monotonic."""

    def __init__(self, users: tuple[User, ...] = ()) -> None:
        self._users = users
        self._codes: dict[str, tuple[float, str, str]] = {}  # digest: until, who, role
        self._logins: dict[str, Login] = {}  # by digest of the token
        self._wrong: deque[float] = deque()

    def new_code(self, seconds: float, who: str = "", role: str = "control") -> str:
        """A code that is good once, for so long."""
        code = secrets.token_urlsafe(24)
        now = time.monotonic()
        self._codes = {key: found for key, found in self._codes.items() if found[0] > now}
        self._codes[_digest(code)] = (now + seconds, who or "you", role)
        return code

    def log_in(self, code: str | None, token: str | None) -> tuple[str, Login] | None:
        """A bearer token for a code, or for a user's own token; None where that is wrong. Raises TooMany."""
        self._refuse_guessing()
        now = time.monotonic()
        found = None
        if code is not None:
            until, who, role = self._codes.pop(_digest(code), (0.0, "", ""))
            found = Login(who, role, now + bounds.LOGIN_SECONDS) if until > now else None
        elif token is not None:
            digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
            for user in self._users:
                if hmac.compare_digest(digest, user.digest.lower()):
                    found = Login(user.name, user.role, now + bounds.LOGIN_SECONDS)
        if found is None:
            self._wrong.append(now)
            return None
        bearer = secrets.token_urlsafe(24)
        if len(self._logins) >= _MOST_LOGINS:
            self._logins.pop(next(iter(self._logins)))
        self._logins[_digest(bearer)] = found
        return bearer, found

    def _refuse_guessing(self) -> None:
        now = time.monotonic()
        while self._wrong and self._wrong[0] < now - 60.0:
            self._wrong.popleft()
        if len(self._wrong) >= bounds.WRONG_TRIES:
            raise TooMany

    def maybe_login(self, header: bytes | None) -> Login | None:
        """Who an Authorization header is of. The lookup is by digest, so its time tells nothing."""
        scheme, _, bearer = (header or b"").decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not bearer:
            return None
        key = _digest(bearer.strip())
        login = self._logins.get(key)
        if login is not None and login.until < time.monotonic():
            del self._logins[key]
            return None
        return login

    def log_out(self, login: Login) -> None:
        """Its token is good no more."""
        self._logins = {key: found for key, found in self._logins.items() if found is not login}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def read_users(path: str) -> tuple[User, ...]:
    """The users in a file: a line each, with name, role and the SHA-256 of a random token. ConfigError."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as why:
        raise ConfigError(f"Cannot read the users: {path}", str(why)) from None
    users = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        found = _USER.fullmatch(line)
        if found is None:
            raise ConfigError(
                f"{path}, line {number}: no user",
                "A line is NAME ROLE SHA256; ROLE is view, approve or control",
            )
        users.append(User(found[1], found[2], found[3].lower()))
    if not users:
        raise ConfigError(f"{path} names no user", "A line is NAME ROLE SHA256")
    return tuple(users)
