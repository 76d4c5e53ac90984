"""Answering a request from an earlier answer.

What was made for one is never given to another: the key holds the upstream, whose rights the client has, the
rule set, the rule, the method, all params, and what the rule's own key says. Only complete and successful
results are kept. One that says `cacheScope: private` is kept for its own session alone; one that says how
long it is good for (`ttlMs`) is not kept longer.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from penstock.policy.binder import Seconds
from penstock.policy.durations import spoken_duration
from penstock.policy.rules.effect_contract import Effects
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.json_values import equals, maybe_number
from penstock.policy.rules.message_parts import Place, result_of
from penstock.policy.rules.paths import Path, parse_path
from penstock.policy.rules.rule_run import RuleRun, Stop
from penstock.policy.rules.templates import Template, digest, parse_template, plain_params
from penstock.wire.mcp.message import Kind, Message

_RESULT_TYPE = parse_path("resultType")
_IS_ERROR = parse_path("isError")
_NEXT = parse_path("nextCursor")
_TASK = parse_path("task.taskId")
_SCOPE = parse_path("cacheScope")
_TTL = parse_path("ttlMs")


class Cache(Struct, frozen=True):
    """Answers a request from an earlier answer to the same request, for as long as `ttl`."""

    ttl: Seconds
    key: Template = parse_template("${method}:${params_hash}")
    name: ClassVar[str] = "cache"

    def words(self) -> str:
        return f"answer from the cache, for {spoken_duration(self.ttl)}"

    def apply(self, scene: RuleRun) -> Stop | None:
        """The stored answer; without one, the answer that will come is marked for storing."""
        exchange = scene.context.exchange
        if scene.message.kind is not Kind.REQUEST or exchange is None:
            return None
        key = self.key_for(scene)
        for stored in (private_key(key, scene.context), key):
            result = scene.effects.cached(stored)
            if result is not None:
                return Stop("cache", "Answered from the cache", result=result)
        exchange.to_store += ((key, self.ttl),)
        return None

    def key_for(self, scene: RuleRun) -> bytes:
        """What tells this request from all others that might have another answer."""
        session = scene.context.session
        return digest(
            [
                scene.rule_set,
                session.upstream,
                session.principal,
                scene.rule,
                scene.message.method or "",
                plain_params(scene.message, scene.context),
                *self.key.filled(scene.message, scene.context),
            ]
        )


def store_answer(message: Message, context: Context, effects: Effects) -> None:
    """Keeps a response, as the client gets it, if its request was marked for that and it may be kept."""
    exchange = context.exchange
    if exchange is None or not exchange.to_store:
        return
    wanted, exchange.to_store = exchange.to_store, ()
    result = result_of(message)
    if result is None or not _may_be_kept(result):
        for key, _ in wanted:
            effects.release(key)
        return
    is_private = _any_is(result, _SCOPE, "private")
    longest = _seconds_good(result)
    raw = result.text[result.start : result.end]
    for key, ttl in wanted:
        ttl = ttl if longest is None else min(ttl, longest)
        if is_private or ttl <= 0:
            effects.release(key)
        if ttl > 0:
            effects.store(private_key(key, context) if is_private else key, raw, ttl)


def private_key(key: bytes, context: Context) -> bytes:
    """The key for what is kept for this session alone."""
    return digest([key, context.session.id])


def _may_be_kept(result: Place) -> bool:
    for span in _RESULT_TYPE.find(result.text, result.start, result.end):
        if not equals(result.text, span.start, span.end, "complete"):
            return False
    # A page of a list is not the list, and its cursor may be good only once.
    has_more = any(
        not equals(result.text, span.start, span.end, None)
        for span in _NEXT.find(result.text, result.start, result.end)
    )
    # A task is the promise of a result, made to whoever asked this time.
    is_promise = any(True for _ in _TASK.find(result.text, result.start, result.end))
    return not has_more and not is_promise and not _any_is(result, _IS_ERROR, True)


def _any_is(result: Place, path: Path, value: object) -> bool:
    spans = path.find(result.text, result.start, result.end)
    return any(equals(result.text, span.start, span.end, value) for span in spans)


def _seconds_good(result: Place) -> float | None:
    good: float | None = None
    for span in _TTL.find(result.text, result.start, result.end):
        milliseconds = maybe_number(result.text[span.start : span.end])
        seconds = 0.0 if milliseconds is None else float(milliseconds) / 1000
        good = seconds if good is None else min(good, seconds)
    return good
