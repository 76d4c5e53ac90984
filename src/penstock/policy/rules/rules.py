"""Rules, in the order in which they run, and which of them a message has to be shown to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import Struct

from penstock import limits
from penstock.policy.binder import Json, Misread, Seconds
from penstock.policy.rules.actions import (
    Allow,
    Block,
    InjectError,
    ManyActions,
    SetResult,
    changes,
    only_tells,
    waits,
)
from penstock.policy.rules.conditions import (
    All,
    Any_,
    ManyConditions,
    MethodEndsWith,
    MethodEquals,
    MethodIn,
    MethodMatches,
    MethodStartsWith,
    Not,
    flattened,
)
from penstock.policy.rules.exchange import Direction
from penstock.policy.rules.response_conditions import RESPONSE_CONDITIONS
from penstock.policy.rules.tool_conditions import CALL, Tool, ToolAnnotation

METHOD_CONDITIONS = (MethodEquals, MethodStartsWith, MethodEndsWith, MethodMatches, MethodIn)
_OF_RESPONSES = tuple(RESPONSE_CONDITIONS.values())


class Rule(Struct, frozen=True):
    """Conditions that must all hold, and actions that are then all done, in order."""

    id: Annotated[str, "id"]
    actions: ManyActions
    conditions: ManyConditions = ()
    name: str = ""
    enabled: bool = True
    priority: int = 0
    metadata: Json = None
    direction: Literal["client", "upstream", "both"] | None = None
    opaque: bool = False
    shared: bool = True  # whether counts and caches hold for all instances, where instances share
    when_down: Literal["block", "divide", "local"] | None = None
    lease: Seconds | None = None  # for so long an instance may have places of a limit in hand

    def __post_init__(self) -> None:
        if not self.id:
            raise Misread("id is empty")
        if not self.actions:
            raise Misread("has no actions, so it would do nothing")
        if self.allows and any(isinstance(action, Block | InjectError) for action in self.actions):
            raise Misread("both allows and blocks")
        if self.lease is not None and self.lease > 1:
            raise Misread("has a lease of more than 1s")

    @property
    def allows(self) -> bool:
        """Whether it lets messages pass that later rules might stop; then it must be sure of them."""
        return any(isinstance(action, Allow) for action in self.actions)

    @property
    def waits(self) -> bool:
        """Whether any of its actions has to be waited for."""
        return any(waits(action) for action in self.actions)

    @property
    def is_independent(self) -> bool:
        """Whether it decides nothing by itself, so that others can be asked at the same time."""
        return all((waits(action) and not changes(action)) or only_tells(action) for action in self.actions)

    @property
    def senders(self) -> tuple[Direction, ...]:
        """Whose messages it looks at; if it does not say: the upstream's if it speaks of results."""
        if self.direction == "both":
            return ("client", "upstream")
        if self.direction is not None:
            return (self.direction,)
        speaks_of_results = any(isinstance(part, _OF_RESPONSES) for part in flattened(self.conditions))
        sets_results = any(isinstance(action, SetResult) for action in self.actions)
        return ("upstream",) if speaks_of_results or sets_results else ("client",)


class RuleSet:
    """All enabled rules, found by method; a method that no rule names costs one lookup."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        # Sorting keeps the order of the file among rules of equal priority.
        self.rules = tuple(sorted((r for r in rules if r.enabled), key=lambda rule: -rule.priority))
        self._place = {rule.id: place for place, rule in enumerate(self.rules)}
        self._named: dict[tuple[str, Direction], list[Rule]] = {}
        self._open: dict[Direction, list[Rule]] = {"client": [], "upstream": []}
        self._known: dict[tuple[str | None, Direction], tuple[Rule, ...]] = {}
        for rule in self.rules:
            names = methods_named(All(rule.conditions))
            for sender in rule.senders:
                if names is None:
                    self._open[sender].append(rule)
                for name in names or ():
                    self._named.setdefault((name, sender), []).append(rule)

    def rules_for(self, method: str | None, direction: Direction) -> tuple[Rule, ...]:
        """The rules that could hold for a message with this method, in the order in which they run."""
        known = self._known.get((method, direction))
        if known is not None:
            return known
        found = [
            rule for rule in self._open[direction] if about_method(All(rule.conditions), method) is not False
        ]
        if method is not None:
            found += self._named.get((method, direction), ())
        rules = tuple(sorted(found, key=lambda rule: self._place[rule.id]))
        if len(self._known) < limits.KNOWN_METHODS and len(method or "") <= limits.NAME_LENGTH:
            self._known[method, direction] = rules
        return rules


def methods_named(condition: Any) -> frozenset[str] | None:
    """The only methods for which the condition can hold; None when it names none."""
    if isinstance(condition, MethodEquals):
        return frozenset({condition.name})
    if isinstance(condition, MethodIn):
        return frozenset(condition.names)
    if isinstance(condition, Tool | ToolAnnotation):
        return frozenset({CALL})
    if isinstance(condition, All):
        named = [names for part in condition.conditions if (names := methods_named(part)) is not None]
        return frozenset.intersection(*named) if named else None
    if isinstance(condition, Any_):
        each = [methods_named(part) for part in condition.conditions]
        return frozenset().union(*(names or () for names in each)) if None not in each else None
    return None


def about_method(condition: Any, method: str | None) -> bool | None:
    """What the method alone says about the condition; None when it depends on more."""
    if isinstance(condition, METHOD_CONDITIONS):
        return condition.holds(_OnlyMethod(method), _NO_CONTEXT)  # type: ignore[arg-type]
    if isinstance(condition, Not):
        inner = about_method(condition.condition, method)
        return None if inner is None else not inner
    if isinstance(condition, All | Any_):
        each = [about_method(part, method) for part in condition.conditions]
        decisive = isinstance(condition, Any_)
        if decisive in each:
            return decisive
        return None if None in each else not decisive
    return None


class _OnlyMethod(Struct, frozen=True):
    method: str | None


class _NoContext(Struct, frozen=True):
    exchange: None = None


_NO_CONTEXT = _NoContext()
