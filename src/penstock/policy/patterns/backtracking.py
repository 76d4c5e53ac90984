"""Telling which patterns would bring an engine that backtracks to its knees.

Ours never backtracks; but a pattern that only ours survives is a mistake that waits for the day it is
copied elsewhere. A repetition is safe here when there is only one way to go through its text:
nothing in it repeats, it never takes up no text, no option reads as the beginning of another, and a part
that may be missing does not begin like what may come after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from penstock import limits
from penstock.policy.patterns import char_sets
from penstock.policy.patterns.char_sets import CharSet
from penstock.policy.patterns.pattern_tree import Assertion, Char, Choice, Node, Reading, Repeat, Sequence

_InOption = tuple[int, range]  # a position, and all the positions of the option it is in
_END = -1  # stands where a position would, for the end of the repeated text


class _TwoWays(Exception):
    """A repeated text can be gone through in two ways, or it took too long to rule that out."""


def would_backtrack(reading: Reading) -> bool:
    """Would a backtracking engine be in trouble with this pattern?"""
    if max(reading.repetitions, reading.highest_count) > limits.PATTERN_REPEATS:
        return True
    judge = _Judge()
    try:
        for body in _repeated_bodies(reading.tree):
            judge.find_one_way_through(body)
    except _TwoWays:
        return True
    return False


def _repeated_bodies(tree: Node) -> Iterator[Node]:
    todo = [tree]
    while todo:
        node = todo.pop()
        match node:
            case Repeat(item, _, most):
                if most is None or most > 1:
                    yield item
                todo.append(item)
            case Sequence(parts) | Choice(parts):
                todo.extend(parts)
            case Assertion(seeks) if seeks is not None:
                todo.append(seeks)


class _Judge:
    """Lays what is repeated out as positions, each with its characters and the positions after it.

    Positions are laid from the back, so that what comes after is known; those of one node are neighbours.
    """

    def __init__(self) -> None:
        self._chars: list[CharSet] = []
        self._after: list[list[int]] = []
        self._optional: list[tuple[list[int], list[int]]] = []
        self._work = limits.PATTERN_WORK

    def find_one_way_through(self, body: Node) -> None:
        """Raise _TwoWays unless there is only one."""
        self._optional.clear()
        beginnings, _ = self._lay_something(body, [_END])
        for inside, behind in self._optional:
            again = beginnings if _END in behind else []
            if any(self._meet(one, other) for one in inside for other in (*behind, *again)):
                raise _TwoWays

    def _lay(self, node: Node, after: list[int]) -> list[int]:
        """Lay `node` down in front of `after`; the positions that may come first then."""
        match node:
            case Char(chars):
                self._chars.append(chars)
                self._after.append(after)
                return [len(self._chars) - 1]
            case Assertion() | Repeat(most=0):
                return after
            case Sequence(items):
                for item in reversed(items):
                    after = self._lay(item, after)
                return after
            case Choice(options):
                return self._lay_choice(options, after)
            case Repeat(item, 1, 1):
                return self._lay(item, after)
            case Repeat(item, 0, 1):
                inside, _ = self._lay_something(item, after)
                self._optional.append((inside, after))
                return [*inside, *after]
            case Repeat():
                raise _TwoWays

    def _lay_something(self, node: Node, after: list[int]) -> tuple[list[int], range]:
        """The same for a `node` that must take up text, with all the positions it got."""
        start = len(self._chars)
        firsts = self._lay(node, after)
        span = range(start, len(self._chars))
        if _leads_out_of(span, firsts):
            raise _TwoWays
        return firsts, span

    def _lay_choice(self, options: list[Node], after: list[int]) -> list[int]:
        front: set[_InOption] = set()
        for option in options:
            firsts, span = self._lay_something(option, after)
            front.update((first, span) for first in firsts)
        self._tell_apart(front)
        return [first for first, _ in front]

    def _tell_apart(self, front: set[_InOption]) -> None:
        """Read all options at once; while two of them read the same, neither may be at its end."""
        todo = [frozenset(front)]
        seen = set(todo)
        while todo:
            for alike in self._by_character(todo.pop()):
                if len({span for _, span in alike}) < 2:
                    continue
                if any(_leads_out_of(span, self._after[at]) for at, span in alike):
                    raise _TwoWays
                then = frozenset((next_, span) for at, span in alike for next_ in self._after[at])
                if then not in seen:
                    seen.add(then)
                    todo.append(then)

    def _by_character(self, front: frozenset[_InOption]) -> set[frozenset[_InOption]]:
        """For each character, those that can take it."""
        begins, ends = defaultdict(list), defaultdict(list)
        for member in front:
            for low, high in self._chars[member[0]]:
                begins[low].append(member)
                ends[high + 1].append(member)
        takers: set[_InOption] = set()
        found = set()
        for edge in sorted(begins.keys() | ends.keys()):
            takers.difference_update(ends[edge])
            takers.update(begins[edge])
            self._spend(len(takers) + 1)
            found.add(frozenset(takers))
        return found

    def _meet(self, one: int, other: int) -> bool:
        """Can both positions take the same character?"""
        if _END in (one, other):
            return False
        self._spend(len(self._chars[one]) + len(self._chars[other]))
        return char_sets.share(self._chars[one], self._chars[other])

    def _spend(self, steps: int) -> None:
        self._work -= steps
        if self._work < 0:
            raise _TwoWays


def _leads_out_of(span: range, positions: list[int]) -> bool:
    return any(position not in span for position in positions)
