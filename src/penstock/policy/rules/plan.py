"""What messages of one method and direction have to pass, worked out once.

What the method alone decides is decided here, and rules that ask for certain texts at a path are found by the
text: a message meets only those rules that its values name, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from penstock.policy.rules.custom_interceptors import Custom
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.message_parts import params_of
from penstock.policy.rules.paths import Path
from penstock.policy.rules.rules import Rule, about_method
from penstock.wire.mcp.message import Message


class Check(Struct, frozen=True):
    """What is left to ask of a message before a rule is carried out."""

    rule: Rule
    conditions: tuple[Any, ...]  # without those that the method has answered
    allows: bool

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        """Whether all of it holds; with `every`, or if the rule allows: whoever reads the message."""
        every = every or self.allows
        for condition in self.conditions:  # noqa: SIM110 (a generator would cost more than the conditions)
            if not condition.holds(message, context, every):
                return False
        return True


class TextIndex(Struct, frozen=True):
    """The places of the rules that ask for certain texts at one path, by text."""

    path: Path
    places: dict[str, tuple[int, ...]]


class Plan(Struct, frozen=True):
    """Everything that messages of one method and direction have to pass."""

    guards: tuple[Custom, ...] = ()
    rules: tuple[Rule, ...] = ()
    checks: tuple[Check, ...] = ()
    generals: tuple[Custom, ...] = ()
    waits: bool = False
    is_stored: bool = False  # a rule may want to keep the response
    may_carry: bool = False  # it may hold messages of other methods
    denies: bool = False  # what no rule speaks about is blocked
    is_empty: bool = True
    open: tuple[int, ...] = ()  # rules that every message has to be shown to
    indexes: tuple[TextIndex, ...] = ()

    @property
    def has_stages(self) -> bool:
        """Whether there is somebody to ask."""
        return bool(self.guards or self.rules or self.generals)

    @property
    def is_rules_only(self) -> bool:
        """Whether nothing but a rule that holds could make a difference."""
        return not (
            self.guards or self.generals or self.waits or self.is_stored or self.may_carry or self.denies
        )

    @property
    def is_one_rule(self) -> bool:
        """Whether one rule decides, and nobody else is asked before or after it."""
        others = self.guards or self.generals or self.is_stored or self.may_carry or self.denies
        return len(self.rules) == 1 and not others

    def due(self, message: Message, context: Context) -> Sequence[int]:
        """The places of the rules that may hold, in their order. All, where it cannot be told."""
        if not self.indexes:
            return self.open
        found: set[int] = set()
        try:
            for index in self.indexes:
                place = params_of(message, context)
                texts = () if place is None else place.found(index.path).texts
                for text in texts:
                    if text in index.places:
                        found.update(index.places[text])
        except ValueError:  # more than may be looked at: each rule will say so in its turn
            return range(len(self.rules))
        return sorted(found.union(self.open)) if found else self.open


def make_checks(rules: tuple[Rule, ...], method: str | None, is_transport: bool) -> tuple[Check, ...]:
    """What is left to ask for each rule once the method is known."""
    return tuple(
        Check(
            rule,
            tuple(
                condition
                for condition in rule.conditions
                if is_transport or about_method(condition, method) is not True
            ),
            rule.allows,
        )
        for rule in rules
    )


def index_of(checks: tuple[Check, ...]) -> tuple[tuple[int, ...], tuple[TextIndex, ...]]:
    """The places of the rules that are not found by a text, and those that are."""
    is_open: list[int] = []
    by_path: dict[str, tuple[Path, dict[str, list[int]]]] = {}
    for place, check in enumerate(checks):
        asked = next((found for found in map(_texts_asked, check.conditions) if found is not None), None)
        if asked is None:
            is_open.append(place)
            continue
        path, texts = asked
        _, places = by_path.setdefault(path.source, (path, {}))
        for text in texts:
            places.setdefault(text, []).append(place)
    indexes = tuple(
        TextIndex(path, {text: tuple(found) for text, found in places.items()})
        for path, places in by_path.values()
    )
    return tuple(is_open), indexes


def _texts_asked(condition: Any) -> tuple[Path, tuple[str, ...]] | None:
    """The path and the only texts there for which the condition can hold; None when it asks otherwise."""
    asked = getattr(condition, "texts_asked", None)
    return None if asked is None else asked()
