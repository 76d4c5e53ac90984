"""What the outside does for rules, for real: each kind of effect is loaded when a rule first asks for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import EffectFailed
from penstock.policy.rules.effect_contract import Effects, EffectVerdict, ForkSpec, ScriptSpec, WebhookSpec

if TYPE_CHECKING:
    from penstock.effects.cache import ResultCache
    from penstock.effects.counters import Counted, Counters
    from penstock.effects.fork import OpenLink, Shadows
    from penstock.effects.pause import Pauses
    from penstock.effects.rate_limit import SlidingWindows
    from penstock.effects.script import Scripts
    from penstock.effects.spending import Spending
    from penstock.effects.threads import Threads
    from penstock.effects.webhook import Webhooks
    from penstock.net.warden import Warden

T = TypeVar("T")


class RealEffects(Effects):
    """The effects of one proxy. They outlive a reload of the rules, and with them every count and limit."""

    def __init__(
        self,
        warden: Warden | None = None,
        open_link: OpenLink | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`warden` guards scripts; without one, they get their own. `open_link` leads to shadow upstreams."""
        self._warden = warden
        self._own_warden: Warden | None = None
        self._open_link = open_link
        self._clock = clock
        self._windows: SlidingWindows | None = None
        self._spending: Spending | None = None
        self._cache: ResultCache | None = None
        self._pauses: Pauses | None = None
        self._counters: Counters | None = None
        self._webhooks: Webhooks | None = None
        self._scripts: Scripts | None = None
        self._shadows: Shadows | None = None
        self._threads: Threads | None = None
        self._is_closed = False

    def may_pass(self, key: str, limit: int, window: float) -> bool:
        """Counts one more under `key`; False when that makes more than `limit` within `window` seconds."""
        if self._windows is None:
            from penstock.effects.rate_limit import SlidingWindows

            self._windows = SlidingWindows(self._clock)
        return self._windows.may_pass(key, limit, window)

    def spend(self, key: str, amount: int, window: float) -> int:
        """Adds to what was spent under `key`; what that makes, within `window` seconds unless that is 0."""
        if self._spending is None:
            from penstock.effects.spending import Spending

            self._spending = Spending(self._clock)
        return self._spending.spend(key, amount, window)

    def cached(self, key: bytes) -> bytes | None:
        """The result object stored under `key` and still fresh, as bytes."""
        return None if self._cache is None else self._cache.cached(key)

    def store(self, key: bytes, result: bytes, ttl: float) -> None:
        """Keeps a result for `ttl` seconds, unless others need the room more."""
        if self._cache is None:
            from penstock.effects.cache import ResultCache

            self._cache = ResultCache(self._clock)
        self._cache.store(key, result, ttl)

    def release(self, key: bytes) -> None:
        """No result will come; nobody waits for one in a process of its own."""

    def clock(self) -> float:
        """Seconds on a clock that only goes forward."""
        return self._clock()

    def count(self, name: str, value: float) -> None:
        """Adds `value` to the metric `name`."""
        if self._counters is None:
            from penstock.effects.counters import Counters

            self._counters = Counters()
        self._counters.count(name, value)

    def metrics(self) -> dict[str, Counted]:
        """All metrics as they are now."""
        return {} if self._counters is None else self._counters.snapshot()

    async def pause(self, seconds: float, sender: str = "") -> None:
        """Holds one message back."""
        if self._pauses is None:
            from penstock.effects.pause import Pauses

            self._pauses = Pauses()
        await self._pauses.pause(seconds, sender)

    def notify(self, hook: WebhookSpec, body: bytes) -> None:
        """Sends `body` some time soon; never delays the caller."""
        if not self._is_closed:
            self._hooks().notify(hook, body)

    async def ask_webhook(self, hook: WebhookSpec, body: bytes, sender: str = "") -> EffectVerdict:
        """What a webhook decides; EffectFailed when that is not known in time."""
        if self._is_closed:
            raise EffectFailed("A webhook", "It was not asked: we are closing")
        return await self._hooks().ask(hook, body, sender)

    async def run_script(self, script: ScriptSpec, body: bytes, sender: str = "") -> EffectVerdict:
        """What a script decides; EffectFailed when that is not known in time."""
        if self._is_closed:
            raise EffectFailed("A script", "It was not started: we are closing")
        if self._scripts is None:
            from penstock.effects.script import Scripts
            from penstock.net.warden import Warden

            if self._warden is None:
                self._warden = self._own_warden = Warden()
            self._scripts = Scripts(self._warden)
        return await self._scripts.run(script, body, sender)

    def fork(self, spec: ForkSpec, raw: bytes) -> None:
        """Gives a shadow upstream a copy of the message; never delays the caller."""
        if self._is_closed:
            return
        if self._shadows is None:
            from penstock.effects.fork import Shadows

            if self._open_link is None:
                raise EffectFailed("A shadow upstream", "Nobody said how to connect to it")
            self._shadows = Shadows(self._open_link)
        self._shadows.fork(spec, raw)

    async def in_thread(self, function: Callable[..., T], *arguments: Any, sender: str = "") -> T:
        """What a function of the user's gives back, run in a thread."""
        if self._threads is None:
            from penstock.effects.threads import Threads

            self._threads = Threads()
        return await self._threads.run(function, arguments, sender)

    def for_threads(self) -> Effects:
        """These effects, for code in another thread."""
        from penstock.effects.threads import OnLoop

        on_loop: Effects = OnLoop(self)
        return on_loop

    async def within(self, seconds: float, work: Awaitable[T]) -> T:
        """What `work` gives; cancelled, with TimeoutError raised, when it takes longer."""
        async with asyncio.timeout(seconds):
            return await work

    async def together(self, works: Sequence[Awaitable[Any]]) -> list[Any]:
        """What each of `works` gave, or the Exception it raised, in their order."""
        return await asyncio.gather(*works, return_exceptions=True)

    async def close(self) -> None:
        """Ends everything that is under way; nothing of it outlives us. Reports get a moment to get away."""
        self._is_closed = True
        parts = [part for part in (self._scripts, self._shadows, self._webhooks) if part is not None]
        await asyncio.gather(*(part.close() for part in parts))
        if self._own_warden is not None:
            self._own_warden.dismiss()

    def _hooks(self) -> Webhooks:
        if self._webhooks is None:
            from penstock.effects.webhook import Webhooks

            self._webhooks = Webhooks()
        return self._webhooks
