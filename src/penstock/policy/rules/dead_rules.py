"""Rules that can never do anything, however the messages look, and why: for `penstock check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.policy.rules.actions import Allow, Block, InjectError
from penstock.policy.rules.conditions import All, Any_, Not
from penstock.policy.rules.param_conditions import ParamEquals, ParamGreaterThan, ParamIn, ParamLessThan
from penstock.policy.rules.response_conditions import (
    RESPONSE_CONDITIONS,
    ResultEquals,
    ResultGreaterThan,
    ResultIn,
    ResultLessThan,
)
from penstock.policy.rules.rules import METHOD_CONDITIONS, Rule, RuleSet, methods_named
from penstock.wire.mcp.methods import FROM_CLIENTS, FROM_UPSTREAMS

_OF_RESPONSES = tuple(RESPONSE_CONDITIONS.values())
_ABOVE = (ParamGreaterThan, ResultGreaterThan)
_BELOW = (ParamLessThan, ResultLessThan)
_SAME = (ParamEquals, ResultEquals)
_LISTED = (ParamIn, ResultIn)


def maybe_why_dead(rule: Rule, rules: Iterable[Rule], is_fail_fast: bool) -> str | None:
    """Why the rule never fires; None when it may."""
    conditions = tuple(_together(rule.conditions))
    return (
        _contradiction(conditions)
        or _wrong_side(rule, conditions)
        or (_shadow(rule, conditions, rules) if is_fail_fast else None)
    )


def _together(conditions: Iterable[Any]) -> Iterator[Any]:
    """The conditions that must all hold, those within `all` included."""
    for condition in conditions:
        if isinstance(condition, All):
            yield from _together(condition.conditions)
        else:
            yield condition


def _contradiction(conditions: tuple[Any, ...]) -> str | None:
    if any(isinstance(part, Any_) and not part.conditions for part in conditions):
        return "any of nothing never holds"
    if methods_named(All(conditions)) == frozenset():
        return "no message has all of these methods"
    for part in conditions:
        if isinstance(part, Not) and part.condition in conditions:
            return "one condition is the opposite of another"
    values: dict[tuple[bool, str], list[Any]] = {}
    for part in conditions:
        if isinstance(part, _ABOVE + _BELOW + _SAME + _LISTED) and "*" not in str(part.field):
            is_param = type(part).__name__.startswith("Param")
            values.setdefault((is_param, str(part.field)), []).append(part)
    for (_, field), parts in values.items():
        if not _can_all_hold(parts):
            return f"no value of {field} meets all of its conditions"
    return None


def _can_all_hold(parts: list[Any]) -> bool:
    above = max((part.value for part in parts if isinstance(part, _ABOVE)), default=float("-inf"))
    below = min((part.value for part in parts if isinstance(part, _BELOW)), default=float("inf"))
    allowed: list[list[Any]] = [[part.value] for part in parts if isinstance(part, _SAME)]
    allowed += [list(part.values) for part in parts if isinstance(part, _LISTED)]
    if above >= below:
        return False
    if not allowed:
        return True
    is_bounded = any(isinstance(part, _ABOVE + _BELOW) for part in parts)
    return any(
        all(any(_is_same(value, other) for other in values) for values in allowed)
        and (not is_bounded or _may_be_between(value, above, below))
        for value in allowed[0]
    )


def _may_be_between(value: object, above: float, below: float) -> bool:
    """Whether some server could take it for a number between these."""
    try:
        return above < float(value) < below  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _is_same(one: object, other: object) -> bool:
    return one == other or type(one) is not type(other)  # "1" is 1 and true to some servers


def _wrong_side(rule: Rule, conditions: tuple[Any, ...]) -> str | None:
    """Whose messages it looks at, and that they are never so."""
    methods = methods_named(All(conditions))
    is_of_responses = any(isinstance(part, _OF_RESPONSES) for part in conditions)
    if methods is None or not methods:
        return None
    if rule.senders == ("client",) and is_of_responses and methods <= FROM_CLIENTS - FROM_UPSTREAMS:
        return "it looks at what the client sends, but the upstream answers these: direction: upstream"
    if not all(method.startswith("notifications/") for method in methods):
        return None
    if is_of_responses:
        return "nobody answers a notification, so it has no result and no error"
    if rule.senders == ("client",) and methods <= FROM_UPSTREAMS - FROM_CLIENTS:
        return "only the upstream sends these: direction: upstream"
    if rule.senders == ("upstream",) and methods <= FROM_CLIENTS - FROM_UPSTREAMS:
        return "only the client sends these: direction: client"
    return None


def _shadow(rule: Rule, conditions: tuple[Any, ...], rules: Iterable[Rule]) -> str | None:
    """An earlier rule that ends the chain for everything that this one could hold for."""
    for earlier in RuleSet(rules).rules:
        if earlier.id == rule.id:
            return None
        if not set(rule.senders) <= set(earlier.senders):
            continue
        needed = tuple(_together(earlier.conditions))
        if not all(part in conditions for part in needed):
            continue
        if any(isinstance(action, Block | InjectError) for action in earlier.actions):
            return f'the rule "{earlier.id}" comes first and blocks all that it could hold for'
        # A rule that allows is sure of what it allows; where that depends on values, another may still hold.
        is_plain = all(isinstance(part, METHOD_CONDITIONS) for part in needed)
        allows = any(isinstance(action, Allow) for action in earlier.actions)
        if allows and is_plain and earlier.priority > rule.priority:
            return f'the rule "{earlier.id}" comes first and allows all that it could hold for'
    return None
