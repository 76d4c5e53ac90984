"""What a lock lets through beside tools: prompts that are as they were locked, and the locked instructions.

Prompts and instructions steer a model as descriptions of tools do. A prompt that is new or has changed is
left out of the list and cannot be asked for, nor can one that no list has shown yet: nobody knows whether
it is as it was locked. Instructions that are not the locked ones are cut out.
"""

from __future__ import annotations

import logging

import msgspec
from msgspec import Raw

from penstock.policy.tools import tool_gate
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.tools.lock_diff import difference
from penstock.policy.tools.tool_lock import ToolLock, differences
from penstock.policy.verdict import FORWARD, Answer, Drop, Forward, Verdict, Why
from penstock.wire.json.ambiguity import Members, as_lax_readers_see, elements, folded, members
from penstock.wire.json.splice import with_value, without
from penstock.wire.mcp.message import METHOD_NOT_FOUND, Kind, Message, read_upstream_message
from penstock.wire.mcp.replies import error_reply, printable

log = logging.getLogger("penstock")

_GET = "prompts/get"
_LISTS = ("prompts/list", "", None)
_GREETINGS = ("initialize", "server/discover", "", None)
_CHANGED = Why("lock", "change", "what is not as it was locked is left out")

_decode_text = msgspec.json.Decoder(str).decode


class LockGate:
    """Asks the lock about prompts and instructions."""

    def __init__(self, lock: ToolLock) -> None:
        self._lock = lock
        self._seen: set[str] = set()  # prompts that a list has shown to be as they were locked
        self._told: set[str] = set()

    def judge(self, message: Message, catalog: ToolCatalog | None) -> Verdict:
        """What becomes of a client's request or notification."""
        verdict = tool_gate.judge(message, catalog)
        if verdict is not FORWARD or message.method is None or as_lax_readers_see(message.method) != _GET:
            return verdict
        if message.kind is not Kind.REQUEST:
            return Drop(Why("lock", "drop", "prompts/get without an id"))
        name = _maybe_name(message.params)
        if name is not None and name in self._seen:
            return verdict
        if name in self._lock.prompts:
            self._tell(
                f"The prompt {printable(name or '')} passes once prompts/list has shown it as it was locked."
            )
        raw = error_reply(message.id_token, METHOD_NOT_FOUND, f"Prompt not found: {printable(name or '')}")
        return Answer(raw, word="deny", why=Why("lock", "deny", "the prompt is not as it was locked"))

    def maybe_change(self, message: Message, method: str | None) -> Verdict | None:
        """A result without what is not locked; None when nothing has to go. Raises ValueError."""
        if message.kind is not Kind.RESPONSE or "result" not in message.envelope:
            return None
        result = bytes(message.envelope["result"])
        if not result.startswith(b"{"):
            return None
        changed = self._without_prompts(result) if method in _LISTS else result
        if method in _GREETINGS:
            changed = self._without_instructions(changed)
        if changed == result:
            return None
        raw = with_value(message.raw, message.envelope, "result", changed)
        new = read_upstream_message(raw)
        assert isinstance(new, Message)
        return Forward(new, "change", _CHANGED)

    def _without_prompts(self, result: bytes) -> bytes:
        found = _checked(result, "prompts")
        if "prompts" not in found:
            return result
        kept, seen = [], {}
        for raw in elements(found["prompts"]):
            name = _maybe_name(members(raw))
            if name is None:
                continue
            seen[name] = raw
            if self._lock.is_prompt_locked(name, raw):
                kept.append(raw)
                self._seen.add(name)
            else:
                self._seen.discard(name)
        for text in differences(self._lock.prompts, seen, self._lock.ignored, frozenset(), "prompt"):
            if not text.endswith(" is gone."):  # it may be on another page
                self._tell(text)
        if len(kept) == len(elements(found["prompts"])):
            return result
        return with_value(result, found, "prompts", b"[%b]" % b",".join(kept))

    def _without_instructions(self, result: bytes) -> bytes:
        found = _checked(result, "instructions")
        if "instructions" not in found or "capabilities" not in found:
            return result
        raw = bytes(found["instructions"])
        text = _decode_text(raw) if raw.startswith(b'"') else raw.decode()
        if raw.startswith(b'"') and text == self._lock.instructions:
            return result
        self._tell(difference("The instructions have changed", self._lock.instructions or "", text))
        return without(result, found, "instructions")

    def _tell(self, text: str) -> None:
        if text in self._told:
            return
        self._told.add(text)
        for line in text.split("\n"):
            log.warning("%s", line)


def _checked(result: bytes, wanted: str) -> Members:
    """The members of a result, in which no other may be read as `wanted`. Raises ValueError."""
    found = members(result)
    if any(name != wanted and folded(name) == wanted for name in found):
        raise ValueError(f"something looks like {wanted}")
    return found


def _maybe_name(found: Members | None) -> str | None:
    name = (found or {}).get("name", Raw(b"null"))
    return _decode_text(name) if bytes(name).startswith(b'"') else None
