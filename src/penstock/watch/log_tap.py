"""What the proxy says to people, for the live view as well."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable


class LogTap(logging.Handler):
    """Hands every line of the log on, and keeps the last ones for hubs that come later."""

    def __init__(self, tell: Callable[[dict[str, object]], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell
        self._thread = threading.get_ident()  # sockets are used by the loop's thread alone
        self._loop = asyncio.get_running_loop()
        self.kept: deque[dict[str, object]] = deque(maxlen=100)
        self.alerts: deque[dict[str, object]] = deque(maxlen=100)

    def emit(self, record: logging.LogRecord) -> None:
        """Hands one line on."""
        line: dict[str, object] = {
            "tap": "log",
            "t": record.created,
            "level": record.levelname.lower(),
            "text": record.getMessage()[:2000],
        }
        self.kept.append(line)
        self._hand_on(line)
        alert = getattr(record, "alert", None)  # what the line says, for programs
        if alert is not None:
            self.alerts.append({"tap": "alert", "alert": alert})
            self._hand_on(self.alerts[-1])

    def _hand_on(self, line: dict[str, object]) -> None:
        if threading.get_ident() == self._thread:
            self._tell(line)
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._tell, line)
