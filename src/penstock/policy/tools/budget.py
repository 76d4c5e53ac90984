"""What a tool list may cost in tokens, and what to hide so that it fits."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from penstock.errors import ToolListRefused
from penstock.policy.tools.tool_filter import Pattern

_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")


class Cost(Struct, frozen=True):
    """A tool and about what it costs."""

    name: str
    tokens: int


class Budget(Struct, frozen=True):
    """How many tokens the kept tools may cost together."""

    most: int | None = None
    warn: int | None = None
    keep: tuple[Pattern, ...] = ()  # tools that are never suggested to be hidden

    def maybe_warning(self, costs: Iterable[Cost]) -> str | None:
        """What to say when the list costs more than one wants to hear of."""
        total = sum(cost.tokens for cost in costs)
        if self.warn is None or total <= self.warn:
            return None
        return f"The tool list costs about {total:,} tokens, more than --warn-tokens {self.warn:,}."

    def refuse_excess(self, costs: Iterable[Cost]) -> None:
        """Raises ToolListRefused, with a remedy, when the list costs too much."""
        costs = list(costs)
        total = sum(cost.tokens for cost in costs)
        if self.most is None or total <= self.most:
            return
        headline = f"The tool list costs about {total:,} tokens, more than --max-tokens {self.most:,}"
        hidden, left = self._remedy(costs, total, self.most)
        if left > self.most:
            raise ToolListRefused(headline, f"Without all but what --keep protects it is still {left:,}")
        raise ToolListRefused(headline, f"This fits ({left:,}): --deny '{pattern_for(hidden)}'")

    def _remedy(self, costs: list[Cost], left: int, most: int) -> tuple[list[str], int]:
        """The dearest tools, as few as will do, in the order of the list; and what is left then."""
        hidden = set()
        for cost in sorted(costs, key=lambda cost: -cost.tokens):
            if left <= most:
                break
            if not any(pattern.found_in(cost.name) for pattern in self.keep):
                hidden.add(cost.name)
                left -= cost.tokens
        for cost in sorted(costs, key=lambda cost: cost.tokens):  # what was hidden without need comes back
            if cost.name in hidden and left + cost.tokens <= most:
                hidden.discard(cost.name)
                left += cost.tokens
        return [cost.name for cost in costs if cost.name in hidden], left


def pattern_for(names: Iterable[str]) -> str:
    """One pattern that matches exactly `names`."""
    return f"^({'|'.join(_SPECIAL.sub(_escaped, name) for name in names)})$"


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
