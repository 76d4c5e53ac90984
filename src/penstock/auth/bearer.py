"""Bearer tokens: taken out of the one Authorization header strictly, compared in constant time."""

from __future__ import annotations

import hashlib
import re
from hmac import compare_digest

from penstock.auth.caller import Caller
from penstock.auth.terms import TokenTerms

# One scheme, one blank or more, one token (RFC 9110, 11.2) and nothing else: two headers, which are joined by
# a comma, are no token, so that nobody can be shown one and checked by the other.
_BEARER = re.compile(rb"(?i:bearer) +([A-Za-z0-9._~+/-]{1,8192}=*)").fullmatch


def maybe_token(authorization: bytes) -> bytes | None:
    """The bearer token in a header's value; None when there is none, or more than one."""
    found = _BEARER(authorization)
    return found[1] if found is not None else None


def digest_of(token: bytes) -> bytes:
    """What is kept of a token. It has 256 random bits: there is nothing to guess, and no need for salt."""
    return hashlib.sha256(token).digest()


class TokenTable:
    """The callers of the tokens that the configuration names."""

    def __init__(self, tokens: tuple[TokenTerms, ...]) -> None:
        self._rows = [(row.digest, Caller(row.id, b"token " + row.digest, row.profile)) for row in tokens]

    def maybe_caller(self, digest: bytes) -> Caller | None:
        """Whose token this is. Every row is compared, and each in the same time whatever is in it."""
        found = None
        for known, caller in self._rows:
            if compare_digest(known, digest):
                found = caller
        return found

    @property
    def callers(self) -> list[Caller]:
        """Everybody who has one."""
        return [caller for _, caller in self._rows]


class AdminTokens:
    """The tokens whose bearers may see how the upstreams are."""

    def __init__(self, tokens: tuple[TokenTerms, ...]) -> None:
        self._table = TokenTable(tuple(row for row in tokens if row.admin))

    def has(self, authorization: bytes) -> bool:
        """Whether this header shows one of them."""
        token = maybe_token(authorization)
        return token is not None and self._table.maybe_caller(digest_of(token)) is not None
