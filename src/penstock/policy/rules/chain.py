"""The chain that a message goes through: method interceptors, rules, general interceptors.

Written once, as a coroutine. Where nothing in it waits it is run to its end in one go, like any function.
"""

from __future__ import annotations

import logging
import types
from collections import deque
from collections.abc import Generator
from typing import Any

from msgspec import Struct

from penstock import limits
from penstock.policy.rules.actions import changes, only_tells, waits
from penstock.policy.rules.cache_action import Cache
from penstock.policy.rules.custom_interceptors import Custom
from penstock.policy.rules.effect_actions import Webhook
from penstock.policy.rules.effect_contract import EffectVerdict
from penstock.policy.rules.interceptor_config import Chain
from penstock.policy.rules.param_conditions import ParamMatches
from penstock.policy.rules.plan import Check, Plan
from penstock.policy.rules.response_conditions import ResultMatches
from penstock.policy.rules.rule_run import Allowed, RuleRun, Stop
from penstock.policy.rules.rules import Rule
from penstock.wire.json.json_walk import Broken, TooMany

log = logging.getLogger("penstock")

FAILED = "Blocked because a rule could not be carried out"
TOO_LATE = "Blocked because the rules took too long"
UNSPOKEN = "Not allowed by any rule"
UNKNOWN_TASK = "Blocked because it is not known which request began the task"


class Unreadable(Exception):
    """The conditions of a rule could not be asked of a message."""


Asked = dict[tuple[str, int], tuple[bytes, Any]]
"""Answers asked for ahead of their turn, by rule and action, with the bytes they were asked about."""


@types.coroutine
def breathe() -> Generator[None, None, None]:
    """Lets everybody else have a turn, whoever runs this."""
    yield


class Blocked(Struct, frozen=True):
    """Who stopped the message, and why."""

    rule: str
    stop: Stop
    is_opaque: bool = False


class Walk:
    """One message's way through the chain. What was decided stands here, even if it is cut short."""

    def __init__(self, scene: RuleRun, plan: Plan, chain: Chain, is_reviewed: bool, is_asking: bool) -> None:
        """`is_asking`: it wants something done, so it is no answer and no mere piece of news."""
        self._scene = scene
        self._plan = plan
        self._chain = chain
        self._failure_blocks = is_reviewed or chain.default_action.log == "block"
        self._is_unspoken = plan.denies and is_asking
        self.blocked: Blocked | None = None
        self.answer: Blocked | None = None
        self._asked: Asked = {}
        self._is_long = len(scene.message.raw) > limits.LONG_MESSAGE or len(plan.rules) > limits.MANY_RULES
        now = scene.effects.clock() if self._is_long else 0.0
        self._rests_at = now + limits.RULES_TURN_SECONDS
        self._ends_at = now + chain.timeout

    async def go(self) -> None:
        """All stages, in order, until one ends it."""
        for guard in self._plan.guards:
            if await self._hear(guard, 0):
                return
        ended_at = None
        seen = self._scene.message
        due = deque(self._plan.due(seen, self._scene.context))
        while due:
            place = due.popleft()
            rule = self._plan.rules[place]
            if ended_at is not None and rule.priority < ended_at:
                break  # rules of the same priority are still heard: if they disagree, block wins
            live_rules = await self._apply(place)
            if isinstance(live_rules, Stop) and self._stopped(Blocked(rule.id, live_rules, rule.opaque)):
                return
            if isinstance(live_rules, Allowed) and self._chain.fail_fast:
                ended_at = rule.priority
            if self._scene.message is not seen:
                seen = self._scene.message
                due = deque(later for later in self._plan.due(seen, self._scene.context) if later > place)
        if self._is_unspoken and not self._plan.guards:
            self._stopped(Blocked("default_action", Stop("block", UNSPOKEN)))
        if ended_at is not None or (self.blocked and self._chain.fail_fast):
            return
        await self._ask_generals_ahead()
        for number, custom in enumerate(self._plan.generals):
            if await self._hear(custom, number):
                return

    def ran_out(self) -> None:
        """The chain took too long."""
        log.error("The rules took longer than %g s for one message.", self._chain.timeout)
        if self._failure_blocks:
            self._stopped(Blocked(self._scene.rule or "chain", Stop("timeout", TOO_LATE)))

    def failed(self, why: Exception) -> Stop | None:
        """What becomes of the message when a rule or interceptor fails. Details are for the log alone.

        Too much to look at is the sender's doing: it never opens what a rule would have shut."""
        log.error("Rule %s failed: %s: %s", self._scene.rule, type(why).__name__, why)
        is_unseen = isinstance(why, TooMany | Broken | Unreadable)
        return Stop("error", FAILED) if self._failure_blocks or is_unseen else None

    def _stopped(self, found: Blocked) -> bool:
        """Takes note of a stop; True when nobody else has to be heard."""
        if found.stop.is_answer:
            # A rule further down may still block what the cache would answer.
            self.answer = self.answer or found
            return False
        self.blocked = self.blocked or found
        return self._chain.fail_fast

    async def _hear(self, custom: Custom, number: int) -> bool:
        self._scene.rule = custom.id
        try:
            verdict = await self._verdict_of(custom, number)
            stop = None if verdict is None else self._scene.take(verdict, custom.class_name)
        except Exception as why:
            stop = self.failed(why)
        return stop is not None and self._stopped(Blocked(custom.id, stop))

    async def _verdict_of(self, custom: Custom, number: int) -> EffectVerdict | None:
        scene = self._scene
        raw, asked = self._asked.pop((custom.id, number), (b"", None))
        if raw and raw == scene.message.raw:
            if isinstance(asked, Exception):
                raise asked
        else:
            asked = await custom.asked(scene)
        if asked is not None and not isinstance(asked, EffectVerdict):
            raise TypeError(f"it gave back a {type(asked).__name__}, not an EffectVerdict")
        return asked

    async def _apply(self, place: int) -> Stop | Allowed | None:
        """Does all actions of a rule whose conditions hold, in order; a stop outweighs an allow."""
        scene, check = self._scene, self._plan.checks[place]
        rule = check.rule
        scene.rule = rule.id
        try:
            if not await self._holds(check):
                return None
            # Where silence blocks, a rule speaks only about what its conditions hold for whoever reads it.
            if self._is_unspoken:
                self._is_unspoken = not check.holds(scene.message, scene.context, every=True)
        except TimeoutError:
            raise
        except Exception as why:
            return self.failed(Unreadable(f"{type(why).__name__}: {why}"))
        scene.held.append(rule.id)
        if scene.context.exchange is not None:
            scene.context.exchange.intercepted = True
        if self._chain.is_parallel and rule.waits:
            await self._ask_ahead(place)
        live_rules: Stop | Allowed | None = None
        for number, action in enumerate(rule.actions):
            is_stopped = isinstance(live_rules, Stop) and not live_rules.is_answer
            if is_stopped and (isinstance(action, Cache) or (isinstance(action, Webhook) and action.wait)):
                continue  # no use in asking about what is blocked anyway
            try:
                step = await self._step(rule, number, action)
            except Exception as why:
                step = self.failed(why)
            if step is not None and not is_stopped:
                live_rules = step if isinstance(step, Stop) or live_rules is None else live_rules
        return live_rules

    async def _holds(self, check: Check) -> bool:
        """Whether a rule's conditions hold. If it takes long, others get their turn between any two."""
        scene = self._scene
        for condition in check.conditions:
            if self._is_long:
                await self._let_others()
                if isinstance(condition, ParamMatches | ResultMatches) and not check.allows:
                    # To find the texts takes as long as to search them: that is two turns.
                    condition.find(scene.message, scene.context)
                    await self._let_others()
            if not condition.holds(scene.message, scene.context, check.allows):
                return False
        return True

    async def _let_others(self) -> None:
        now = self._scene.effects.clock()
        if now < self._rests_at:
            return
        await breathe()
        if now > self._ends_at:
            raise TimeoutError
        self._rests_at = self._scene.effects.clock() + limits.RULES_TURN_SECONDS

    async def _step(self, rule: Rule, number: int, action: Any) -> Stop | Allowed | None:
        scene = self._scene
        if not waits(action):
            found: Stop | Allowed | None = action.apply(scene)
            return found
        raw, verdict = self._asked.pop((rule.id, number), (b"", None))
        if raw != scene.message.raw:
            verdict = await action.ask(scene)
        elif isinstance(verdict, Exception):
            raise verdict
        return verdict if isinstance(verdict, Stop) else scene.take(verdict, action.name)

    async def _ask_ahead(self, place: int) -> None:
        """Asks at once what this rule and the independent ones after it will ask.

        The answers are taken in order, and only if the message is still the one they were asked about.
        """
        scene = self._scene
        wanted: list[tuple[tuple[str, int], Any]] = []
        for number_of_rule in range(place, len(self._plan.rules)):
            rule = self._plan.rules[number_of_rule]
            try:
                check = self._plan.checks[number_of_rule]
                is_due = number_of_rule == place or check.holds(scene.message, scene.context)
            except Exception:
                break  # it will fail in its turn
            if not is_due:
                continue
            for number, action in enumerate(rule.actions):
                if changes(action):
                    break
                if waits(action) and (rule.id, number) not in self._asked:
                    wanted.append(((rule.id, number), action.ask(scene.seen_by(rule.id))))
                elif not waits(action) and not only_tells(action):
                    break
            if not rule.is_independent:
                break
        await self._ask_all(wanted)

    async def _ask_generals_ahead(self) -> None:
        slow = [(number, custom) for number, custom in enumerate(self._plan.generals) if custom.waits]
        if not self._chain.is_parallel or len(slow) < 2:
            return
        scene = self._scene
        wanted = [((custom.id, number), custom.asked(scene)) for number, custom in slow]
        await self._ask_all(wanted)

    async def _ask_all(self, wanted: list[tuple[tuple[str, int], Any]]) -> None:
        raw = self._scene.message.raw
        if not wanted:
            return
        answers = await self._scene.effects.together([work for _, work in wanted])
        for (key, _), answer in zip(wanted, answers, strict=True):
            self._asked[key] = (raw, answer)
