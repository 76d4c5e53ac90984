"""Several rule sets at once: each session has one of them, for as long as it lasts and everywhere."""

from __future__ import annotations

import hashlib

from penstock.gate.ruled import Rules
from penstock.policy.exchange import Session
from penstock.policy.rules.interceptor import Interceptor

PARTS = 10_000


def part_of(key: str, salt: str) -> int:
    """Where a key falls, from 0 to 9,999: the same on every instance that has the salt."""
    found = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, key=salt.encode()[:64])
    return int.from_bytes(found.digest(), "big") % PARTS


def key_of(session: Session, split_by: str) -> str:
    """What a session is told by: an id that other instances know it by, where it has one."""
    if split_by == "client_name":
        return session.client_name or ""
    if split_by == "principal" or session.is_shared:
        return session.principal
    return session.mcp_session_id or session.id


class VariantRules(Rules):
    """The sets in force with their shares of the sessions, in hundredths of a per cent."""

    def __init__(
        self, sets: list[tuple[str, int, Interceptor | None, bool]], salt: str, split_by: str = "session"
    ) -> None:
        """`sets`: name, share, rules, and whether they are those of the configuration itself."""
        super().__init__(None)
        self._sets = sets
        self._salt = salt
        self._split_by = split_by
        self._choose_current()

    def _choose_current(self) -> None:
        self.current = next((rules for _, _, rules, _ in self._sets if rules is not None), None)

    def replace(self, interceptor: Interceptor | None) -> None:
        """Other rules are in the configuration itself; the other sets stay what they are."""
        self._sets = [
            (name, share, interceptor if is_own else rules, is_own)
            for name, share, rules, is_own in self._sets
        ]
        self._choose_current()

    def pick(self, session: Session, method: str | None) -> Interceptor | None:
        """The rules of the session. A handshake comes before the id that others know a session by."""
        place = part_of(key_of(session, self._split_by), self._salt)
        for name, share, rules, _ in self._sets:
            if place < share:
                if method != "initialize":
                    session.variant = name
                return rules
            place -= share
        return self.current
