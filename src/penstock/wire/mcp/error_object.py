"""Whether what a response calls its error is the error object of JSON-RPC."""

from __future__ import annotations

from msgspec import Raw

from penstock.wire.json.ambiguity import Ambiguous, NotAnObject, NotJson, last_members


def is_error_object(token: Raw) -> bool:
    """Whether it has a whole number for its code and a text for its message; what else it has is free."""
    try:
        found, _ = last_members(token)
    except (Ambiguous, NotJson, NotAnObject):
        return False
    return bytes(found.get("message", b""))[:1] == b'"' and _is_whole(bytes(found.get("code", b"")))


def _is_whole(number: bytes) -> bool:
    digits, _, fraction = number.removeprefix(b"-").partition(b".")
    return digits.isdigit() and not fraction.strip(b"0")
