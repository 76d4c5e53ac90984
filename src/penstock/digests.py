"""SHA-256 without OpenSSL, which `hashlib` loads for 0.6 MB and 3 ms: most runs digest a file or two.

For what is large, or comes often, `hashlib` is faster.
"""

from __future__ import annotations

from typing import Any


def _implementation() -> Any:
    """The interpreter's own has another name in each version, and a build may be without it."""
    for name in ("_sha2", "_sha256"):
        try:
            return __import__(name).sha256
        except ImportError:
            continue
    import hashlib

    return hashlib.sha256


_new = _implementation()


def sha256(data: bytes) -> bytes:
    """The digest of `data`."""
    digest: bytes = _new(data).digest()
    return digest
