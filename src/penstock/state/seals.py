"""Names that tell nothing, and values that nobody else can make: what goes to a store that others may read.

Everything comes from one secret, a key for each purpose. With the secret before it, what it sealed is still
believed, while a fleet goes over to a new one.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import blake2b

SEAL_BYTES = 16
_NAME_BYTES = 16


class Seals:
    """The keys of one fleet."""

    def __init__(self, secret: bytes, old_secret: bytes | None = None, namespace: str = "default") -> None:
        secrets = [secret] if old_secret is None else [secret, old_secret]
        self._prefix = b"ps1:" + namespace.encode() + b":"
        self._naming = _derived(secret, b"name", namespace)
        self._sealing = [_derived(one, b"seal", namespace) for one in secrets]

    def name(self, kind: str, *fields: str | bytes) -> bytes:
        """The key in the store for what these fields say. Only who has the secret can tell."""
        return self._prefix + self.digest(kind, *fields).hex().encode()

    def digest(self, kind: str, *fields: str | bytes) -> bytes:
        """A short name for the fields, the same in every instance."""
        return blake2b(_joined(kind, fields), key=self._naming, digest_size=_NAME_BYTES).digest()

    def seal(self, kind: str, *fields: str | bytes) -> bytes:
        """What proves that somebody with the secret said this."""
        return self._seal(self._sealing[0], kind, fields)

    def is_sealed(self, seal: bytes, kind: str, *fields: str | bytes) -> bool:
        """Whether `seal` proves these fields."""
        return any(hmac.compare_digest(self._seal(key, kind, fields), seal) for key in self._sealing)

    def _seal(self, key: bytes, kind: str, fields: Iterable[str | bytes]) -> bytes:
        return blake2b(_joined(kind, fields), key=key, digest_size=SEAL_BYTES).digest()

    def wrapped(self, value: bytes, kind: str, *fields: str | bytes) -> bytes:
        """The value with its seal before it; `fields` say where it belongs."""
        return self.seal(kind, *fields, value) + value

    def maybe_unwrapped(self, sealed: bytes, kind: str, *fields: str | bytes) -> bytes | None:
        """The value, or None when somebody else made it or it belongs elsewhere."""
        seal, value = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
        return value if self.is_sealed(seal, kind, *fields, value) else None


def _derived(secret: bytes, purpose: bytes, namespace: str) -> bytes:
    # A key of BLAKE2b has at most 64 bytes; a secret may have more.
    return blake2b(
        b"penstock fleet\0%b\0%b" % (purpose, namespace.encode()), key=blake2b(secret).digest()
    ).digest()


def _joined(kind: str, fields: Iterable[str | bytes]) -> bytes:
    """All fields, each with its length, so that no two lists of fields look the same."""
    parts = [kind.encode()]
    for field in fields:
        raw = field if isinstance(field, bytes) else field.encode("utf-8", "surrogatepass")
        parts.append(b"%d:%b" % (len(raw), raw))
    return b"\0".join(parts)
