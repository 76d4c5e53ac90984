"""Conditions on what came before: which tools have answered, and what was copied from an answer.

A model that reads a text written by others may do what the text says. These conditions see the flow itself: a
call that changes something after one that read something, or with a target that stood in an answer.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from penstock.policy.binder import Misread
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.flow import Copies, arguments_within, flow_of, texts_within
from penstock.policy.rules.json_values import json_within, text_of
from penstock.policy.rules.message_parts import params_of
from penstock.policy.rules.paths import Path, Span
from penstock.policy.rules.tool_conditions import ToolNames
from penstock.policy.rules.value_tests import holds_at
from penstock.wire.json.json_walk import first_byte, parts
from penstock.wire.mcp.message import Message

TEXT_LENGTH = 24
"""So many characters in a row are no chance."""


class After(Struct, frozen=True):
    """Holds when an answer of one of these tools has reached the client before, in the same session."""

    tools: Annotated[ToolNames, "tools"]
    within: Literal["session"] = "session"
    short: ClassVar[str] = "tools"
    words: ClassVar[str] = "one of {tools} has answered before"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        return self.tools.source in flow_of(context).answered

    def remember(self, message: Message, context: Context) -> None:
        """An answer of one of the tools reaches the client."""
        flow_of(context).answered.add(self.tools.source)


class CopiedFrom(Struct, frozen=True):
    """Holds when a value there names an address, a host, a path or an account that stood in an answer of one
    of these tools, or has `text` characters in a row of one; `text: 0` compares places alone.

    An address, a path or an account that an earlier call of the client named before it stood in such an
    answer is not copied from it, unless `even_if_named` says that it counts."""

    field: Annotated[tuple[Path, ...], "paths"]
    tools: Annotated[ToolNames, "tools"]
    text: int = TEXT_LENGTH
    even_if_named: bool = False

    def __post_init__(self) -> None:
        if self.text and not 8 <= self.text <= 4096:
            raise Misread("text must be 0, or 8 to 4096 characters")

    def words(self) -> str:
        return f"{', '.join(map(str, self.field))} was copied from an answer of {self.tools}"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        copies = flow_of(context).copies.get(self.tools.source)
        if copies is None:
            return False

        def is_copied(text: bytes, span: Span) -> bool:
            return self._is_copied(copies, text, span.start, span.end, every)

        place = params_of(message, context)
        return any(holds_at(place, field, is_copied, every) for field in self.field)

    def _is_copied(self, copies: Copies, text: bytes, start: int, end: int, every: bool) -> bool:
        head = first_byte(text, start)
        if head in (b"[", b"{"):
            found = [
                self._is_copied(copies, text, part.start, part.end, every) for part in parts(text, start)
            ]
            return all(found) and bool(found) if every else any(found)
        if head != b'"':
            return copies.have(text[start:end].decode(), self.text, self.even_if_named)
        token = text[start:end]
        within = json_within(token)
        if within is not None and not every and self._is_copied(copies, within, 0, len(within), every):
            return True
        return copies.have(text_of(token), self.text, self.even_if_named)

    def name(self, request: Message, context: Context) -> None:
        """A call, of whichever tool, is answered: what it named, it named before that answer."""
        copies = flow_of(context).copies.setdefault(self.tools.source, Copies())
        for text in arguments_within(request):
            copies.name(text)

    def remember(self, message: Message, context: Context) -> None:
        """An answer of one of the tools reaches the client."""
        copies = flow_of(context).copies.setdefault(self.tools.source, Copies())
        for text in texts_within(message):
            copies.add(text)
