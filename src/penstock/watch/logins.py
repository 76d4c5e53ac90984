"""Who may look: one-time codes, bearer tokens and roles. None of them is ever written to a disk; of tokens
their digests are (`kept_logins`).

No cookies: pages on other ports of the same host would share them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from collections import deque

from msgspec import Struct

from penstock.errors import ConfigError
from penstock.watch import bounds
from penstock.watch.kept_logins import KeptLogin, keep_logins, read_logins

ROLES = ("view", "approve", "control")
_NAME = r"[A-Za-z0-9_.@-]{1,64}"
_USER = re.compile(rf"({_NAME})[\s:]+(view|approve|control)[\s:]+([0-9a-fA-F]{{64}})")
_MOST_LOGINS = 200


class Login(Struct):
    """One login."""

    who: str
    role: str
    until: float
    streams: int = 0
    revealed: dict[int, float] = {}  # messages that are shown unmasked, and until when
    digest: str = ""  # of the user's own token, where it was by one

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
        self._codes: dict[str, float] = {}  # digest: until
        self._logins: dict[str, Login] = {}  # by digest of the token
        self._wrong: deque[tuple[float, str]] = deque()  # when, and from where
        self._path = ""

    def keep_at(self, path: str) -> None:
        """Takes up the logins of the hub that was here before, and keeps ours for the next one."""
        self._path = path
        now, wall = time.monotonic(), time.time()
        known = {(user.name, user.role, user.digest) for user in self._users}
        for one in read_logins(path):
            is_known = not one.digest or (one.who, one.role, one.digest) in known
            left = min(one.until - wall, bounds.LOGIN_SECONDS)
            if is_known and one.role in ROLES and left > 0:
                self._logins[one.key] = Login(one.who, one.role, now + left, digest=one.digest)

    def _keep(self) -> None:
        if self._path:
            ahead = time.time() - time.monotonic()
            keep_logins(
                self._path,
                [
                    KeptLogin(key, login.who, login.role, login.until + ahead, login.digest)
                    for key, login in self._logins.items()
                ],
            )

    def new_code(self, seconds: float) -> str:
        """A code that is good once, for so long. Who has it began the live view: that may do all."""
        code = secrets.token_urlsafe(24)
        now = time.monotonic()
        self._codes = {key: found for key, found in self._codes.items() if found > now}
        self._codes[_digest(code)] = now + seconds
        return code

    def log_in(self, code: str | None, token: str | None, peer: str = "") -> tuple[str, Login] | None:
        """A bearer token for a code, or for a user's own token; None where that is wrong. Raises TooMany,
        for the address `peer`, so that nobody keeps others out."""
        self._refuse_guessing(peer)
        now = time.monotonic()
        found = None
        if code is not None:
            until = self._codes.pop(_digest(code), 0.0)
            found = Login("you", "control", now + bounds.LOGIN_SECONDS) if until > now else None
        elif token is not None:
            digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
            for user in self._users:
                if hmac.compare_digest(digest, user.digest.lower()):
                    found = Login(user.name, user.role, now + bounds.LOGIN_SECONDS, digest=user.digest)
        if found is None:
            self._wrong.append((now, peer))
            return None
        bearer = secrets.token_urlsafe(24)
        if len(self._logins) >= _MOST_LOGINS:
            self._logins.pop(next(iter(self._logins)))
        self._logins[_digest(bearer)] = found
        self._keep()
        return bearer, found

    def _refuse_guessing(self, peer: str) -> None:
        now = time.monotonic()
        while self._wrong and self._wrong[0][0] < now - 60.0:
            self._wrong.popleft()
        of_peer = sum(1 for _, one in self._wrong if one == peer)
        if of_peer >= bounds.WRONG_TRIES or len(self._wrong) >= bounds.WRONG_TRIES_OF_ALL:
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
        self._keep()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def is_user_name(name: str) -> bool:
    """Whether a user can be called so."""
    return re.fullmatch(_NAME, name) is not None


def read_users(path: str) -> tuple[User, ...]:
    """The users in a file: a line each, with name, role and the SHA-256 of a random token. ConfigError."""
    try:
        with open(path, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o022:
                raise ConfigError(f"Others may write to {path}", "chmod go-w it: who is in it may look")
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
