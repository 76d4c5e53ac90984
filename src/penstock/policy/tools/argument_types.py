"""Keeping the arguments of calls to the types that a tool declares (`tools.arguments: strict`).

Servers convert what does not have the declared type, each in its own way, so that a rule about `1000` may be
passed by with `"1000"`. What is not of its type is refused here, before anybody converts it, with words that
a model can act on. Only types are looked at: what else a schema asks for is the tool's to check.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from penstock import limits
from penstock.wire.json.ambiguity import INHERITED
from penstock.wire.json.json_walk import caseless
from penstock.wire.mcp.replies import printable

Schema = dict[str, Any]


class _Pairs(list[tuple[str, Any]]):
    """An object with all its members, also those that stand twice."""


_decode = json.JSONDecoder(object_pairs_hook=_Pairs, parse_int=lambda digits: 0).decode
_IS: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, _Pairs),
    "array": lambda value: isinstance(value, list) and not isinstance(value, _Pairs),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool)
        and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
}
_SPOKEN = {"object": "an object", "array": "an array", "integer": "an integer", "null": "null"}


class ArgumentTypes:
    """The types that one tool's inputSchema declares."""

    def __init__(self, schema: bytes) -> None:
        """`schema` is an object, as the upstream sent it."""
        try:
            self._root: Schema = msgspec.json.decode(schema)
        except (msgspec.DecodeError, ValueError):  # half a surrogate pair in a description
            self._root = json.loads(schema)

    def maybe_objection(self, name: str, arguments: bytes | None) -> str | None:
        """Why a call of the tool called `name` with these arguments is refused; None when it is not."""
        if arguments is None:
            return None
        try:
            value = _decode(arguments.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            return f'Invalid arguments for the tool "{printable(name)}": they cannot be read'
        found = []
        for fault in self._faults(value, {"type": "object", **self._root}, "arguments", limits.NESTING):
            found.append(fault)
            if len(found) == limits.ARGUMENT_FAULTS:
                break
        if not found:
            return None
        faults = "; ".join(found)
        return (
            f'Invalid arguments for the tool "{printable(name)}": {faults}. '
            "Call it again with each value of the type that its inputSchema declares."
        )

    def _faults(self, value: Any, schema: Any, place: str, depth: int) -> Iterator[str]:
        schema = self._resolved(schema)
        if not isinstance(schema, dict) or depth <= 0:
            return
        kinds = _declared(schema)
        if kinds and not any(_IS[kind](value) for kind in kinds):
            yield f"{place} must be {' or '.join(map(_spoken, kinds))}, not {_shown(value)}"
            return
        for word in ("anyOf", "oneOf"):
            choices = schema.get(word)
            if isinstance(choices, list) and choices:
                yield from self._faults_of_all(value, choices, place, depth)
        every = schema.get("allOf")
        for part in every if isinstance(every, list) else ():
            yield from self._faults(value, part, place, depth - 1)
        if isinstance(value, _Pairs):
            yield from self._faults_of_members(value, schema, place, depth)
        elif isinstance(value, list):
            first = schema.get("prefixItems")
            for number, item in enumerate(value):
                is_first = isinstance(first, list) and number < len(first)
                kind = first[number] if is_first else schema.get("items")  # type: ignore[index]
                yield from self._faults(item, kind, f"{place}[{number}]", depth - 1)

    def _faults_of_all(self, value: Any, choices: list[Any], place: str, depth: int) -> Iterator[str]:
        """What is wrong by every choice; nothing, if one of them takes the value."""
        each = [next(self._faults(value, choice, place, depth - 1), None) for choice in choices]
        if None in each:
            return
        kinds = {kind for choice in choices for kind in _declared(self._resolved(choice))}
        if any(_IS[kind](value) for kind in kinds):
            yield str(each[0])
        else:
            yield f"{place} must be {' or '.join(map(_spoken, sorted(kinds)))}, not {_shown(value)}"

    def _faults_of_members(self, value: _Pairs, schema: Schema, place: str, depth: int) -> Iterator[str]:
        properties = schema.get("properties")
        declared = properties if isinstance(properties, dict) else {}
        others = schema.get("additionalProperties")
        for name, inner in value:
            if name in INHERITED:
                yield f"{place} must not have a member called {name}"
            # To some readers Count is count, so it must be what count is.
            alike = [kind for known, kind in declared.items() if caseless(known) == caseless(name)]
            for kind in alike or [others]:
                yield from self._faults(inner, kind, f"{place}.{printable(name)}", depth - 1)

    def _resolved(self, schema: Any) -> Any:
        """The schema that a reference within this one leads to."""
        for _ in range(8):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str):
                return schema
            schema = self._root if reference.startswith("#") else None
            for step in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
                step = step.replace("~1", "/").replace("~0", "~")
                schema = schema.get(step) if isinstance(schema, dict) else None
        return None


def _declared(schema: Any) -> list[str]:
    """The types that a schema names; none when it takes any."""
    if not isinstance(schema, dict):
        return []
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    known = [kind for kind in kinds if isinstance(kind, str) and kind in _IS]
    values = schema["enum"] if isinstance(schema.get("enum"), list) else []
    if "const" in schema:
        values = [schema["const"]]
    if not known and values:
        known = list(dict.fromkeys(_kind_of(value) for value in values))
    return known


def _kind_of(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    return next((kind for kind, holds in _IS.items() if holds(value)), "object")


def _spoken(kind: str) -> str:
    return _SPOKEN.get(kind, f"a {kind}")


def _shown(value: Any) -> str:
    if isinstance(value, str):
        short = value if len(value) <= limits.ARGUMENT_ECHO else value[: limits.ARGUMENT_ECHO] + "..."
        return f'the string "{printable(short)}"'
    return _spoken(_kind_of(value))
