"""What stands for a large message, on its way from who judged it while it arrived to who reads it.

Both happen in one turn of the loop, a few calls apart, and what lies between carries bytes. So the last
digest is kept here, for those very bytes and no others that are equal to them, until they are read: once, by
whoever is first. Whoever comes later reads the message itself.
"""

from __future__ import annotations

_latest: list[tuple[bytes, bytes] | None] = [None]


def leave(message: bytes, digest: bytes | None) -> None:
    """Keeps the digest of `message`, if it has one; that of another is forgotten."""
    _latest[0] = None if digest is None else (message, digest)


def has(message: bytes) -> bool:
    """Whether there is one for `message`."""
    found = _latest[0]
    return found is not None and found[0] is message


def maybe_take(message: bytes) -> bytes | None:
    """The digest that was left for `message`; it is given out once."""
    found = _latest[0]
    if found is None or found[0] is not message:
        return None
    _latest[0] = None
    return found[1]
