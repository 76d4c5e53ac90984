"""The thread that writes: the loop appends references, a disk that stalls never stalls the loop.

One thread serves all sinks. It sleeps while there is nothing to write, wakes 50 ms after the first record of
a burst or as soon as 256 KiB wait, and writes everything that waits with one call. What a crash can lose is
what came in the last 50 ms.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from penstock.observe import bounds

log = logging.getLogger("penstock")


class Kept(Protocol):
    """What waits to be written: a record, or what stands for one."""

    @property
    def raw(self) -> bytes: ...

    @property
    def sent(self) -> bytes | None: ...


One = TypeVar("One", bound=Kept)
Some = TypeVar("Some", bound=Kept)


class Sink(Protocol[Some]):
    """What is written to a file."""

    def write_batch(self, records: list[Some]) -> None:
        """Writes the records, and what the clock asks for. Raises OSError when nothing of it was written."""

    def write_lost(self, count: int, first: Some, last: Some) -> None:
        """Writes that so many are missing. Raises OSError."""

    def close(self) -> None:
        """Writes the last words."""


class Queue(Generic[One]):
    """What waits for one sink. Bounded: what comes when it is full is lost, and counted."""

    def __init__(self, name: str, sink: Sink[One], *, blocks: bool = False) -> None:
        """`blocks`: whether traffic must wait, and not be lost, when it cannot be written."""
        self.name = name
        self.sink = sink
        self.blocks = blocks
        self.lost = 0  # in all, for the metrics
        self.is_failing = False
        self._waiting: deque[One] = deque()
        self._bytes_in = 0  # counted by the loop
        self._bytes_out = 0  # counted by the thread: so neither needs a lock
        self._lock = threading.Lock()  # for the losses, which both count
        self._missing = 0
        self._first: One | None = None
        self._last: One | None = None
        self._warned = -bounds.SINK_WARN_SECONDS
        self._retry_at = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the next record would be lost."""
        return len(self._waiting) >= bounds.SINK_RECORDS or self.waiting_bytes >= bounds.SINK_BYTES

    @property
    def is_crowded(self) -> bool:
        """Whether only that room is left which answers under way need."""
        return (
            len(self._waiting) >= bounds.SINK_RECORDS * _CROWDED
            or self.waiting_bytes >= bounds.SINK_BYTES * _CROWDED
        )

    @property
    def is_refusing(self) -> bool:
        """Whether traffic must not pass now."""
        return self.blocks and (self.is_failing or self.is_full)

    @property
    def waiting_bytes(self) -> int:
        """How much waits, about."""
        return self._bytes_in - self._bytes_out

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting and not self._missing

    def add(self, record: One) -> None:
        """Called by the loop: keeps a reference, or counts a loss."""
        is_full = (
            len(self._waiting) >= bounds.SINK_RECORDS
            or self._bytes_in - self._bytes_out >= bounds.SINK_BYTES
            or self._missing
        )
        if is_full:
            with self._lock:
                self._missing += 1
                self.lost += 1
                self._first = self._first or record
                self._last = record
            return
        self._bytes_in += _weight(record)
        self._waiting.append(record)

    def drain(self) -> None:
        """Called by the thread: writes what waits; when that fails, it stays and is tried again."""
        if time.monotonic() < self._retry_at:
            return
        try:
            while self._waiting:
                batch = [self._waiting[place] for place in range(min(len(self._waiting), bounds.SINK_BATCH))]
                self.sink.write_batch(batch)
                for _ in batch:
                    self._waiting.popleft()
                self._bytes_out += sum(map(_weight, batch))
            self.sink.write_batch([])
            if self._missing:
                self._write_lost()
        except OSError as why:
            self._fail(why)
        else:
            self.is_failing = False

    def _write_lost(self) -> None:
        with self._lock:
            assert self._first is not None
            assert self._last is not None
            count = self._missing
            self.sink.write_lost(count, self._first, self._last)
            self._missing = 0
            self._first = self._last = None
        log.warning("%d records could not be written to the %s.", count, self.name)

    def _fail(self, why: OSError) -> None:
        now = time.monotonic()
        self.is_failing = True
        self._retry_at = now + bounds.SINK_RETRY_SECONDS
        if now - self._warned >= bounds.SINK_WARN_SECONDS:
            self._warned = now
            then = "requests are refused" if self.blocks else "traffic goes on"
            log.warning("The %s cannot be written (%s); %s.", self.name, why.strerror or why, then)


class WriterThread:
    """Drains queues until it is closed."""

    def __init__(self, queues: Sequence[Queue[Any]], seconds: float = bounds.SINK_SECONDS) -> None:
        """`seconds`: how long more is waited for after the first of a burst."""
        self.queues = queues
        self._seconds = seconds
        self._wake = threading.Event()  # something waits
        self._hurry = threading.Event()  # so much waits that 50 ms are too long
        self._waiters: deque[asyncio.Future[bool]] = deque()
        self.is_awake = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="penstock-writer", daemon=True)
        self._thread.start()

    def told(self) -> None:
        """Called by the loop after a record was added to the queues."""
        if not self.is_awake:
            self.is_awake = True
            self._wake.set()
            return
        for queue in self.queues:
            if queue._bytes_in - queue._bytes_out > bounds.SINK_HURRY_BYTES:
                self._hurry.set()

    def written(self) -> asyncio.Future[bool]:
        """Called in the loop: done when all that waits now was written, with False when it could not be.

        Who waits at the same time shares one write."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        self._wake.set()
        self._hurry.set()
        return future

    def close(self, seconds: float) -> None:
        """Writes what waits and ends, or gives up after so long."""
        self._is_closing = True
        self._wake.set()
        self._hurry.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            log.warning("The last records could not be written in time.")

    def _run(self) -> None:
        while not self._is_closing:
            idle = all(queue.is_idle for queue in self.queues)
            self._wake.wait(bounds.SINK_IDLE_SECONDS if idle else bounds.SINK_RETRY_SECONDS)
            if self.is_awake and not self._is_closing:
                self._hurry.wait(self._seconds)
            self._wake.clear()
            self._hurry.clear()
            self.is_awake = False  # from here on, whatever is added wakes us again
            self._drain()
        self._drain()
        for queue in self.queues:
            try:
                queue.sink.close()
            except OSError as why:
                log.warning("The %s could not be ended: %s.", queue.name, why.strerror or why)

    def _drain(self) -> None:
        waiters = [self._waiters.popleft() for _ in range(len(self._waiters))]
        is_kept = True
        for queue in self.queues:
            try:
                queue.drain()
            except Exception:  # a fault in what watches must never end the watching
                log.exception("The %s has failed.", queue.name)
                is_kept = is_kept and not queue.blocks
            is_kept = is_kept and not (queue.blocks and queue.is_failing)
        for future in waiters:
            with suppress(RuntimeError):  # the loop has ended
                future.get_loop().call_soon_threadsafe(_settle, future, is_kept)


def _settle(future: asyncio.Future[bool], is_kept: bool) -> None:
    if not future.done():
        future.set_result(is_kept)


_RECORD_BYTES = 300  # about what a record keeps beside its bytes
_CROWDED = 0.75  # of a queue: above, clients wait, so that there is room for what is under way


def _weight(one: Kept) -> int:
    return _RECORD_BYTES + len(one.raw) + (0 if one.sent is None else len(one.sent))
