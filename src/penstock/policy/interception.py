"""The interceptor: what becomes of each message under the rules. Pure: what waits is asked of `Effects`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from penstock.policy.effect_contract import (
    ALLOWED,
    Effects,
    EffectVerdict,
    ForkSpec,
    ScriptSpec,
    WebhookSpec,
)
from penstock.policy.exchange import Context, Direction, ExchangeState, MethodStats, SessionState
from penstock.policy.outcome import Outcome, Pass, Refuse
from penstock.wire.message import Message

if TYPE_CHECKING:
    from penstock.policy.interceptor_config import InterceptorConfig

__all__ = [
    "ALLOWED",
    "Context",
    "Direction",
    "EffectVerdict",
    "Effects",
    "ExchangeState",
    "ForkSpec",
    "Interceptor",
    "MethodStats",
    "Outcome",
    "Pass",
    "Refuse",
    "ScriptSpec",
    "SessionState",
    "WebhookSpec",
]


class Interceptor:
    """All rules of one configuration. Immutable; a reload makes a new one and swaps it."""

    def __init__(self, config: InterceptorConfig, effects: Effects) -> None:
        self._config = config
        self._effects = effects

    def watches(self, method: str | None, direction: Direction) -> bool:
        """Whether any rule could care; False means: pass it on at once. One lookup, however many rules.

        `method` of a response is that of the request it answers."""
        raise NotImplementedError

    def on_client(self, message: Message, context: Context) -> Outcome | Awaitable[Outcome]:
        """What becomes of a message of the client's; something to await only if some rule has to wait."""
        raise NotImplementedError

    def on_upstream(self, message: Message, context: Context) -> Outcome | Awaitable[Outcome]:
        """The same for the upstream's responses, notifications and requests."""
        raise NotImplementedError
