"""Entries of rules: each is one word with what belongs to it, and can be said in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from penstock.policy.binder import Misread, read_struct, shown
from penstock.policy.faults import Fault, Place, did_you_mean
from penstock.policy.patterns.patterns import Pattern


def read_one(table: dict[str, type[Any]], noun: str) -> Callable[..., Any]:
    """Reads an entry such as {method_equals: tools/call} with the help of a table."""

    def read(value: object, place: Place, faults: list[Fault]) -> Any:
        if isinstance(value, str) and value in table:
            value = {value: {}}  # allow, and others that need no more words
        if not isinstance(value, Mapping) or len(value) != 1:
            found = f"{len(value)} keys" if isinstance(value, Mapping) else shown(value)
            hint = f"each {noun} is an entry of its own: - name: value"
            if isinstance(value, str):
                hint = did_you_mean(value, table) or hint
            raise Misread(f"must be one {noun}, not {found}", hint)
        ((name, content),) = value.items()
        if name not in table:
            raise Misread(f'unknown {noun} "{name}"', _hint_at(name, table))
        return read_struct(table[name], content, (*place, name), faults)

    return read


_OTHER_WORDS = {
    "deny": "block",
    "reject": "block",
    "refuse": "block",
    "drop": "block",
    "forbid": "block",
    "pass": "allow",
    "permit": "allow",
    "accept": "allow",
    "sleep": "delay",
    "wait": "delay",
    "redact": "replace",
    "mask": "replace",
    "substitute": "replace",
    "throttle": "rate_limit",
    "limit": "rate_limit",
    "script": "run_script",
    "exec": "run_script",
    "method": "method_equals",
    "methods": "method_in",
    "tools": "tool",
    "tool_name": "tool",
    "param_contains": "param_matches",
    "result_contains": "result_matches",
    "or": "any",
    "and": "all",
    "header": "header_equals",
    "time": "time_outside",
    "size": "size_greater_than",
}


def _hint_at(name: object, table: Mapping[str, Any]) -> str:
    """What was probably meant: a word that others use for it, or one that is spelt much like it."""
    meant = _OTHER_WORDS.get(str(name), "")
    if meant in table:
        return f'did you mean "{meant}"?'
    return did_you_mean(name, table) or f"known: {', '.join(table)}"


def read_many(read: Callable[..., Any]) -> Callable[..., Any]:
    """Reads a list of such entries; all faults of all entries are noted."""

    def read_list(value: object, place: Place, faults: list[Fault]) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise Misread(
                f"must be a list, not {shown(value)}", "each entry begins with a dash: - name: value"
            )
        out = []
        for index, entry in enumerate(value):
            try:
                out.append(read(entry, (*place, index), faults))
            except Misread as why:
                faults.append(why.at((*place, index)))
        return tuple(out)

    return read_list


_HOLE = re.compile(r"\{(\w+)\}")


def says(part: Any) -> str:
    """A condition or action in plain words: its `words` with the fields filled in."""
    words = part.words
    if callable(words):
        return str(words())
    return _HOLE.sub(lambda hole: spoken(getattr(part, hole[1])), words)


def spoken(value: object) -> str:
    """A value of a rule for people."""
    if isinstance(value, Pattern):
        return value.source
    if isinstance(value, Struct):
        return str(value)
    if isinstance(value, tuple | list):
        return ", ".join(spoken(item) for item in value)
    if isinstance(value, str):
        return f'"{value}"'
    return msgspec.json.encode(value).decode()
