"""What the tests of rules share: messages, sessions, and effects that only take notes."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from gate_messages import client, upstream
from penstock.policy.rules.interceptor import (
    ALLOWED,
    Context,
    EffectVerdict,
    Exchange,
    ForkSpec,
    Interceptor,
    ScriptSpec,
    Session,
    WebhookSpec,
)
from penstock.policy.rules.interceptor_config import InterceptorConfig, build
from penstock.policy.verdict import Answer, Drop, Forward, Hold, Verdict, Wait
from penstock.wire.mcp.message import Kind, Message


class Pass(NamedTuple):
    """What goes on to the other side, as these tests look at it."""

    raw: bytes
    changed: bool


class Refuse(NamedTuple):
    """What goes back to the sender, or nowhere."""

    raw: bytes | None
    rule: str
    action: str


class Outcome:
    """A verdict on a message, taken apart for these tests."""

    def __init__(self, said: Verdict, message: Message | None) -> None:
        assert isinstance(said, Forward | Answer | Drop)
        why = said.why
        self.said = said
        self.rules = why.rules if why is not None else ()
        is_blocked = said.word == "block" and why is not None
        self.blocked_by = why.rule if is_blocked and why is not None else None
        self.reason = why.reason if is_blocked and why is not None else None
        self.verdict: Pass | Refuse
        if isinstance(said, Forward):
            passed = said.message or message
            self.verdict = Pass(b"" if passed is None else passed.raw, said.message is not None)
        else:
            raw = said.raw if isinstance(said, Answer) else None
            assert why is not None
            self.verdict = Refuse(raw, why.rule, why.action)


class NotedEffects:
    """Effects that happen only on paper; nothing ever waits."""

    def __init__(self) -> None:
        self.notes: list[tuple[Any, ...]] = []
        self.counts: dict[str, int] = {}
        self.metrics: dict[str, float] = {}
        self.stored: dict[bytes, tuple[bytes, float]] = {}
        self.verdict: EffectVerdict | Exception = ALLOWED
        self.side_by_side: list[int] = []
        self.times_out = False

    def may_pass(self, key: str, limit: int, window: float) -> bool:
        self.counts[key] = self.counts.get(key, 0) + 1
        return self.counts[key] <= limit

    def spend(self, key: str, amount: int, window: float) -> int:
        self.counts[key] = self.counts.get(key, 0) + amount
        return self.counts[key]

    def cached(self, key: bytes) -> bytes | None:
        return self.stored[key][0] if key in self.stored else None

    def store(self, key: bytes, result: bytes, ttl: float) -> None:
        self.stored[key] = (result, ttl)

    def release(self, key: bytes) -> None:
        pass

    def notify(self, hook: WebhookSpec, body: bytes) -> None:
        self.notes.append(("notify", hook, json.loads(body)))

    async def ask_webhook(self, hook: WebhookSpec, body: bytes, sender: str = "") -> EffectVerdict:
        self.notes.append(("ask", hook, json.loads(body)))
        return self._verdict()

    async def run_script(self, script: ScriptSpec, body: bytes, sender: str = "") -> EffectVerdict:
        self.notes.append(("script", script, json.loads(body)))
        return self._verdict()

    def _verdict(self) -> EffectVerdict:
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    async def pause(self, seconds: float, sender: str = "") -> None:
        self.notes.append(("pause", seconds))

    def fork(self, spec: ForkSpec, raw: bytes) -> None:
        self.notes.append(("fork", spec, raw))

    def clock(self) -> float:
        return time.monotonic()

    def count(self, name: str, value: float) -> None:
        self.metrics[name] = self.metrics.get(name, 0) + value

    async def in_thread(self, function: Callable[..., Any], *arguments: Any, sender: str = "") -> Any:
        return function(*arguments)

    def for_threads(self) -> Any:
        return self

    async def within(self, seconds: float, work: Awaitable[Any]) -> Any:
        if self.times_out:
            work.close()  # type: ignore[attr-defined]
            raise TimeoutError
        return await work

    async def together(self, works: Sequence[Awaitable[Any]]) -> list[Any]:
        self.side_by_side.append(len(works))
        out: list[Any] = []
        for work in works:
            try:
                out.append(await work)
            except Exception as why:
                out.append(why)
        return out


def session(**more: Any) -> Session:
    return Session(**{"id": "s1", "started": 100.0, "upstream": "u", **more})


def loaded(tree: object) -> InterceptorConfig:
    config, faults = build(tree)
    assert not faults, "\n".join(map(str, faults))
    assert config is not None
    return config


def rule(*actions: object, when: Sequence[object] = (), **more: object) -> dict[str, object]:
    return {"id": "r", "conditions": list(when), "actions": list(actions), **more}


def interceptor(
    *rules: dict[str, object], effects: NotedEffects | None = None, **section: object
) -> Interceptor:
    return Interceptor(loaded({"rules": list(rules), **section}), effects or NotedEffects())


def request(method: str = "tools/call", params: object = None, id: object = 1) -> Message:
    body: dict[str, object] = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        body["params"] = params
    return client(msgspec.json.encode(body))


def response(result: object = None, id: object = 1, error: object = None) -> Message:
    body = {"jsonrpc": "2.0", "id": id, **({"error": error} if error else {"result": result})}
    return upstream(msgspec.json.encode(body))


def finish(said: Verdict | Awaitable[Any], message: Message | None = None) -> Outcome:
    """The outcome, also of a chain that waits: nothing waits here, it only lets others have a turn. `message`
    is what it is about."""
    if isinstance(said, Forward | Answer | Drop):
        return Outcome(said, message)
    assert not isinstance(said, Hold | Wait)
    turns = said.__await__()
    try:
        while next(turns) is None:
            pass
    except StopIteration as done:
        return Outcome(done.value, message)
    raise AssertionError("something really waited")


def context(
    state: Session | None = None,
    direction: Any = "client",
    of: Message | None = None,
    now: float = 100.0,
) -> Context:
    exchange = Exchange.of(of, now) if of is not None else None
    return Context(state or session(), direction, now, exchange)


def send(box: Interceptor, message: Message, state: Session | None = None) -> Outcome:
    """A message of the client's."""
    of = message if message.kind is Kind.REQUEST else None
    return finish(box.on_client(message, context(state, "client", of)), message)


def answer(box: Interceptor, message: Message, to: Message, state: Session | None = None) -> Outcome:
    """A response of the upstream's to the request `to`."""
    return finish(box.on_upstream(message, context(state, "upstream", to)), message)


def error_of(outcome: Outcome) -> dict[str, Any]:
    raw = outcome.verdict.raw
    assert raw is not None
    error: dict[str, Any] = json.loads(raw)["error"]
    return error
