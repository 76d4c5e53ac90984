"""Conditions on the tool that a call names: its name, and what the upstream says of it in its annotations."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct

from penstock.errors import ConfigError
from penstock.policy.binder import READERS, Json, Misread, Reader
from penstock.policy.faults import Fault, Place
from penstock.policy.patterns.patterns import Pattern, compile_pattern
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.globs import glob_source
from penstock.policy.rules.json_values import equals
from penstock.policy.rules.message_parts import method_of, params_of
from penstock.policy.rules.paths import Path, parse_path
from penstock.policy.rules.tool_annotations import annotation_of
from penstock.policy.rules.value_tests import holds_at, is_text
from penstock.wire.mcp.message import Message

CALL = "tools/call"
_NAME = parse_path("name")
_GLOB_SIGNS = frozenset("*?[")


class ToolNames(Struct, frozen=True):
    """Some tools: by their names, and by shell patterns."""

    source: tuple[str, ...]
    names: frozenset[str]
    globs: tuple[Pattern, ...]

    def __str__(self) -> str:
        return ", ".join(self.source)

    def has(self, name: str) -> bool:
        """Whether the tool of this name is one of them."""
        return name in self.names or any(glob.found_in(name) for glob in self.globs)


class Tool(Struct, frozen=True):
    """Holds for a call of one of these tools, and for its response. `*` and `?` stand for any characters."""

    names: Annotated[ToolNames, "tools"]
    whole: ClassVar[str] = "names"
    words: ClassVar[str] = "the tool is one of {names}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        if method_of(message, context) != CALL:
            return False
        return holds_at(params_of(message, context), _NAME, is_text(self.names.has, every), every)

    def texts_asked(self) -> tuple[Path, tuple[str, ...]] | None:
        """The only texts for which it can hold, if it has no patterns."""
        return None if self.names.globs else (_NAME, tuple(self.names.names))


class ToolAnnotation(Struct, frozen=True):
    """Holds for a call of a tool whose annotation is `value`; one that is not there has MCP's default.

    Annotations are known from the tool lists that the session has seen. Of a tool that was in none of them,
    or in two versions, anything may be true: a rule that blocks takes the value for given, one that allows
    does not.
    """

    name: str
    value: Json = True
    short: ClassVar[str] = "name"
    words: ClassVar[str] = "the tool's annotation {name} is {value}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        if method_of(message, context) != CALL:
            return False

        def is_annotated(tool: str) -> bool:
            found = annotation_of(tool, self.name, context.session)
            return not every if found is None else equals(found, 0, len(found), self.value, every)

        return holds_at(params_of(message, context), _NAME, is_text(is_annotated, every), every)


def _read_tools(value: object, place: Place, faults: list[Fault]) -> ToolNames:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(isinstance(w, str) and w for w in words):
        raise Misread("must be the name of a tool, a pattern such as read_*, or a list of them")
    names, globs = set(), []
    for word in words:
        if not _GLOB_SIGNS & set(word):
            names.add(word)
            continue
        try:
            globs.append(compile_pattern(f"(?s)^{glob_source(word)}$", "rule"))
        except ConfigError as why:
            raise Misread(f'invalid pattern "{word}"', why.detail) from None
    return ToolNames(tuple(words), frozenset(names), tuple(globs))


READERS["tools"] = Reader(
    _read_tools,
    {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
        "description": "a tool's name, a shell pattern, or a list of them",
    },
)
