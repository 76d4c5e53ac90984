"""The chain of an audit: each entry carries the hash of the one before it and ends with its own.

`hash` is SHA-256 over the line up to, but not including, `,"hash"`; with a key it is HMAC-SHA-256. Alone it
shows edits; a rewrite of everything shows with a key, and a cut tail with a checkpoint kept elsewhere.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat

import msgspec
from msgspec import Struct

from penstock.errors import ConfigError

GENESIS = "0" * 64
_TAIL = b',"hash":"'
_KEY_BYTES = 16

_encode = msgspec.json.Encoder().encode


class Head(Struct, frozen=True):
    """Where a chain stands: the number and the hash of its last entry."""

    seq: int = 0
    hash: str = GENESIS

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


class Chain:
    """Makes lines, each after the one before. `head` is where it stands."""

    def __init__(self, head: Head, key: bytes = b"") -> None:
        self.head = head
        self._key = key

    @property
    def is_keyed(self) -> bool:
        """Whether the hashes need a key."""
        return bool(self._key)

    def line(self, time: str, kind: str, members: dict[str, object]) -> bytes:
        """The next line; `members` are in the order in which they are written."""
        seq = self.head.seq + 1
        entry = {"seq": seq, "time": time, "kind": kind, **members, "prev": self.head.hash}
        body = _encode(entry)[:-1]
        found = digest(body, self._key)
        self.head = Head(seq, found)
        return b'%b%b%b"}\n' % (body, _TAIL, found.encode())


def digest(body: bytes, key: bytes) -> str:
    """The hash of a line's body."""
    if key:
        return hmac.new(key, body, hashlib.sha256).hexdigest()
    return hashlib.sha256(body).hexdigest()


def split_line(line: bytes) -> tuple[bytes, str] | None:
    """The body of a line and the hash that it claims; None when it has none."""
    body, tail, claimed = line.rstrip(b"\n").rpartition(_TAIL)
    if not tail or not claimed.endswith(b'"}'):
        return None
    return body, claimed[:-2].decode("ascii", "replace")


def read_key(path: str) -> bytes:
    """The key in a file, without the line end after it. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(65536).rstrip(b"\r\n")
    except OSError as why:
        raise ConfigError(f"Cannot read the audit's key: {path}", str(why.strerror or why)) from None
    if stat.S_IMODE(mode) & 0o007:
        raise ConfigError(f"Cannot use the audit's key: {path}", "Everybody may read it; chmod 600 it")
    if len(key) < _KEY_BYTES:
        raise ConfigError(f"Cannot use the audit's key: {path}", f"It has fewer than {_KEY_BYTES} bytes")
    return key
