"""From a command's start to its first answer: people are told that it takes long, and when it took too long.

A package manager that has to fetch the server first may need a minute, and a client that is told nothing
gives up before that. Starting has a time of its own, which nothing that is asked later has to share.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Callable

from penstock import limits
from penstock.errors import ConnectFailed, Failure
from penstock.wire.mcp.replies import one_line

log = logging.getLogger("penstock")

_SHOWN = 80  # characters of a command in a sentence


class Starting:
    """The wait for the first word of a command that was asked something."""

    def __init__(self, command: list[str], seconds: float, on_late: Callable[[ConnectFailed], None]) -> None:
        """`on_late` is called when the command has said nothing for so many `seconds`."""
        self._command = command
        self._seconds = seconds
        self._on_late = on_late
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._timer = self._loop.call_later(min(limits.STARTING_SECONDS, seconds), self._look)

    def stop(self) -> None:
        """It has spoken, or is gone."""
        self._timer.cancel()

    def _look(self) -> None:
        waited = self._loop.time() - self._began
        left = self._seconds - waited
        if left > 0.001:
            log.info("Still starting (%d s): %s", round(waited), shown_command(self._command))
            self._timer = self._loop.call_later(min(limits.STARTING_SECONDS, left), self._look)
            return
        milliseconds = round(self._seconds * 1000)
        detail = f"No answer within {milliseconds}ms; --start-timeout gives it longer"
        self._on_late(ConnectFailed(shown_command(self._command), detail, Failure.TIMEOUT))


def shown_command(command: list[str]) -> str:
    """A command as one would type it, cut to what fits in a sentence."""
    text = one_line(shlex.join(command))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
