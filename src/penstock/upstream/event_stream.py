"""The stream on which a legacy upstream says what nobody asked: opened again whenever it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock import limits
from penstock.errors import ConnectFailed, RequestFailed, SessionEnded, UpstreamError
from penstock.upstream.http_answer import HttpAnswer
from penstock.wire.http.sse import Oversize, SseEvent

log = logging.getLogger("penstock")


class EventStream:
    """A GET that lasts. An upstream that offers none is left in peace."""

    def __init__(
        self,
        open_stream: Callable[[HttpAnswer, bytes | None], None],
        take: Callable[[SseEvent | Oversize], None],
        on_lost: Callable[[UpstreamError], None],
    ) -> None:
        """`open_stream` sends the GET, with the id of the last event if there was one."""
        self._open_stream = open_stream
        self._take = take
        self._on_lost = on_lost
        self._last_id: bytes | None = None
        self._retry = limits.RETRY_SECONDS
        self._has_worked = False
        self._barren = 0  # streams in a row that ended without an event
        self._timer: asyncio.TimerHandle | None = None
        self.answer: HttpAnswer | None = None
        self._open()

    def close(self) -> None:
        """Ends it for good."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.answer is not None:
            self.answer.cancel()
            self.answer = None

    def _open(self) -> None:
        self._timer = None
        self.answer = HttpAnswer(self)
        self._open_stream(self.answer, self._last_id)

    def began(self, answer: HttpAnswer) -> None:
        """Anything but a stream means that there is none."""
        if answer.is_events:
            self._has_worked = True
            return
        self.close()
        if answer.status == 404 and self._has_worked:
            self._on_lost(SessionEnded("The session is not known any more"))
        elif answer.status != 405:
            log.info("The upstream offers no stream of its own: HTTP %d.", answer.status)

    def event(self, answer: HttpAnswer, event: SseEvent | Oversize) -> None:
        """Notes where to go on, and passes the event on."""
        self._barren = 0
        self._last_id = answer.last_id
        if answer.retry is not None:
            self._retry = answer.retry
        self._take(event)

    def over(self, answer: HttpAnswer, error: UpstreamError | None) -> None:
        """Opens it again a little later, unless there is nobody left to open it."""
        if self.answer is not answer:
            return
        self.answer = None
        if isinstance(error, ConnectFailed):
            self._on_lost(error)
            return
        if not self._has_worked and not isinstance(error, RequestFailed):
            log.info("The upstream offers no stream of its own.")
            return
        self._barren += 1
        wait = min(self._retry * 2 ** min(self._barren - 1, 10), limits.RETRY_MOST_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(wait, self._open)
