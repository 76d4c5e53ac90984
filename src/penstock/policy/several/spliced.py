"""Changing what must not be mistaken between upstreams: task ids, ids of questions, the words of a question.

One value is spliced and no other byte changed. What can be read in two ways raises ValueError: who asks must
not pass it on.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

from penstock.wire.json.ambiguity import elements, members
from penstock.wire.json.splice import with_value

RELATED_TASK = "io.modelcontextprotocol/related-task"
TASK_BORDER = "+"  # no slug has one

_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode

Change = Callable[[bytes], bytes]
Place = tuple[str, ...]

_RELATED: tuple[Place, ...] = (
    ("result", "_meta", RELATED_TASK, "taskId"),
    ("params", "_meta", RELATED_TASK, "taskId"),
)
_OWN_TASKS: tuple[Place, ...] = (
    ("result", "taskId"),
    ("result", "task", "taskId"),
    ("result", "tasks", "*", "taskId"),
    ("params", "taskId"),
    *_RELATED,
)


def maybe_text(token: bytes | Raw | None) -> str | None:
    """The text that a JSON token is, if it is one."""
    try:
        return None if token is None else _decode_text(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def edited(text: bytes, place: Place, change: Change) -> bytes:
    """`text` with the value at `place` changed, where there is one; `*` stands for each element."""
    if not place:
        return change(text)
    name, rest = place[0], place[1:]
    if name == "*":
        if text[:1] != b"[":
            return text
        old = elements(text)
        new = [edited(element, rest, change) for element in old]
        return text if new == old else b"[%b]" % b",".join(new)
    if text.lstrip()[:1] != b"{":
        return text
    found = members(text)
    if name not in found:
        return text
    value = bytes(found[name])
    changed = edited(value, rest, change)
    return text if changed == value else with_value(text, found, name, changed)


def _on_text(change: Callable[[str], str]) -> Change:
    def apply(token: bytes) -> bytes:
        if token[:1] != b'"':
            return token
        text = _decode_text(token)
        new = change(text)
        return token if new == text else _encode(new)

    return apply


def with_task_prefix(raw: bytes, slug: str, is_request: bool) -> bytes:
    """A member's message with its task ids as clients shall see them. A request of its own names a task of
    the client's, which stays as it is."""
    add = _on_text(lambda task: f"{slug}{TASK_BORDER}{task}")
    for place in _RELATED if is_request else _OWN_TASKS:
        raw = edited(raw, place, add)
    return raw


def without_task_prefix(raw: bytes, slug: str, has_own: bool) -> bytes:
    """A client's message with task ids as the member wrote them; `has_own`: also that in `params`."""
    start = slug + TASK_BORDER
    cut = _on_text(lambda task: task.removeprefix(start))
    for place in (*_RELATED, ("params", "taskId")) if has_own else _RELATED:
        raw = edited(raw, place, cut)
    return raw


def slug_of_task(token: bytes | Raw | None) -> str | None:
    """Whose a task is, by its id as clients see it. No slug has a border in it: the first is the border."""
    if token is None or bytes(token)[:1] != b'"':
        return None
    slug, border, _ = _decode_text(token).partition(TASK_BORDER)
    return slug if border else None


def with_origin(raw: bytes, place: Place, name: str) -> bytes:
    """A question to people with the name of who asks before it."""
    return edited(raw, place, _on_text(lambda text: f"[{name}] {text}"))


def resource_uris(result: bytes) -> list[str]:
    """The resources that a result links to, or brings along."""
    found = members(result) if result[:1] == b"{" else {}
    entries: list[bytes] = []
    for name in ("content", "contents", "messages"):
        value = bytes(found.get(name, b""))
        if value[:1] == b"[":
            entries += elements(value)
    out = []
    for entry in entries:
        inner = members(entry) if entry[:1] == b"{" else {}
        for name in ("content", "resource"):
            deeper = bytes(inner.get(name, b""))
            if deeper[:1] == b"{":
                inner = {**inner, **members(deeper)}
        token = bytes(inner.get("uri", b""))
        if token[:1] == b'"':
            out.append(_decode_text(token))
    return out
