"""The interceptor: what becomes of each message under the rules. Pure: what waits is asked of `Effects`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine, Generator

from msgspec import structs

from penstock import limits
from penstock.errors import ProtocolError
from penstock.policy.exchange import Exchange, Session
from penstock.policy.patterns.pattern_sets import PatternSet
from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules import embedded, tasks, tool_annotations
from penstock.policy.rules.cache_action import Cache, store_answer
from penstock.policy.rules.chain import FAILED, UNKNOWN_TASK, Blocked, Walk
from penstock.policy.rules.conditions import MethodEquals, MethodIn, flattened
from penstock.policy.rules.effect_contract import (
    ALLOWED,
    Effects,
    EffectVerdict,
    ForkSpec,
    ScriptSpec,
    WebhookSpec,
)
from penstock.policy.rules.exchange import Context, Direction
from penstock.policy.rules.following import METHODS as FOLLOWED
from penstock.policy.rules.following import maybe_following
from penstock.policy.rules.found import PatternSets
from penstock.policy.rules.interceptor_config import InterceptorConfig
from penstock.policy.rules.message_parts import begin_looking, member_place, method_of
from penstock.policy.rules.method_classes import REVIEWED
from penstock.policy.rules.param_conditions import ParamMatches
from penstock.policy.rules.paths import Edit
from penstock.policy.rules.plan import Plan, index_of, make_checks
from penstock.policy.rules.refusals import refusal
from penstock.policy.rules.response_conditions import ResultMatches
from penstock.policy.rules.rule_run import RuleFailed, RuleRun, Stop
from penstock.policy.rules.rules import Rule, RuleSet
from penstock.policy.rules.tool_conditions import ToolAnnotation
from penstock.policy.verdict import FORWARD, Answer, Decided, Drop, Forward, Why, Word
from penstock.wire.json.ambiguity import as_lax_readers_see
from penstock.wire.mcp.message import METHOD_NOT_FOUND, Kind, Message
from penstock.wire.mcp.replies import error_code, result_reply

__all__ = [
    "ALLOWED",
    "Context",
    "Direction",
    "EffectVerdict",
    "Effects",
    "Exchange",
    "ForkSpec",
    "Interceptor",
    "ScriptSpec",
    "Session",
    "WebhookSpec",
]

log = logging.getLogger("penstock")

_NOTHING = Plan()
_LOOK_ALIKE = Plan(is_empty=False)
_ASKED_WITHIN = ("sampling/createMessage", "elicitation/create", "roots/list")


def _edit_of(late: tasks.LateAnswer, changed: Message, whole: Message) -> Edit:
    """What to change in the message that brings it, where the rules have changed what a task brings."""
    if late.span is None:
        return 0, len(whole.raw), changed.raw
    place = member_place(changed, "result") or member_place(changed, "error")
    if place is None:
        raise RuleFailed("what it made of the answer is none")
    return late.span.start, late.span.end, changed.raw[place.start : place.end]


def _methods_spoken_of(config: InterceptorConfig) -> frozenset[str]:
    """The methods that somebody might be after with another spelling."""
    names = set(REVIEWED) | {name for name, _ in config.guards} | {name for name, _ in config.classes.own}
    for custom in config.generals:
        names |= custom.methods or frozenset()
    for rule in config.rules:
        for part in flattened(rule.conditions):
            if isinstance(part, MethodEquals):
                names.add(part.name)
            elif isinstance(part, MethodIn):
                names.update(part.names)
    return frozenset(name for name in names if not name.endswith("*"))


class _Rest:
    """What is left of a chain that nothing waits in, but that takes long: a turn of it at a time."""

    def __init__(self, work: Coroutine[None, None, Decided]) -> None:
        self._work = work

    def __await__(self) -> Generator[None, None, Decided]:
        try:
            while True:
                yield
                self._work.send(None)
        except StopIteration as done:
            outcome: Decided = done.value
            return outcome
        finally:
            self._work.close()


def _nothing_holds(message: Message, context: Context, plan: Plan) -> bool:
    """Whether no rule holds for the message, as far as that can be told at once."""
    if len(message.raw) > limits.LONG_MESSAGE or len(plan.rules) > limits.MANY_RULES:
        return False
    try:
        for place in plan.due(message, context):
            if plan.checks[place].holds(message, context):
                return False
    except Exception:  # whoever asks in earnest says what to do about it
        return False
    return True


def _patterns_by_path(rules: tuple[Rule, ...]) -> PatternSets:
    """The patterns that are looked for at each path, so that they can be looked for together."""
    found: dict[str, list[Pattern]] = {}
    for rule in rules:
        for part in flattened(rule.conditions):
            if isinstance(part, ParamMatches | ResultMatches):
                found.setdefault(part.field.source, []).append(part.pattern)
    return {path: PatternSet(patterns) for path, patterns in found.items() if len(patterns) > 1}


class Interceptor:
    """All rules of one configuration. Immutable; a reload makes a new one and swaps it."""

    def __init__(self, config: InterceptorConfig, effects: Effects) -> None:
        self.config = config
        self._effects = effects
        self._rules = RuleSet(config.rules)
        self._frame_rules = RuleSet(config.transport_rules)
        self._patterns = _patterns_by_path(self._rules.rules)
        self._plans: dict[tuple[str | None, Direction], Plan] = {}
        self._spoken_of = _methods_spoken_of(config)
        self._asks_annotations = any(
            isinstance(part, ToolAnnotation) for rule in config.rules for part in flattened(rule.conditions)
        )
        self._following = maybe_following(config.rules)
        self._looks = frozenset(map(as_lax_readers_see, self._spoken_of))
        vendors = {name for name in self._spoken_of if not name.startswith(_SAID_BY_CLIENTS)}
        self.watches_answers_of_clients = any(
            self.watches(method, "client") for method in _ASKED_OF_CLIENTS | vendors
        )

    def watches(self, method: str | None, direction: Direction) -> bool:
        """Whether any rule could care; False means: pass it on at once. One lookup, however many rules.

        `method` of a response is that of the request it answers."""
        return not self._plan(method, direction).is_empty

    def on_client(self, message: Message, context: Context) -> Decided | Awaitable[Decided]:
        """What becomes of a message of the client's; something to await only if some rule has to wait."""
        return self._on_message(message, context)

    def on_upstream(self, message: Message, context: Context) -> Decided | Awaitable[Decided]:
        """The same for the upstream's responses, notifications and requests."""
        return self._on_message(message, context)

    def _plan(self, method: str | None, direction: Direction) -> Plan:
        if self.config.mode == "transport":
            method = None
        plan = self._plans.get((method, direction))
        if plan is None:
            plan = self._make_plan(method, direction)
            if len(self._plans) < limits.KNOWN_METHODS and len(method or "") <= limits.NAME_LENGTH:
                self._plans[method, direction] = plan
        return plan

    def _make_plan(self, method: str | None, direction: Direction) -> Plan:
        config = self.config
        if not config.enabled:
            return _NOTHING
        if method is not None and method not in self._spoken_of and as_lax_readers_see(method) in self._looks:
            return _LOOK_ALIKE
        guards = tuple(
            guard for name, guard in config.guards if name == method and guard.wants(method, direction)
        )
        rules = self._frame_rules.rules_for(None, direction) + self._rules.rules_for(method, direction)
        generals = tuple(custom for custom in config.generals if custom.wants(method, direction))
        slow = any(rule.waits for rule in rules) or any(custom.waits for custom in guards + generals)
        is_stored = direction == "upstream" and any(
            isinstance(action, Cache)
            for rule in self._rules.rules_for(method, "client")
            for action in rule.actions
        )
        may_carry = False
        if direction == "upstream" and config.mode == "mcp" and method not in _ASKED_WITHIN:
            inner = [self._plan(asked, "upstream") for asked in _ASKED_WITHIN]
            may_carry = any(not plan.is_empty for plan in inner)
            slow = slow or any(plan.waits for plan in inner)
        if direction == "upstream" and method in tasks.BRINGS:
            late = self._plan(tasks.BEGINS, "upstream")
            may_carry = may_carry or late.has_stages
            slow = slow or late.waits
        kind = config.classes.class_of(method)
        denies = kind != "pass" and config.chain.default_action.blocks(kind)
        follows = self._following is not None and direction == "upstream" and method in FOLLOWED
        learns = direction == "upstream" and method == tool_annotations.LIST and self._asks_annotations
        is_empty = not (guards or rules or generals or is_stored or may_carry or denies or learns or follows)
        checks = make_checks(rules, method, config.mode == "transport")
        is_open, indexes = index_of(checks)
        return Plan(
            guards,
            rules,
            checks,
            generals,
            waits=slow,
            is_stored=is_stored,
            may_carry=may_carry or follows,
            denies=denies,
            is_empty=is_empty,
            open=is_open,
            indexes=indexes,
        )

    def _on_message(self, message: Message, context: Context) -> Decided | Awaitable[Decided]:
        plan = self._plan(method_of(message, context), context.direction)
        if plan.is_empty:
            return FORWARD
        if plan is _LOOK_ALIKE and message.method is not None:
            log.warning("Refused a method that merely looks like one that the rules speak of.")
            stop = Stop("block", "Method not found", METHOD_NOT_FOUND)
            scene = RuleRun(message, context, self._effects, self.config.rule_set)
            return self._settle(scene, Blocked("method", stop, is_opaque=True), None)
        begin_looking(message, context, self._patterns)
        # Of a response more is kept than what rules decide.
        is_plain = plan.is_rules_only and message.kind is not Kind.RESPONSE
        if is_plain and _nothing_holds(message, context, plan):
            return FORWARD
        if plan.waits:
            return self._shortcut(message, context, plan) or self._judge(message, context, plan)
        work = self._judge(message, context, plan)
        try:
            waited_for = work.send(None)
        except StopIteration as done:
            verdict: Decided = done.value
            return verdict
        if waited_for is None:
            return _Rest(work)
        work.close()
        log.error("An interceptor waits, but its review is no coroutine function.")
        scene = RuleRun(message, context, self._effects, self.config.rule_set)
        return self._settle(scene, Blocked("chain", Stop("error", FAILED)), None)

    def _shortcut(
        self, message: Message, context: Context, plan: Plan
    ) -> Decided | Awaitable[Decided] | None:
        """The verdict, where the first rule does nothing but count with others: those who ask too often cost
        no more than without them, and where it is the only one, the answer is all that is waited for."""
        check = plan.checks[0] if plan.checks and not plan.guards and self.config.chain.fail_fast else None
        shortcut = getattr(check.rule.actions[0], "shortcut", None) if check is not None else None
        if check is None or shortcut is None or len(check.rule.actions) > 1:
            return None
        scene = RuleRun(message, context, self._effects, self.config.rule_set)
        rule = scene.rule = check.rule.id

        def settle(stop: Stop | None) -> Decided:
            scene.held.append(rule)
            return self._settle(scene, None if stop is None else Blocked(rule, stop, check.rule.opaque), None)

        is_all = plan.is_one_rule and message.kind is not Kind.RESPONSE
        try:
            found = shortcut(scene, settle if is_all else None) if check.holds(message, context) else None
        except Exception:  # whoever asks in earnest says what to do about it
            return None
        return settle(found) if isinstance(found, Stop) else found

    async def _judge(self, message: Message, context: Context, plan: Plan) -> Decided:
        scene = RuleRun(message, context, self._effects, self.config.rule_set)
        answer = None
        try:
            blocked, answer = await self._walk(scene, plan)
            if blocked is None and context.direction == "upstream":
                blocked = await self._walk_carried(scene) or await self._walk_late(scene)
        except Exception:  # a message that cannot be looked at is not let through unseen
            log.exception("The rules could not look at a message.")
            blocked = Blocked("chain", Stop("error", FAILED))
        return self._settle(scene, blocked, answer)

    async def _walk(self, scene: RuleRun, plan: Plan) -> tuple[Blocked | None, Blocked | None]:
        message, context = scene.message, scene.context
        is_transport = self.config.mode == "transport"
        is_reviewed = is_transport or self.config.classes.is_reviewed(message, context)
        # Without an id a request gets no answer, but it may well be done.
        is_asking = message.method is not None and not message.method.startswith("notifications/")
        walk = Walk(scene, plan, self.config.chain, is_reviewed, is_asking)
        try:
            if plan.waits:
                await self._effects.within(self.config.chain.timeout, walk.go())
            else:
                await walk.go()
        except TimeoutError:
            walk.ran_out()
        return walk.blocked, walk.answer

    async def _walk_carried(self, scene: RuleRun) -> Blocked | None:
        """Shows the requests within a result to the rules for their own methods."""
        plans = [self._plan(method, "upstream") for method in embedded.carried_methods(scene.message)]
        if all(plan.is_empty for plan in plans):
            return None
        edits: list[Edit] = []
        try:
            for carried in embedded.carried_requests(scene.message):
                plan = self._plan(carried.message.method, "upstream")
                context = Context(
                    scene.context.session, "upstream", scene.context.now, wall=scene.context.wall
                )
                inner = RuleRun(carried.message, context, self._effects, self.config.rule_set)
                blocked, _ = await self._walk(inner, plan)
                scene.held += inner.held
                scene.approvals += inner.approvals
                if blocked is not None:
                    return blocked
                params = member_place(inner.message, "params")
                if inner.is_changed and (carried.params is None or params is None):
                    raise RuleFailed("a request within a result has no params to change")
                if inner.is_changed and carried.params is not None and params is not None:
                    value = inner.message.raw[params.start : params.end]
                    edits.append((carried.params.start, carried.params.end, value))
            scene.edit(edits)
        except (RuleFailed, ProtocolError):
            return Blocked(scene.rule or "chain", Stop("error", FAILED))
        return None

    async def _walk_late(self, scene: RuleRun) -> Blocked | None:
        """Shows what a task brings to the rules for answers to the request that began it."""
        plan = self._plan(tasks.BEGINS, "upstream")
        if not plan.has_stages or self.config.mode == "transport":
            return None
        edits: list[Edit] = []
        try:
            for late in tasks.late_answers(scene.message, scene.context):
                if late.request is None:
                    if "result" in late.message.envelope:
                        return Blocked("task", Stop("error", UNKNOWN_TASK))
                    continue
                exchange = Exchange.of(late.request, scene.context.now)
                context = Context(
                    scene.context.session, "upstream", scene.context.now, exchange, scene.context.wall
                )
                inner = RuleRun(late.message, context, self._effects, self.config.rule_set)
                blocked, _ = await self._walk(inner, plan)
                scene.held += inner.held
                scene.approvals += inner.approvals
                if blocked is not None:
                    return blocked
                if inner.is_changed:
                    edits.append(_edit_of(late, inner.message, scene.message))
            scene.edit(edits)
        except (RuleFailed, ProtocolError):
            return Blocked(scene.rule or "chain", Stop("error", FAILED))
        return None

    def _settle(self, scene: RuleRun, blocked: Blocked | None, answer: Blocked | None) -> Decided:
        message, context = scene.message, scene.context
        exchange = context.exchange
        rules = tuple(scene.held)
        if exchange is not None and rules:
            exchange.intercepted = True
        if blocked is not None:
            context.session.stats_of(method_of(message, context)).blocked += 1
            return _blocked_verdict(
                message, blocked, refusal(message, context, blocked, self.config.chain.block_code), rules
            )
        if answer is not None and answer.stop.result is not None and message.id_token is not None:
            raw = result_reply(message.id_token, answer.stop.result)
            if self._following is not None and method_of(message, context) == tasks.BEGINS:
                self._following.saw_stored(raw, context, self._effects)
            why = Why(answer.rule, answer.stop.action, answer.stop.reason, rules=rules)
            return Answer(raw, word="answer", why=why)
        if message.kind is Kind.REQUEST and exchange is not None:
            exchange.request = message
        elif message.kind is Kind.RESPONSE and context.direction == "upstream":
            try:
                tasks.remember(message, context)
                if self._asks_annotations:
                    tool_annotations.remember(message, context)
                store_answer(message, context, self._effects)
            except Exception as fault:  # what cannot be kept is still a good answer
                log.error("An answer could not be kept: %s: %s", type(fault).__name__, fault)
        if self._following is not None and context.direction == "upstream":
            self._following.saw(message, context, self._effects)
        approval = min(scene.approvals, key=lambda asked: asked.seconds, default=None)
        if approval is not None:
            is_opaque = any(rule.opaque for rule in self.config.rules if rule.id == approval.rule)
            keeps_alive = any(asked.keeps_alive for asked in scene.approvals)
            approval = structs.replace(approval, is_opaque=is_opaque, keeps_alive=keeps_alive)
        if not rules and not scene.is_changed and approval is None:
            return FORWARD
        word: Word = "change" if scene.is_changed else "pass"
        changed_by = exchange.modified[-1:] if exchange is not None and scene.is_changed else ()
        why = Why("".join(changed_by or rules[-1:]), "change" if scene.is_changed else "", "", rules=rules)
        return Forward(message if scene.is_changed else None, word, why, approval)


def _blocked_verdict(
    message: Message, blocked: Blocked, raw: bytes | None, rules: tuple[str, ...]
) -> Decided:
    """The verdict on a message that rules block; a response becomes an error: somebody waits for it."""
    code = 0 if raw is None else error_code(raw)
    why = Why(blocked.rule, blocked.stop.action, blocked.stop.reason, code, rules)
    if raw is None:
        return Drop(why, "block")
    if message.kind is Kind.RESPONSE:
        return Forward(Message(raw, Kind.RESPONSE, message.id_token or b"null", None), "block", why)
    return Answer(raw, code, word="block", why=why)


_ASKED_OF_CLIENTS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
_SAID_BY_CLIENTS = (
    *("completion/", "initialize", "logging/", "notifications/", "ping", "prompts/", "resources/"),
    *("server/", "subscriptions/", "tasks/", "tools/"),
)
