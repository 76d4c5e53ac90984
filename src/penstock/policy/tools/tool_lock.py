"""A lock: the definitions that somebody has read and agreed to. Nothing else passes.

What a tool says of itself steers the model, so a tool whose definition has changed is not the one that was
agreed to. The lock holds whole definitions, so that `git diff` shows what changed, and their digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from penstock.errors import ConfigError, ToolListRefused
from penstock.policy.tools.lock_diff import difference, maybe_other_name
from penstock.policy.tools.tool_filter import Denial
from penstock.wire.json.canonical import Number, Pairs, canonical, pairs, pretty, read, without

VERSION = "1"
NOT_LOCKED = Denial("--lock: not in the lock", None)
CHANGED = Denial("--lock: changed since it was locked", None)


class Locked(Struct, frozen=True):
    """One definition as it was locked."""

    digest: str
    definition: Pairs


class ToolLock(Struct, frozen=True):
    """What a lock file holds."""

    tools: dict[str, Locked]
    prompts: dict[str, Locked]
    order: tuple[str, ...]
    upstream: Any = None
    server: Any = None
    instructions: str | None = None
    ignored: tuple[str, ...] = ()
    is_strict: bool = False
    name: str = "the lock"

    def maybe_denial(self, name: str, raw: bytes) -> Denial | None:
        """Why this tool is withheld; None when it is as it was locked."""
        known = self.tools.get(name)
        if known is None:
            return NOT_LOCKED
        return None if digest_of(raw, self.ignored) == known.digest else CHANGED

    def is_prompt_locked(self, name: str, raw: bytes) -> bool:
        """Whether this prompt is as it was locked."""
        known = self.prompts.get(name)
        return known is not None and digest_of(raw, self.ignored) == known.digest

    def differences(self, found: dict[str, bytes], hidden: Iterable[str] = ()) -> list[str]:
        """What has become of the tools since, a text of several lines each; `hidden` ones do not count."""
        return differences(self.tools, found, self.ignored, frozenset(hidden), "tool")

    def refuse_differences(self, told: list[str]) -> None:
        """With --lock-strict: raises ToolListRefused when anything differs."""
        if self.is_strict and told:
            raise ToolListRefused(f"The upstream is not what {self.name} says", "\n".join(told))


def differences(
    known: dict[str, Locked],
    found: dict[str, bytes],
    ignored: tuple[str, ...],
    hidden: frozenset[str],
    noun: str,
) -> list[str]:
    """How `found` differs from what is locked, in words and lines."""
    out = []
    gone = {name: entry.definition for name, entry in known.items() if name not in found}
    for name, raw in found.items():
        if name in hidden:
            continue
        entry = known.get(name)
        if entry is None:
            out.append(_new(name, raw, gone, ignored, noun))
        elif digest_of(raw, ignored) != entry.digest:
            now = definition_of(raw, ignored)
            out.append(difference(f"The {noun} {name} has changed", pretty(entry.definition), pretty(now)))
    out += [f"The {noun} {name} is gone." for name in gone if name not in hidden]
    return out


def _new(name: str, raw: bytes, gone: dict[str, Pairs], ignored: tuple[str, ...], noun: str) -> str:
    now = definition_of(raw, ignored)
    other = maybe_other_name(now, gone)
    alike = f"; it looks like {other} under a new name" if other is not None else ""
    return difference(f"The {noun} {name} is new{alike}", "", pretty(now))


def definition_of(raw: bytes, ignored: tuple[str, ...] = ()) -> Pairs:
    """A definition in its one spelling, without the members that do not count. Raises ValueError."""
    value = read(raw)
    for path in ignored:
        value = without(value, tuple(path.split(".")))
    if not isinstance(value, Pairs):
        raise ValueError("a definition is an object")
    return value


def digest_of(raw: bytes, ignored: tuple[str, ...] = ()) -> str:
    """The digest of a definition."""
    return digest_of_value(definition_of(raw, ignored))


def digest_of_value(value: Any) -> str:
    """The digest of a value that has been read."""
    return "sha256:" + hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


# --- the file ----------------------------------------------------------------------------------------------


def lock_text(lock: ToolLock) -> str:
    """The lock as a file: JSON, sorted, one member a line."""
    members: dict[str, Any] = {
        "penstock_lock": Number(VERSION),
        "upstream": lock.upstream,
        "server": lock.server,
        "instructions": lock.instructions,
        "order": list(lock.order),
        "tools": _entries(lock.tools),
        "prompts": _entries(lock.prompts),
    }
    if lock.ignored:
        members["ignore"] = list(lock.ignored)
    return pretty(pairs(members)) + "\n"


def parse_lock(text: str, name: str, is_strict: bool = False) -> ToolLock:
    """The lock in a file's text. Raises ConfigError for one that is broken or was edited by hand."""
    try:
        tree = read(text)
    except (ValueError, RecursionError) as why:
        raise _broken(name, f"it is no JSON: {why}") from None
    members = dict(tree) if isinstance(tree, Pairs) else {}
    if len(members) != len(tree) if isinstance(tree, Pairs) else True:
        raise _broken(name, "a member is there twice, or it is no object")
    if members.get("penstock_lock") != VERSION or not isinstance(members.get("penstock_lock"), Number):
        raise _broken(name, f"it is no lock of version {VERSION}")
    instructions, order = members.get("instructions"), members.get("order", [])
    ignored = members.get("ignore", [])
    if not (instructions is None or type(instructions) is str) or not all(map(_is_texts, (order, ignored))):
        raise _broken(name, "instructions, order or ignore are not what they should be")
    return ToolLock(
        tools=_read_entries(members.get("tools"), name, "tools"),
        prompts=_read_entries(members.get("prompts", Pairs()), name, "prompts"),
        order=tuple(order),
        upstream=members.get("upstream"),
        server=members.get("server"),
        instructions=instructions,
        ignored=tuple(ignored),
        is_strict=is_strict,
        name=name,
    )


def _entries(entries: dict[str, Locked]) -> Pairs:
    return pairs(
        {
            name: pairs({"digest": entry.digest, "definition": entry.definition})
            for name, entry in entries.items()
        }
    )


def _read_entries(tree: Any, name: str, what: str) -> dict[str, Locked]:
    if not isinstance(tree, Pairs):
        raise _broken(name, f"it has no {what}")
    out: dict[str, Locked] = {}
    for key, entry in tree:
        members = dict(entry) if isinstance(entry, Pairs) else {}
        digest, definition = members.get("digest"), members.get("definition")
        if key in out or type(digest) is not str or not isinstance(definition, Pairs):
            raise _broken(name, f"{what}.{key} is no entry")
        if digest_of_value(definition) != digest:
            raise _broken(name, f"the digest of {what}.{key} is not that of its definition")
        if dict(definition).get("name") != key:
            raise _broken(name, f"{what}.{key} is the definition of another")
        out[key] = Locked(digest, definition)
    return out


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(type(word) is str for word in value)


def _broken(name: str, why: str) -> ConfigError:
    return ConfigError(f"The lock cannot be used: {name}", f"{why[:1].upper()}{why[1:]}")
