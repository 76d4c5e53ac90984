"""Logins that outlast a hub: a page goes on where it was when its hub is killed and started again.

Kept are digests of tokens that have 192 random bits, so nobody can log in with what is read here; the file is
0600 in a folder 0700, and who could write it can get a code from the hub's desk anyway.
"""

from __future__ import annotations

import os
import stat

import msgspec
from msgspec import Struct

_MOST_BYTES = 1 << 20


class KeptLogin(Struct, array_like=True, frozen=True):
    """One of them."""

    key: str  # SHA-256 of its token
    who: str
    role: str
    until: float  # wall clock
    digest: str = ""  # SHA-256 of the user's own token, where it was by one


def read_logins(path: str) -> list[KeptLogin]:
    """What is kept; nothing where the file is not ours alone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            return []
        try:
            return msgspec.json.decode(file.read(_MOST_BYTES), type=list[KeptLogin])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return []


def keep_logins(path: str, logins: list[KeptLogin]) -> None:
    """Writes them, whole or not at all. A disk that does not take them costs a login after a restart."""
    part = f"{path}.{os.getpid()}"
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(msgspec.json.encode(logins))
        os.replace(part, path)
    except OSError:
        return
