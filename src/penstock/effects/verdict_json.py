"""Reading what a webhook or a script decided.

    {"decision": "allow" | "block", "reason": "...", "set_params": {...}, "set_result": {...}}

Only `decision` must be there. Everything else that is wrong is wrong aloud: a misspelt `set_params` would
let a message pass with what should have been taken out of it.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw

from penstock.policy.rules.effect_contract import EffectVerdict
from penstock.wire.json.ambiguity import Ambiguous, NotAnObject, NotJson, check_text, members, readable

_NAMES = ("decision", "reason", "set_params", "set_result")
_decode_decision = msgspec.json.Decoder(Literal["allow", "block"]).decode
_decode_reason = msgspec.json.Decoder(str | None).decode


class NoVerdict(ValueError):
    """The bytes hold no verdict. What it says is safe to log: it repeats nothing of them."""


def read_verdict(body: bytes) -> EffectVerdict:
    """The verdict in `body`; NoVerdict when there is any doubt."""
    if not body.strip():
        raise NoVerdict("the answer is empty")
    try:
        check_text(body)
        found = members(body)
    except (NotJson, NotAnObject, Ambiguous) as why:
        raise NoVerdict(f"the answer is no JSON object: {why}") from None
    if "decision" not in found:
        raise NoVerdict('the answer has no "decision"')
    if not found.keys() <= set(_NAMES):
        raise NoVerdict(f"the answer has members other than {', '.join(_NAMES)}")
    try:
        decision = _decode_decision(found["decision"])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NoVerdict('"decision" is neither "allow" nor "block"') from None
    try:
        reason = _decode_reason(readable(found.get("reason", Raw(b"null"))))
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NoVerdict('"reason" is no text') from None
    return EffectVerdict(
        decision, reason, _maybe_object(found, "set_params"), _maybe_object(found, "set_result")
    )


def _maybe_object(found: dict[str, Raw], name: str) -> bytes | None:
    value = bytes(found.get(name, b"null"))
    if value == b"null":
        return None
    if not value.startswith(b"{"):
        raise NoVerdict(f'"{name}" is no object')
    return value
