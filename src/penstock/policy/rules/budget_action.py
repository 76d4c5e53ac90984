"""The action that ends a session's calls when their answers have cost a model too many tokens."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from penstock.policy.binder import Count, Seconds
from penstock.policy.durations import spoken_duration
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.rule_run import RuleRun, Stop
from penstock.policy.rules.templates import digest
from penstock.policy.tools.token_estimate import estimate_tokens
from penstock.wire.mcp.message import Message

USED_UP = "Token budget used up"


class Budget(Struct, frozen=True):
    """Blocks calls once the answers to those that the rule is about have cost more than so many tokens, by
    the estimate that `penstock tools` uses. The answer that goes beyond still passes; the next call does
    not. Counted for each session or for each principal, for good or within a window."""

    tokens: Count
    of: Literal["results"] = "results"
    per: Literal["session", "principal"] = "session"
    window: Seconds = 0.0
    short: ClassVar[str] = "tokens"

    def words(self) -> str:
        when = f" within {spoken_duration(self.window)}" if self.window else ""
        return (
            f"block once results have cost more than {self.tokens:,} tokens (an estimate){when} a {self.per}"
        )

    def apply(self, scene: RuleRun) -> Stop | None:
        if scene.context.direction != "client":
            return None
        spent = scene.effects.spend(self.key(scene.rule, scene.context), 0, self.window)
        return Stop("budget", USED_UP) if spent > self.tokens else None

    def key(self, rule: str, context: Context) -> str:
        """Under which name it is counted."""
        session = context.session
        whose = session.id if self.per == "session" else session.principal
        return digest(["budget", rule, self.per, whose]).hex()


def tokens_of(message: Message) -> int:
    """About what the result or error of a response costs a model."""
    token = message.envelope.get("result") or message.envelope.get("error") if message.envelope else None
    return estimate_tokens(bytes(token).decode("utf-8", "replace")) if token is not None else 0
