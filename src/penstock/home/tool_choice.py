"""Choosing tools by hand: rows, which of them are hidden, and the option that says so. No terminal here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from penstock.policy.tools.budget import pattern_for
from penstock.policy.tools.token_estimate import estimate_tokens
from penstock.wire.mcp.replies import one_line


class Row(Struct, frozen=True):
    """One tool as people see it."""

    name: str
    tokens: int
    is_read_only: bool
    is_destructive: bool
    description: str

    @property
    def mark(self) -> str:
        """What the tool says of itself, in one character."""
        return "r" if self.is_read_only else "!" if self.is_destructive else " "


class ToolChoice:
    """The choice while it is being made."""

    def __init__(self, rows: list[Row], hidden: Iterable[str] = ()) -> None:
        self.rows = rows
        self.hidden = set(hidden)
        self.search = ""

    @property
    def shown(self) -> list[Row]:
        """The rows that the search finds."""
        word = self.search.lower()
        return [row for row in self.rows if word in row.name.lower() or word in row.description.lower()]

    def toggle(self, row: Row) -> None:
        """Hides a tool, or shows it again."""
        self.hidden ^= {row.name}

    def toggle_all(self) -> None:
        """Hides all that the search finds; all of them hidden already, shows them again."""
        names = {row.name for row in self.shown}
        self.hidden = self.hidden - names if names <= self.hidden else self.hidden | names

    def hide_writers(self) -> None:
        """Hides all that do not say that they only read."""
        self.hidden |= {row.name for row in self.rows if not row.is_read_only}

    @property
    def summary(self) -> str:
        """How many are kept, and what they cost."""
        kept = [row for row in self.rows if row.name not in self.hidden]
        cost, whole = sum(row.tokens for row in kept), sum(row.tokens for row in self.rows)
        return f"{len(kept)} of {len(self.rows)} kept, about {cost:,} of {whole:,} tokens"

    def option(self, kind: str) -> tuple[str, ...]:
        """The option that makes this choice: --deny of what is hidden, or --allow of what is kept."""
        if kind == "allow":
            kept = [row.name for row in self.rows if row.name not in self.hidden]
            # An allow list that matches nothing hides all: no tool has a name without a character.
            return ("--allow", pattern_for(kept) if kept else "^$")
        names = [row.name for row in self.rows if row.name in self.hidden]
        return ("--deny", pattern_for(names)) if names else ()


def rows_of(tools: list[dict[str, Any]]) -> list[Row]:
    """The rows for a list of tools as the upstream describes them."""
    out = []
    for tool in tools:
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            continue
        hints = tool.get("annotations")
        hints = hints if isinstance(hints, dict) else {}
        shown = {
            "name": name,
            "description": tool.get("description"),
            "input_schema": tool.get("inputSchema"),
        }
        text = msgspec.json.encode({key: value for key, value in shown.items() if value is not None}).decode()
        out.append(
            Row(
                name,
                estimate_tokens(text),
                hints.get("readOnlyHint") is True,
                hints.get("destructiveHint") is True,
                one_line(" ".join(str(tool.get("description") or "").split())),
            )
        )
    return out
