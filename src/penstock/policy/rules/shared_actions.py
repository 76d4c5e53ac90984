"""The actions that count and remember, for rules whose counts and caches several instances share.

Put in the place of the plain ones when a configuration with `shared` is loaded.
What is not shared never waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Literal, Protocol, cast

from msgspec import Struct, structs

from penstock.policy.rules.actions import RateLimit, SetState
from penstock.policy.rules.cache_action import Cache, private_key
from penstock.policy.rules.custom_interceptors import Custom
from penstock.policy.rules.effect_contract import ALLOWED, Effects, EffectVerdict
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.interceptor_config import InterceptorConfig
from penstock.policy.rules.method_guards import ToolCallInterceptor
from penstock.policy.rules.rule_run import RuleRun, Stop
from penstock.policy.rules.rules import Rule
from penstock.policy.rules.templates import digest
from penstock.policy.verdict import Decided
from penstock.wire.mcp.message import Kind, Message

EXCEEDED = "Rate limit exceeded"
UNKNOWN = "Rate limit cannot be checked now"


_STOPS = {"pass": None, "full": Stop("rate_limit", EXCEEDED), "unknown": Stop("rate_limit", UNKNOWN)}


class WaitingEffects(Effects, Protocol):
    """The effects whose counts and caches are somewhere else."""

    async def ask_limit(
        self, key: str, limit: int, window: float, when_down: str | None, lease: float = 0.0
    ) -> Literal["pass", "full", "unknown"]:
        """Counts one more under `key`, over all instances; `unknown` when nobody can tell."""

    def begin_limit(
        self,
        key: str,
        limit: int,
        window: float,
        when_down: str | None,
        then: Callable[[Literal["pass", "full", "unknown"]], Any],
        lease: float = 0.0,
    ) -> Awaitable[Any]:
        """The same; what `then` makes of it."""

    def is_known_full(self, key: str, limit: int, window: float) -> bool:
        """Whether it is known without asking that there is no room."""

    async def ask_cached(self, keys: tuple[bytes, ...]) -> bytes | None:
        """The result under one of `keys`. None: whoever asks is to get it; the last key is then claimed."""

    def ask_soon(self, keys: tuple[bytes, ...]) -> Awaitable[bytes | None]:
        """Begins to ask, together with what is asked next."""


class SharedRateLimit(RateLimit, frozen=True):
    """A limit over all instances."""

    when_down: str | None = None
    lease: float = 0.0
    riders: tuple[tuple[str, Any], ...] = ()  # rules with a cache that is looked into in the same round trip
    name: ClassVar[str] = "rate_limit"
    is_waiting: ClassVar[bool] = True
    is_changing: ClassVar[bool] = True  # it counts: nobody asks it ahead of its turn

    async def ask(self, scene: RuleRun) -> EffectVerdict:
        effects = cast(WaitingEffects, scene.effects)
        keys = self.key.counted(scene.message, scene.context)
        for fields in keys or ():
            key = digest([scene.rule, *fields]).hex()
            if self.riders and not effects.is_known_full(key, self.limit, self.window):
                self._ask_caches(scene, effects)
            word = await effects.ask_limit(key, self.limit, self.window, self.when_down, self.lease)
            if word != "pass":
                await _give_up_ahead(scene)
                return EffectVerdict("block", EXCEEDED if word == "full" else UNKNOWN)
        return ALLOWED if keys else EffectVerdict("block", EXCEEDED)

    def shortcut(
        self, scene: RuleRun, settle: Callable[[Stop | None], Decided] | None
    ) -> Stop | Awaitable[Decided] | None:
        """The refusal, where it is known without asking that there is no room; else what `settle` makes of
        the count, where there is only one; None where the chain has to see to it."""
        effects = cast(WaitingEffects, scene.effects)
        fields = self.key.counted(scene.message, scene.context) or ()
        keys = [digest([scene.rule, *one]).hex() for one in fields]
        if any(effects.is_known_full(key, self.limit, self.window) for key in keys):
            return Stop("rate_limit", EXCEEDED)
        if settle is None or self.riders or len(keys) != 1:
            return None
        return effects.begin_limit(
            keys[0], self.limit, self.window, self.when_down, lambda word: settle(_STOPS[word]), self.lease
        )

    def _ask_caches(self, scene: RuleRun, effects: WaitingEffects) -> None:
        if scene.message.kind is not Kind.REQUEST or scene.context.exchange is None:
            return
        for rule, cache in self.riders:
            key = cache.key_for(scene.seen_by(rule))
            if key not in scene.ahead:
                scene.ahead = {
                    **scene.ahead,
                    key: effects.ask_soon((private_key(key, scene.context), key)),
                }


async def _give_up_ahead(scene: RuleRun) -> None:
    """The message does not pass: what was claimed for it is given up."""
    ahead, scene.ahead = scene.ahead, {}
    for key, asked in ahead.items():
        if await asked is None:
            scene.effects.release(key)


class WaitingCache(Cache, frozen=True):
    """A cache that all instances look into."""

    is_waiting: ClassVar[bool] = True
    is_changing: ClassVar[bool] = True

    async def ask(self, scene: RuleRun) -> Stop | EffectVerdict:
        exchange = scene.context.exchange
        if scene.message.kind is not Kind.REQUEST or exchange is None:
            return ALLOWED
        effects = cast(WaitingEffects, scene.effects)
        key = self.key_for(scene)
        asked = scene.ahead.get(key)
        if asked is None:
            asked = effects.ask_cached((private_key(key, scene.context), key))
        result = await asked
        if result is not None:
            return Stop("cache", "Answered from the cache", result=result)
        exchange.to_store += ((key, self.ttl),)
        return ALLOWED


class SharedSetState(SetState, frozen=True):
    """A value of a session that several instances serve: what is set is also written down."""

    def apply(self, scene: RuleRun) -> None:
        super().apply(scene)
        changes = scene.context.changes
        if changes is not None:
            is_added = self.add is not None
            changes.append(
                (self.key, self.add if is_added else scene.context.session.values[self.key], is_added)
            )


class SharedToolCalls(ToolCallInterceptor):
    """The guard of tool calls, with its limits over all instances."""

    def __init__(self, plain: ToolCallInterceptor) -> None:
        self._allowed = plain._allowed
        self._windows = plain._windows

    async def review(  # type: ignore[override]  # it waits
        self, message: Message, context: Context, effects: Effects
    ) -> EffectVerdict | None:
        names = self.wrong_or_names(message, context)
        if not isinstance(names, list):
            return names
        for name in names:
            for limit, window in self._windows:
                key = self.key_of(name, window, context)
                word = await cast(WaitingEffects, effects).ask_limit(key, limit, window, None)
                if word != "pass":
                    return EffectVerdict("block", EXCEEDED if word == "full" else UNKNOWN)
        return None


class SharedUse(Struct, frozen=True):
    """What of the rules is shared."""

    limits: bool
    caches: bool
    state: bool


def with_shared(config: InterceptorConfig, use: SharedUse) -> InterceptorConfig:
    """The rules with what they share in the place of what they had for themselves."""
    rules = tuple(_shared_rule(rule, use) for rule in config.rules)
    riders = tuple(
        (rule.id, action) for rule in rules for action in rule.actions if isinstance(action, WaitingCache)
    )[:1]
    if riders:
        rules = tuple(_with_riders(rule, riders) for rule in rules)
    guards = config.guards
    if use.limits:
        guards = tuple((name, _shared_guard(guard)) for name, guard in config.guards)
    return structs.replace(
        config,
        rules=rules,
        transport_rules=tuple(_shared_rule(rule, use) for rule in config.transport_rules),
        guards=guards,
        generals=tuple(_shared_guard(custom) for custom in config.generals)
        if use.limits
        else config.generals,
    )


def _shared_rule(rule: Rule, use: SharedUse) -> Rule:
    if not rule.shared:
        return rule
    actions = tuple(_shared_action(action, rule, use) for action in rule.actions)
    return structs.replace(rule, actions=actions) if actions != rule.actions else rule


def _shared_action(action: Any, rule: Rule, use: SharedUse) -> Any:
    if type(action) is RateLimit and use.limits:
        return SharedRateLimit(action.limit, action.window, action.key, rule.when_down, rule.lease or 0.0)
    if type(action) is Cache and use.caches:
        return WaitingCache(action.ttl, action.key)
    if type(action) is SetState and use.state:
        return SharedSetState(action.key, action.value, action.add)
    return action


def _with_riders(rule: Rule, riders: tuple[tuple[str, Any], ...]) -> Rule:
    if not any(isinstance(action, SharedRateLimit) for action in rule.actions):
        return rule
    actions = tuple(
        structs.replace(action, riders=riders) if isinstance(action, SharedRateLimit) else action
        for action in rule.actions
    )
    return structs.replace(rule, actions=actions)


def _shared_guard(custom: Custom) -> Custom:
    if type(custom.object) is ToolCallInterceptor and custom.object.counts_sessions:
        return structs.replace(custom, object=SharedToolCalls(custom.object), waits=True)
    return custom
