"""Which tools a client may see and call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from penstock.wire.mcp.replies import TOOL_NOT_FOUND

if TYPE_CHECKING:
    from penstock.policy.tools.budget import Budget
    from penstock.policy.tools.tool_lock import ToolLock


class Pattern(Protocol):
    """What the filter needs of a pattern."""

    @property
    def source(self) -> str: ...

    def found_in(self, text: str) -> bool: ...


class Denial(Struct, frozen=True):
    """Why a tool is hidden."""

    option: str  # the option that hid it
    pattern: str | None  # the pattern that matched, where there is one

    def __str__(self) -> str:
        if self.pattern is None:
            return self.option
        return f"{self.option} {self.pattern}"


NOT_THERE_AT_FIRST = Denial("not there when the list was frozen; --refresh-tools follows changes", None)

ORDERS = ("upstream", "lock", "name")
NOT_ALLOWED = Denial("no --allow pattern matches", None)
NOT_READ_ONLY = Denial("--read-only", None)
NOT_ANNOTATED = Denial("--read-only: it has no readOnlyHint", None)


class ToolFilter(Struct, frozen=True):
    """The user's choice of tools: denied ones never, allowed ones only, read-only ones only; and whether
    their arguments must have the declared types."""

    deny: tuple[Pattern, ...] = ()
    allow: tuple[Pattern, ...] = ()
    read_only: bool = False
    strict_arguments: bool = False
    lock: ToolLock | None = None  # only tools that are as they were locked
    budget: Budget | None = None  # what they may cost together
    deny_code: int = TOOL_NOT_FOUND  # the code of "Tool not found"
    order: str = "upstream"  # of the list: the upstream's, the lock's, or by name
    also: ToolFilter | None = None  # a profile's own choice: what either hides is hidden

    @property
    def is_active(self) -> bool:
        """Whether any tool could be hidden, any call or the whole list refused, or the list put in order."""
        names = self.deny or self.allow or self.read_only or self.strict_arguments
        is_narrowed = self.also is not None and self.also.is_active
        return bool(names or self.lock or self.budget or self.order != "upstream" or is_narrowed)

    def maybe_denial(self, name: str, is_read_only: bool) -> Denial | None:
        """Why the tool called `name` is hidden; None when it is kept."""
        spellings = _spellings(name)
        for pattern in self.deny:
            if any(map(pattern.found_in, spellings)):
                return Denial("--deny", pattern.source)
        if self.allow and not any(all(map(pattern.found_in, spellings)) for pattern in self.allow):
            return NOT_ALLOWED
        if self.read_only and not is_read_only:
            return NOT_READ_ONLY
        return None if self.also is None else self.also.maybe_denial(name, is_read_only)

    def unmatched(self, names: list[str]) -> list[str]:
        """The patterns that match none of `names`: most likely a slip of the user's."""
        spelt = [spelling for name in names for spelling in _spellings(name)]
        slips = [
            f"{option} {pattern.source}"
            for option, patterns in (("--deny", self.deny), ("--allow", self.allow))
            for pattern in patterns
            if not any(map(pattern.found_in, spelt))
        ]
        return slips if self.also is None else slips + self.also.unmatched(names)


def _spellings(name: str) -> tuple[str, ...]:
    # A name may come decomposed (e + accent) and the pattern composed, or the other way round; people
    # cannot see the difference, so a tool must not slip through by it.
    if name.isascii():
        return (name,)
    import unicodedata  # a table of 1 MB that plain names never need

    return tuple({name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)})
