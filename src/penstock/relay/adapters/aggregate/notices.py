"""One notice for many changes: clients hear that a list has changed once a window."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.bridge.envelope import notification


class Notices:
    """Gathers changes for one session."""

    def __init__(self, seconds: float, say: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._say = say
        self._kinds: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_begun = False

    def begin(self) -> None:
        """The client has seen what there is, or is about to."""
        self._is_begun = True

    def changed(self, kind: str) -> None:
        """A list is not what it was."""
        if not self._is_begun:
            return
        self._kinds[kind] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tell)

    def stop(self) -> None:
        """Tells nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self) -> None:
        self._timer = None
        kinds, self._kinds = list(self._kinds), {}
        for kind in kinds:
            self._say(kind)


def list_changed(kind: str) -> bytes:
    """The notification that a list has changed."""
    return notification(f"notifications/{kind}/list_changed")
