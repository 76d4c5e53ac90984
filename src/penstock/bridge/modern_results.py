"""What a legacy upstream says, as the modern era wants it said."""

from __future__ import annotations

from msgspec import Raw

from penstock.bridge.codes import UNSUPPORTED_VERSION
from penstock.bridge.envelope import maybe_members, maybe_value, object_of, with_members, without_members
from penstock.wire.json.ambiguity import Members
from penstock.wire.mcp.eras import (
    META_CAPABILITIES,
    META_CLIENT,
    META_LEVEL,
    META_SERVER,
    META_VERSION,
    MODERN_VERSIONS,
)
from penstock.wire.mcp.message import INTERNAL_ERROR, INVALID_PARAMS, Message
from penstock.wire.mcp.replies import INVALID_ANSWER, error_reply

_COMPLETE = b'"complete"'
_UNCACHED = {"ttlMs": b"0", "cacheScope": b'"private"'}
_CACHEABLE = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
)
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_OF_THE_ERA = (META_VERSION, META_CLIENT, META_CAPABILITIES, META_LEVEL)


def discover_result(initialized: Members) -> bytes:
    """What server/discover is answered, out of the result of initialize."""
    values = {
        "resultType": _COMPLETE,
        "supportedVersions": b'["2026-07-28"]',
        "capabilities": _without_tasks(initialized.get("capabilities")),
        **_UNCACHED,
    }
    if "instructions" in initialized:
        values["instructions"] = bytes(initialized["instructions"])
    if "serverInfo" in initialized:
        values["_meta"] = object_of({META_SERVER: bytes(initialized["serverInfo"])})
    return object_of(values)


def _without_tasks(capabilities: Raw | None) -> bytes:
    if capabilities is None or maybe_members(capabilities) is None:
        return b"{}"
    return without_members(bytes(capabilities), "tasks")


def for_modern(raw: bytes, method: str) -> bytes:
    """An answer with what every result says in this era. Another `resultType` than ours would be a forged
    round of questions; so might be one in a result that can be read in two ways, which is not passed on."""
    envelope = maybe_members(raw) or {}
    if maybe_members(envelope.get("result")) is None:
        return error_reply(bytes(envelope.get("id", b"null")), INTERNAL_ERROR, INVALID_ANSWER)
    return with_members(raw, {"result": result_for_modern(bytes(envelope["result"]), method)})


def result_for_modern(result: bytes, method: str) -> bytes:
    """A result with what every one says in this era."""
    return with_members(result, {"resultType": _COMPLETE, **(_UNCACHED if method in _CACHEABLE else {})})


def for_legacy_upstream(message: Message) -> bytes:
    """A request without what only the modern era knows."""
    inner = message.params
    if inner is None:
        return message.raw
    params = without_members(bytes(message.envelope["params"]), "inputResponses", "requestState")
    meta = inner.get("_meta")
    if meta is not None and maybe_members(meta) is not None:
        kept = without_members(bytes(meta), *_OF_THE_ERA)
        params = (
            with_members(params, {"_meta": kept}) if maybe_members(kept) else without_members(params, "_meta")
        )
    return with_members(message.raw, {"params": params})


def opening(meta: Members, own: bytes) -> bytes:
    """The params of initialize on behalf of who sent this `_meta`; `own` is what we call ourselves."""
    declared = maybe_members(meta.get(META_CAPABILITIES))
    capabilities = b"{}"
    if declared is not None:
        capabilities = without_members(bytes(meta[META_CAPABILITIES]), "tasks")
        if maybe_members(declared.get("roots")) is not None:
            roots = without_members(bytes(declared["roots"]), "listChanged")
            capabilities = with_members(capabilities, {"roots": roots})
    return object_of(
        {
            "protocolVersion": b'"2025-11-25"',
            "capabilities": capabilities,
            "clientInfo": bytes(meta.get(META_CLIENT, own)),
        }
    )


def meta_of(message: Message) -> Members:
    """The `_meta` of a request; empty where there is none."""
    return maybe_members((message.params or {}).get("_meta")) or {}


def level_of(message: Message) -> object:
    """From which level up a request wants to hear what is logged; None when it does not."""
    return maybe_value(meta_of(message).get(META_LEVEL))


def maybe_wrong_meta(message: Message) -> bytes | None:
    """The refusal of a request that does not say what every modern one says: the server's duty is ours."""
    meta = meta_of(message)
    version = maybe_value(meta.get(META_VERSION))
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": version}
        return error_reply(message.id_token, UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    if maybe_members(meta.get(META_CAPABILITIES)) is None:
        reason = f"Invalid params: _meta must name {META_CAPABILITIES}"
        return error_reply(message.id_token, INVALID_PARAMS, reason)
    return None


def wants(asked: Message, log: Message) -> bool:
    """Whether a request wants to hear what is logged."""
    wanted = level_of(asked)
    level = maybe_value((maybe_members(log.envelope.get("params")) or {}).get("level"))
    if wanted not in LEVELS or level not in LEVELS:
        return False
    return LEVELS.index(str(level)) >= LEVELS.index(str(wanted))
