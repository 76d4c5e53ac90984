"""Rules tried without a client, an upstream or the outside world: nothing is sent, and nobody waits."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar

from penstock.errors import ProtocolError
from penstock.policy.exchange import Exchange, Headers, Session
from penstock.policy.rules.effect_contract import EffectVerdict, ForkSpec, ScriptSpec, WebhookSpec
from penstock.policy.rules.exchange import Context, Direction
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import InterceptorConfig
from penstock.policy.verdict import FORWARD, Decided, Drop, Forward
from penstock.policy.verdict import Answer as Answered
from penstock.wire.mcp.message import Batch, Kind, Message, read_client_message, read_upstream_message

T = TypeVar("T")
Answer = Literal["allow", "block"]


class DryRunEffects:
    """Effects that only happen on paper. Limits and caches work, on a clock that is set by hand."""

    def __init__(self, webhook: Answer = "allow", script: Answer = "allow") -> None:
        self.now = 1_000_000.0
        self.told: list[str] = []  # what would have left the process, in words
        self._webhook = webhook
        self._script = script
        self._passed: dict[str, deque[float]] = {}
        self._spent: dict[str, deque[tuple[float, int]]] = {}
        self._cache: dict[bytes, tuple[bytes, float]] = {}

    def may_pass(self, key: str, limit: int, window: float) -> bool:
        times = self._passed.setdefault(key, deque())
        while times and times[0] <= self.now - window:
            times.popleft()
        if len(times) >= limit:
            return False
        times.append(self.now)
        return True

    def spend(self, key: str, amount: int, window: float) -> int:
        spent = self._spent.setdefault(key, deque())
        if amount:
            spent.append((self.now, amount))
        while window and spent and self.now - spent[0][0] >= window:
            spent.popleft()
        return sum(one for _, one in spent)

    def cached(self, key: bytes) -> bytes | None:
        result, end = self._cache.get(key, (b"", 0.0))
        return result if self.now < end else None

    def store(self, key: bytes, result: bytes, ttl: float) -> None:
        self._cache[key] = (result, self.now + ttl)

    def release(self, key: bytes) -> None:
        """Nobody else waits for it."""

    def notify(self, hook: WebhookSpec, body: bytes) -> None:
        self.told.append(f"tell {hook.url}")

    async def ask_webhook(self, hook: WebhookSpec, body: bytes, sender: str = "") -> EffectVerdict:
        self.told.append(f"ask {hook.url} (rehearsed answer: {self._webhook})")
        return EffectVerdict(decision=self._webhook)

    async def run_script(self, script: ScriptSpec, body: bytes, sender: str = "") -> EffectVerdict:
        self.told.append(f"run {script.argv[0]} (rehearsed verdict: {self._script})")
        return EffectVerdict(decision=self._script)

    async def pause(self, seconds: float, sender: str = "") -> None:
        self.told.append(f"wait {seconds:g} s")

    def fork(self, spec: ForkSpec, raw: bytes) -> None:
        self.told.append(f"copy it to {spec.url or ' '.join(spec.argv)}")

    def clock(self) -> float:
        return time.monotonic()

    def count(self, name: str, value: float) -> None:
        self.told.append(f"add {value:g} to the metric {name}")

    async def in_thread(self, function: Callable[..., Any], *arguments: Any, sender: str = "") -> Any:
        return function(*arguments)

    def for_threads(self) -> Any:
        return self

    async def within(self, seconds: float, work: Awaitable[T]) -> T:
        return await asyncio.wait_for(work, seconds)

    async def together(self, works: Sequence[Awaitable[Any]]) -> list[Any]:
        return list(await asyncio.gather(*works, return_exceptions=True))


class DryRun:
    """One session, on paper."""

    def __init__(
        self,
        config: InterceptorConfig,
        effects: DryRunEffects,
        session: Session | None = None,
        headers: Headers = (),
        wall: float | None = None,
    ) -> None:
        """`headers` come with every message of the client's; it begins at the time `wall`, or now."""
        self.effects = effects
        self._headers = headers
        self._ahead = (time.time() if wall is None else wall) - effects.now
        self.session = session or Session(id="test", started=effects.now)
        self.interceptor = Interceptor(config, effects)
        self._exchanges: dict[tuple[Direction, bytes], Exchange] = {}

    def context(self, message: Message, direction: Direction) -> Context:
        """What the conditions see beside `message`: for a response, the exchange that its request began."""
        exchange = None
        if message.id_token is not None:
            asker: Direction = direction
            if message.kind is Kind.RESPONSE:
                asker = "upstream" if direction == "client" else "client"
            else:
                made = self._exchanges[asker, message.id_token] = Exchange.of(message, self.effects.now)
                made.headers = self._headers if direction == "client" else ()
            exchange = self._exchanges.get((asker, message.id_token))
        return Context(
            self.session, direction, self.effects.now, exchange, wall=self.effects.now + self._ahead
        )

    def play(self, message: Message, direction: Direction) -> Decided:
        """What becomes of the message."""
        context = self.context(message, direction)
        method = message.method
        if method is None and context.exchange is not None:
            method = context.exchange.request.method
        if not self.interceptor.watches(method, direction):
            return FORWARD
        take = self.interceptor.on_client if direction == "client" else self.interceptor.on_upstream

        async def decide() -> Decided:
            said = take(message, context)
            return said if isinstance(said, Forward | Answered | Drop) else await said

        return asyncio.run(decide())


def read_message(raw: bytes, direction: Direction) -> Message:
    """The message in `raw`, read as from its sender. Raises ProtocolError."""
    message = read_client_message(raw) if direction == "client" else read_upstream_message(raw)
    if isinstance(message, Batch):
        raise ProtocolError(0, "Several messages in one array: give them one by one")
    return message


def verdict_of(verdict: Decided) -> str:
    """What was decided, in one word of a fixture."""
    if isinstance(verdict, Forward):
        return "block" if verdict.word == "block" else "pass"
    if isinstance(verdict, Drop):
        return "drop"
    assert isinstance(verdict, Answered)
    return verdict.word


def blocker_of(verdict: Decided) -> str | None:
    """The rule or interceptor that blocked, if one did."""
    return verdict.why.rule if verdict.word == "block" and verdict.why is not None else None
