"""A pattern as a tree, so that its repetitions can be judged before any engine sees it.

`read` takes every string there is. What RE2 would refuse is read as well as can be, because a pattern
that is both broken and dangerous shall be called dangerous; that it is broken is for RE2 to say.
"""

from __future__ import annotations

import re

from msgspec import Struct

from penstock import limits
from penstock.policy.patterns import char_sets
from penstock.policy.patterns.char_sets import ANYTHING, CharSet


class Char(Struct, frozen=True):
    """One character out of a set."""

    chars: CharSet


class Assertion(Struct, frozen=True):
    """Something that takes up no text: an anchor, or a lookaround with what it looks for."""

    seeks: Node | None = None


class Sequence(Struct, frozen=True):
    """One item after the other; without items, the empty text."""

    items: list[Node]


class Choice(Struct, frozen=True):
    """Any one of two or more options."""

    options: list[Node]


class Repeat(Struct, frozen=True):
    """An item `least` to `most` times; None is without end."""

    item: Node
    least: int
    most: int | None


Node = Char | Assertion | Sequence | Choice | Repeat


class Reading(Struct, frozen=True):
    """What was read: the tree, and what can be said of the pattern without looking into the tree."""

    tree: Node
    repetitions: int
    highest_count: int  # of what is more than one character
    has_loose_brace: bool  # a { that neither begins a count nor is escaped


class NestedTooDeeply(Exception):
    """Groups in groups past limits.PATTERN_NESTING, which is what lets this code recurse."""


def read(source: str) -> Reading:
    """The tree of `source`."""
    reader = _Reader(source)
    tree = reader.choice(depth=0)
    return Reading(tree, reader.repetitions, reader.highest_count, reader.has_loose_brace)


NAMED_CLASS = re.compile(r"\[:(\^?)([a-z]{1,8}):\]")
_COUNT = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")
_GROUP = re.compile(r"\(\?(?:P?<(?![=!])[^()>]*>|(?P<look><?[=!])|(?P<flags>[imsU-]*)(?P<end>[:)]))")
_CODE = re.compile(r"x(?:\{(?P<wide>[0-9A-Fa-f]+)\}|(?P<hex>[0-9A-Fa-f]{2}))|(?P<octal>[0-7]{1,3})")
_PROPERTY = re.compile(r"[pP](?:\{[^{}]*\}|.)", re.DOTALL)
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_NOT_NEWLINE = char_sets.complement(char_sets.char(10))


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.flags: frozenset[str] = frozenset()
        self.repetitions = 0
        self.highest_count = 0
        self.has_loose_brace = False
        self._end_of_repetition = -1

    def choice(self, depth: int) -> Node:
        if depth > limits.PATTERN_NESTING:
            raise NestedTooDeeply
        options = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Choice(options)

    def _sequence(self, depth: int) -> Node:
        items: list[Node] = []
        while self.at < len(self.source):
            sign = self.source[self.at]
            if sign == "|" or (sign == ")" and depth):
                break
            if sign in "*+?{" and self._repeated(items):
                continue
            if sign == "(":
                items.extend(self._group(depth))
            elif sign == "[":
                items.append(self._char(self._class()))
            elif sign == "\\":
                items.extend(self._escaped())
            else:
                self.at += 1
                items.append(self._plain(sign))
        return items[0] if len(items) == 1 else Sequence(items)

    def _plain(self, sign: str) -> Node:
        if sign in "^$":
            return Assertion()
        if sign == ".":
            return Char(ANYTHING if "s" in self.flags else _NOT_NEWLINE)
        if sign == "{":
            self.has_loose_brace = True
        return self._char(char_sets.char(ord(sign)))

    def _char(self, chars: CharSet) -> Char:
        return Char(char_sets.ignoring_case(chars) if "i" in self.flags else chars)

    def _is_one_character(self, items: list[Node], begin: int) -> bool:
        """Whether a single character or class is repeated here: every engine takes that in one go."""
        return bool(items) and isinstance(items[-1], Char) and begin != self._end_of_repetition

    def _repeated(self, items: list[Node]) -> bool:
        """Was there a repetition here? Then it is put around the last of `items`."""
        begin = self.at
        sign = self.source[begin]
        if sign == "{":
            count = _COUNT.match(self.source, begin)
            if count is None:
                return False
            self.at = count.end()
            least = self._number(count[1])
            most = least if count[2] is None else self._number(count[2]) if count[2] else None
            if not self._is_one_character(items, begin) or max(least, most or 0) > limits.PATTERN_COUNT:
                self.highest_count = max(self.highest_count, least, most or 0)
        else:
            self.at += 1
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        self._take("?")
        self.repetitions += 1
        # RE2 refuses a repetition right after another, but not once flags or an empty \Q\E stand between.
        if items and begin != self._end_of_repetition:
            items[-1] = Repeat(items[-1], least, most)
        self._end_of_repetition = self.at
        return True

    def _number(self, digits: str) -> int:
        # RE2 takes {01} for plain text while others count: nobody can mean the text.
        self.has_loose_brace |= len(digits) > 1 and digits.startswith("0")
        # Five digits are beyond every limit; int() refuses thousands of them.
        return int(digits.lstrip("0")[:5] or "0")

    def _group(self, depth: int) -> list[Node]:
        outer = self.flags
        head = _GROUP.match(self.source, self.at)
        self.at = head.end() if head else self.at + 1
        if head and head["flags"]:
            added, _, removed = head["flags"].partition("-")
            self.flags = (self.flags | set(added)) - set(removed)
        if head and head["end"] == ")":
            return []
        inside = self.choice(depth + 1)
        self._take(")")
        self.flags = outer
        return [Assertion(inside) if head and head["look"] else inside]

    def _escaped(self) -> list[Node]:
        letter = self.source[self.at + 1 : self.at + 2]
        if letter == "Q":
            quoted, _, _ = self.source[self.at + 2 :].partition("\\E")
            self.at += len(quoted) + 4
            return [self._char(char_sets.char(ord(sign))) for sign in quoted]
        if letter in ("b", "B", "A", "z", ""):
            self.at += 2
            return [Assertion()]
        return [self._char(self._escaped_set())]

    def _escaped_set(self) -> CharSet:
        """The set that the backslash here and what follows it stand for."""
        self.at += 1
        # Which characters have a property is not looked up: any might.
        if found := _PROPERTY.match(self.source, self.at):
            self.at = found.end()
            return ANYTHING
        if found := _CODE.match(self.source, self.at):
            self.at = found.end()
            code = int(found["octal"], 8) if found["octal"] else int(found["wide"] or found["hex"], 16)
            return char_sets.char(min(code, char_sets.LAST))
        letter = self.source[self.at : self.at + 1]
        self.at += 1
        if letter in char_sets.ESCAPED:
            return char_sets.ESCAPED[letter]
        return char_sets.char(_CONTROLS.get(letter) or ord(letter or "\\"))

    def _class(self) -> CharSet:
        self.at += 1
        is_negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        first = self.at
        while self.at < len(self.source) and (self.at == first or self.source[self.at] != "]"):
            ranges.extend(self._class_item())
        self.at += 1
        chars = char_sets.union(ranges)
        return char_sets.complement(chars) if is_negated else chars

    def _class_item(self) -> CharSet:
        named = NAMED_CLASS.match(self.source, self.at)
        if named and named[2] in char_sets.NAMED:
            self.at = named.end()
            chars = char_sets.NAMED[named[2]]
            return char_sets.complement(chars) if named[1] else chars
        low, is_one = self._class_char()
        if not is_one or not self.source.startswith("-", self.at):
            return low
        if self.source[self.at + 1 : self.at + 2] in ("]", ""):
            return low
        self.at += 1
        high, _ = self._class_char()
        return char_sets.union([(low[0][0], max(low[0][0], high[-1][1]))])

    def _class_char(self) -> tuple[CharSet, bool]:
        """The next member of a class, and whether it may begin a range."""
        sign = self.source[self.at]
        if sign != "\\":
            self.at += 1
            return char_sets.char(ord(sign)), True
        letter = self.source[self.at + 1 : self.at + 2]
        return self._escaped_set(), letter not in char_sets.ESCAPED and letter not in ("p", "P")

    def _take(self, sign: str) -> bool:
        """Is `sign` next? Then step over it."""
        if not self.source.startswith(sign, self.at):
            return False
        self.at += 1
        return True
