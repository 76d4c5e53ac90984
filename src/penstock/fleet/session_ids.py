"""Ids of sessions that say whose they are: `p1-TAG-RANDOM-SEAL`.

The tag names an instance and never an address. An id that we did not make is nobody's: the seal is checked
before anybody is asked.
"""

from __future__ import annotations

import os
import re

from penstock.state.seals import Seals

_ID = re.compile(rb"p1-([0-9a-f]{10})-([0-9a-f]{48})-([0-9a-f]{32})").fullmatch


class SessionIds:
    """Makes and reads the ids of one fleet."""

    def __init__(self, seals: Seals, tag: str) -> None:
        self._seals = seals
        self.tag = tag

    def new(self) -> bytes:
        """An id that nobody can guess: 192 random bits."""
        tag, random = self.tag.encode(), os.urandom(24).hex().encode()
        return b"p1-%b-%b-%b" % (tag, random, self._seals.seal("session", tag, random).hex().encode())

    def maybe_owner(self, session_id: bytes | None) -> str | None:
        """The tag of the instance that made the id, if that is one of ours."""
        found = _ID(session_id) if session_id is not None else None
        if found is None:
            return None
        tag, random, seal = found.groups()
        is_sealed = self._seals.is_sealed(bytes.fromhex(seal.decode()), "session", tag, random)
        return tag.decode() if is_sealed else None

    def maybe_other_owner(self, session_id: bytes | None) -> str | None:
        """The tag of the instance that made the id, if that is another one of ours."""
        owner = self.maybe_owner(session_id)
        return None if owner == self.tag else owner
