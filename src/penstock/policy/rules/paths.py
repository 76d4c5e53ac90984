"""Dotted paths into a message: `arguments.path`, `content.0.text`, `content.*.text`, `arguments.**.path`.

A step is the name of a member; in an array it is a number, counted from 0. `*` is every member or element.
`**` is any depth: before a name every member of that name, however deep it lies; at the end every value that
is neither an object nor an array. A dot within a name is written `\\.`, a backslash `\\\\`. Where a name
stands twice, both values are meant: a rule that looks at one of them would leave the other to whoever reads
the message next. For the same reason a name that some readers take for another (`PATH` for `path`) is meant,
what JavaScript may inherit through `__proto__`, and what stands in a text that holds JSON: servers of the
official SDKs read such a text as the object or array that it spells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from penstock.policy.rules import path_edits, path_finding
from penstock.policy.rules.path_edits import CannotSet, Change, Edit, spliced
from penstock.policy.rules.path_finding import DEEP, Span
from penstock.wire.json.json_walk import Budget

__all__ = ["BadPath", "CannotSet", "Change", "Edit", "Path", "Span", "Test", "parse_path", "spliced"]

MOST_STEPS = 64

Test = Callable[[bytes, Span], bool]
"""A question about the value at a place."""


class BadPath(ValueError):
    """The text is no path."""


class Path(Struct, frozen=True):
    """One dotted path."""

    source: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return self.source

    @property
    def is_deep(self) -> bool:
        """Whether it reaches any depth."""
        return DEEP in self.steps

    @property
    def is_uri(self) -> bool:
        """Whether what stands there is called a URI."""
        return self.steps[-1].lower() == "uri"

    def find(self, text: bytes, start: int, end: int) -> Iterator[Span]:
        """Every value that somebody could find at this path in the JSON value at text[start:end], but for
        those within texts."""
        return path_finding.find(text, Span(start, end), self.steps, Budget())

    def tokens(self, text: bytes, start: int, end: int, budget: Budget | None = None) -> list[bytes]:
        """The same as bytes, and with those within texts that hold JSON."""
        out: list[bytes] = []
        path_finding.tokens(text, Span(start, end), self.steps, budget or Budget(), out)
        return out

    def tokens_below(self, token: bytes, budget: Budget) -> list[bytes]:
        """The same, where `token` is what stands at the first step."""
        out: list[bytes] = []
        path_finding.tokens(token, Span(0, len(token)), self.steps[1:], budget, out)
        return out

    def sure(self, text: bytes, start: int, end: int, budget: Budget | None = None) -> list[bytes] | None:
        """Every value that somebody finds at this path, if everybody finds one there; else None. Where a star
        stands, that is for each part that has such a value."""
        out: list[bytes] = []
        is_sure = path_finding.gather(text, Span(start, end), self.steps, budget or Budget(), out)
        return out if is_sure else None

    def edits_to_set(self, text: bytes, start: int, end: int, value: bytes) -> list[Edit]:
        """What to change so that every value at this path is `value`; a missing member is added, unless the
        path reaches any depth.

        Raises CannotSet when the path leads through something that is no object or array.
        """
        if self.is_deep:
            return self.edits_to_change(text, start, end, lambda token: value)
        return list(path_edits.edits_to_set(text, Span(start, end), self.steps, value))

    def edits_to_remove(self, text: bytes, start: int, end: int) -> list[Edit]:
        """What to change so that nobody finds anything at this path."""
        return path_edits.outermost(path_edits.edits_to_remove(text, Span(start, end), self.steps, Budget()))

    def edits_to_change(self, text: bytes, start: int, end: int, change: Change) -> list[Edit]:
        """What to change so that every value at this path is what `change` makes of it, also within texts;
        None leaves a value as it is."""
        return path_edits.outermost(
            path_edits.edits_to_change(text, Span(start, end), self.steps, change, Budget())
        )


def parse_path(source: str) -> Path:
    """The path that `source` spells. Raises BadPath."""
    steps: list[str] = []
    step = ""
    at = 0
    while at < len(source):
        sign = source[at]
        if sign == "\\":
            at += 1
            if source[at : at + 1] not in (".", "\\"):
                raise BadPath(r"a backslash stands only before a dot or another backslash")
            step += source[at]
        elif sign == ".":
            steps.append(step)
            step = ""
        else:
            step += sign
        at += 1
    steps.append(step)
    if "" in steps:
        raise BadPath("a step is empty")
    if len(steps) > MOST_STEPS:
        raise BadPath(f"more than {MOST_STEPS} steps")
    if steps.count(DEEP) > 1:
        raise BadPath("** reaches any depth already, so it stands once at most")
    if DEEP in steps[:-1] and (after := steps[steps.index(DEEP) + 1]) and (after == "*" or after.isdigit()):
        raise BadPath("after ** comes the name of a member, or nothing")
    return Path(source, tuple(steps))
