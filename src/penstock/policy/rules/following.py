"""Which answers rules want to be remembered: for conditions about what came before, and for budgets."""

from __future__ import annotations

from typing import Any

from penstock.policy.exchange import Exchange
from penstock.policy.rules import tasks
from penstock.policy.rules.budget_action import Budget, tokens_of
from penstock.policy.rules.conditions import flattened
from penstock.policy.rules.effect_contract import Effects
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.flow_conditions import After, CopiedFrom
from penstock.policy.rules.message_parts import method_of
from penstock.policy.rules.rules import Rule
from penstock.wire.mcp.message import Message, read_upstream_message

METHODS = frozenset({tasks.BEGINS, *tasks.BRINGS})
"""What may bring the answer to a call."""


class Following:
    """Everything that some rules remember of answers. What cannot be remembered must not pass."""

    def __init__(self, conditions: list[After | CopiedFrom], budgets: list[tuple[Rule, Budget]]) -> None:
        self._conditions = conditions
        self._budgets = budgets

    def saw(self, message: Message, context: Context, effects: Effects) -> None:
        """An answer of the upstream's reaches the client."""
        method = method_of(message, context)
        if method == tasks.BEGINS:
            request = context.exchange.request if context.exchange is not None else None
            self._remember(message, request, context, effects)
        elif method in tasks.BRINGS:
            for late in tasks.late_answers(message, context):
                self._remember(late.message, late.request, context, effects)

    def saw_stored(self, raw: bytes, context: Context, effects: Effects) -> None:
        """An answer of ours reaches the client: one that was stored before."""
        message = read_upstream_message(raw)
        if isinstance(message, Message) and context.exchange is not None:
            self._remember(message, context.exchange.request, context, effects)

    def _remember(
        self, message: Message, request: Message | None, context: Context, effects: Effects
    ) -> None:
        names = [None] if request is None else [request.tool]
        for condition in self._conditions:
            if request is not None and isinstance(condition, CopiedFrom):
                condition.name(request, context)
        for condition in self._conditions:
            # Whose answer it is may not be known; then it may be anybody's.
            if names[0] is None or condition.tools.has(names[0]):
                condition.remember(message, context)
        for rule, budget in self._budgets:
            if request is None or _is_about(rule, request, context):
                effects.spend(budget.key(rule.id, context), tokens_of(message), budget.window)


def _is_about(rule: Rule, request: Message, context: Context) -> bool:
    asked = Context(
        context.session, "client", context.now, Exchange.of(request, context.now), wall=context.wall
    )
    return all(condition.holds(request, asked) for condition in rule.conditions)


def maybe_following(rules: tuple[Rule, ...]) -> Following | None:
    """What these rules want to be remembered; None when it is nothing."""
    conditions: list[Any] = []
    budgets: list[tuple[Rule, Budget]] = []
    for rule in rules:
        if rule.enabled:
            parts = flattened(rule.conditions)
            conditions += [part for part in parts if isinstance(part, After | CopiedFrom)]
            budgets += [(rule, action) for action in rule.actions if isinstance(action, Budget)]
    return Following(conditions, budgets) if conditions or budgets else None
