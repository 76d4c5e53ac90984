"""Python of the user's that does not wait, run beside the loop: however long it takes, it stalls nobody.

A function cannot be ended from outside. So each runs in a thread of its own that does not keep the process
alive; whoever asked stops waiting when its time is over, and what comes later is thrown away.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from penstock import limits
from penstock.effects.turns import Turns
from penstock.errors import EffectFailed

T = TypeVar("T")


class Threads:
    """Runs functions, so many at once, shared out by sender."""

    def __init__(self, at_once: int = limits.PYTHON_THREADS) -> None:
        self._turns = Turns(at_once)

    async def run(self, function: Callable[..., T], arguments: tuple[Any, ...], sender: str) -> T:
        """What `function` gives back, or raises."""
        await self._turns.take(sender)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def finish(value: Any, failure: BaseException | None) -> None:
            self._turns.give_back(sender)  # not before: a thread that nobody waits for any more runs on
            if done.done():
                return
            if failure is None:
                done.set_result(value)
            else:
                done.set_exception(failure)

        def work() -> None:
            value, failure = None, None
            try:
                value = function(*arguments)
            except BaseException as why:  # also SystemExit: it ends nobody but itself
                failure = why if isinstance(why, Exception) else EffectFailed("A function", repr(why))
            try:
                loop.call_soon_threadsafe(finish, value, failure)
            except RuntimeError:  # the loop is gone, and with it whoever asked
                pass

        threading.Thread(target=work, name="penstock rule", daemon=True).start()
        return await done


class OnLoop:
    """The effects, for code in another thread: each call is made on the loop, and waited for."""

    def __init__(self, effects: Any) -> None:
        self._effects = effects
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._effects, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            async def made() -> Any:
                given = found(*arguments, **named)
                return await given if hasattr(given, "__await__") else given

            return asyncio.run_coroutine_threadsafe(made(), self._loop).result()

        return call
