"""What rules of the tests name by import path."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.policy.rules.effect_contract import EffectVerdict


def shout(value: Any) -> Any:
    """Texts in capitals."""
    return value.upper() if isinstance(value, str) else value


def broken(value: Any) -> Any:
    raise OSError("a secret that only the log may tell")


class Refuses:
    """Blocks what its config names."""

    senders = ("client",)

    def __init__(self, config: dict[str, Any]) -> None:
        self._mark = config["mark"].encode()

    def review(self, message: Any, context: Any, effects: Any) -> EffectVerdict | None:
        return EffectVerdict("block", "Refused by a class") if self._mark in message.raw else None


class Slow(Refuses):
    """The same, after a while."""

    async def review(self, message: Any, context: Any, effects: Any) -> EffectVerdict | None:
        await asyncio.sleep(0.01)
        return super().review(message, context, effects)


class Crashes:
    """Raises at every message."""

    senders = ("client",)

    def __init__(self, config: dict[str, Any]) -> None:
        pass

    def review(self, message: Any, context: Any, effects: Any) -> None:
        raise RuntimeError("a secret that only the log may tell")


class Hangs:
    """Never decides."""

    senders = ("client",)

    def __init__(self, config: dict[str, Any]) -> None:
        pass

    async def review(self, message: Any, context: Any, effects: Any) -> None:
        await asyncio.Event().wait()
