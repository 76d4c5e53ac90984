"""Client certificates: TLS has proven whose they are, here it is looked up what that gives."""

from __future__ import annotations

import hashlib
from hmac import compare_digest

from penstock.auth.caller import Caller
from penstock.auth.terms import CertTerms


class CertTable:
    """The callers of the certificates that the configuration names."""

    def __init__(self, certs: tuple[CertTerms, ...]) -> None:
        self._rows = [(row, Caller(row.id, _key(row), row.profile)) for row in certs]

    def maybe_caller(self, certificate: bytes | None, names: tuple[str, ...]) -> Caller | None:
        """Whose certificate this is, by its fingerprint or by one of its `names`; the first row counts."""
        if certificate is None:
            return None
        digest = hashlib.sha256(certificate).digest()
        for row, caller in self._rows:
            if row.digest is not None and compare_digest(row.digest, digest):
                return caller
            if row.name is not None and row.name in names:
                return caller
        return None

    @property
    def callers(self) -> list[Caller]:
        """Everybody who has one."""
        return [caller for _, caller in self._rows]


def _key(row: CertTerms) -> bytes:
    return b"cert " + (row.digest if row.digest is not None else f"name {row.name}".encode())
