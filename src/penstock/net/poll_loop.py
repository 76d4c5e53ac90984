"""An event loop of our own on epoll: what a plain filter needs of asyncio's, with less in between.

asyncio's loop makes an object for each event, queues it, and runs it in a context; its package loads servers,
streams and subprocesses that we never use. Futures, tasks and timeouts are asyncio's own, so everything that
waits is written as anywhere else. With TLS or rules asyncio's whole loop takes over
(docs/decisions/0010-a-loop-of-our-own.md).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import os
import select
import signal
import socket
import threading
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from time import monotonic
from typing import Any

from penstock import limits
from penstock.net.socket_transport import SocketTransport

log = logging.getLogger("penstock")

_EVENTS_A_TURN = 256
_MANY_CANCELLED = 100
# An error or the end of a peer is for whoever reads and for whoever writes.
_FOR_READERS = ~getattr(select, "EPOLLOUT", 0)
_FOR_WRITERS = ~getattr(select, "EPOLLIN", 0)
_Callback = Callable[..., object]


class PollLoop:
    """Watches descriptors, keeps timers, runs what is due. Linux only."""

    def __init__(self) -> None:
        self._loop: Any = self  # as asyncio's own classes want to see us
        self._epoll = select.epoll()
        self._watches: dict[int, list[_Callback | None]] = {}  # by descriptor: who reads, who writes
        self._fresh: set[int] = set()  # watched since the kernel was last asked
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []  # a heap
        self._timer_numbers = itertools.count()  # those for the same time go in their order
        self._cancelled = 0  # of the timers
        # Alone on one core, whoever looks keeps others from working.
        self._has_cores = len(os.sched_getaffinity(0)) > 1
        self._is_brisk = False  # whether the last wait was short
        self._look_after = 0.0  # when looking may pay again
        self._is_running = False
        self._is_stopping = False
        self._is_closed = False
        self._waking = threading.Lock()
        self._signals: dict[int, _Callback] = {}
        self._ears, self._mouth = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)  # wakes us from elsewhere
        self.add_reader(self._ears, self._on_wake)

    # --- running ----------------------------------------------------------------------------------------

    def run_forever(self) -> None:
        """Runs until `stop` is called."""
        poll, watches, fresh = self._epoll.poll, self._watches, self._fresh
        ready, timers = self._ready, self._timers
        self._is_running, self._is_stopping = True, False
        events._set_running_loop(self._loop)
        try:
            while not self._is_stopping:
                if ready:
                    wait = 0.0
                elif timers:
                    wait = max(0.0, timers[0][0] - monotonic())
                else:
                    wait = -1.0
                if fresh:
                    fresh.clear()
                for fd, mask in poll(0, _EVENTS_A_TURN) if wait == 0.0 else self._wait(wait):
                    watch = watches.get(fd)
                    # A number that was closed and used again in this very turn has not been polled yet.
                    if watch is None or fd in fresh:
                        continue
                    try:
                        if mask & _FOR_READERS and watch[0] is not None:
                            watch[0]()
                        if mask & _FOR_WRITERS and watch[1] is not None and watches.get(fd) is watch:
                            watch[1]()
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as why:
                        self.call_exception_handler({"message": "An event failed", "exception": why})
                if timers and timers[0][0] <= monotonic():
                    self._collect_due()
                for _ in range(len(ready)):
                    handle = ready.popleft()
                    if not handle.cancelled():
                        handle._run()
        finally:
            self._is_running = False
            events._set_running_loop(None)

    def _wait(self, seconds: float) -> list[tuple[int, int]]:
        """What happens next, within `seconds`; for ever if they are negative.

        Falling asleep and being woken costs more than many an answer takes to come. So while things happen
        in quick succession we look again for a moment before we sleep; the first moment in vain ends that.
        Where the moment takes much longer than that, others want the core: then we leave it to them a while.
        """
        poll = self._epoll.poll
        if self._is_brisk and (now := monotonic()) > self._look_after:
            until = now + limits.BRISK_LOOK_SECONDS
            while now < until:
                happened = poll(0, _EVENTS_A_TURN)
                if happened:
                    return happened
                now = monotonic()
            if now > until + limits.BRISK_LOOK_SECONDS:
                self._look_after = now + limits.BRISK_PAUSE_SECONDS
        began = monotonic()
        happened = poll(seconds, _EVENTS_A_TURN)
        self._is_brisk = self._has_cores and monotonic() - began < limits.BRISK_SECONDS
        return happened

    def run_until_complete(self, future: Any) -> Any:
        """Runs until `future` is done; gives its result."""
        task = asyncio.ensure_future(future, loop=self._loop)
        task.add_done_callback(self._stop_after)
        try:
            self.run_forever()
        finally:
            task.remove_done_callback(self._stop_after)
        return task.result()

    def _stop_after(self, future: asyncio.Future[Any]) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the run after this turn."""
        self._is_stopping = True

    def close(self) -> None:
        """Lets go of what the kernel gave us."""
        for number in tuple(self._signals):
            self.remove_signal_handler(number)
        with self._waking:  # no thread may write to a number that is no longer ours
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self._ears)
            os.close(self._mouth)
        self._epoll.close()
        self._ready.clear()
        self._timers.clear()
        self._watches.clear()

    def cancel_all_tasks(self) -> None:
        """Ends what still waits, as asyncio's runner does."""
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    def is_running(self) -> bool:
        """Whether we are in `run_forever`."""
        return self._is_running

    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def get_debug(self) -> bool:
        """Never: asyncio's own loop has that."""
        return False

    def time(self) -> float:
        """The clock that timers go by."""
        return monotonic()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Says what went wrong where nobody could be told."""
        why = context.get("exception")
        log.error("%s", context.get("message") or "An event failed", exc_info=why)

    # --- what is due ------------------------------------------------------------------------------------

    def call_soon(self, callback: _Callback, *args: Any, context: Context | None = None) -> asyncio.Handle:
        """Runs `callback` in this turn or the next."""
        handle = asyncio.Handle(callback, args, self._loop, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: _Callback, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """The same, from another thread. RuntimeError when the loop is closed."""
        with self._waking:
            if self._is_closed:
                raise RuntimeError("the loop is closed")
            handle = self.call_soon(callback, *args, context=context)
            try:
                os.write(self._mouth, b"\0")
            except BlockingIOError:
                pass  # full: we are being woken already
        return handle

    def call_later(
        self, delay: float, callback: _Callback, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs `callback` after `delay` seconds."""
        return self.call_at(monotonic() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: _Callback, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs `callback` at `when`, by our clock."""
        timer = asyncio.TimerHandle(when, callback, args, self._loop, context)
        heapq.heappush(self._timers, (when, next(self._timer_numbers), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        # Most timers are cancelled long before they are due; they are thrown out when they are many.
        self._cancelled += 1
        if self._cancelled > _MANY_CANCELLED and self._cancelled > len(self._timers) // 2:
            self._timers[:] = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _collect_due(self) -> None:
        timers = self._timers
        now = monotonic()
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            if timer.cancelled():
                self._cancelled = max(0, self._cancelled - 1)
            else:
                self._ready.append(timer)

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self._loop)

    def create_task(self, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        """A task of this loop."""
        return asyncio.Task(coro, loop=self._loop, **options)

    def run_in_executor(self, executor: None, work: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """The result of `work`, which may block, done in a thread of its own."""
        future = self.create_future()

        def settle(set_it: Callable[[Any], None], value: Any) -> None:
            if not future.done():
                set_it(value)

        def labour() -> None:
            try:
                outcome = (future.set_result, work(*args))
            except BaseException as why:
                outcome = (future.set_exception, why)
            try:
                self.call_soon_threadsafe(settle, *outcome)
            except RuntimeError:
                pass  # nobody waits any more

        threading.Thread(target=labour, daemon=True).start()
        return future

    # --- descriptors ------------------------------------------------------------------------------------

    def add_reader(self, fd: Any, callback: _Callback, *args: Any) -> None:
        """Calls `callback` whenever `fd` has something to read. PermissionError for what cannot be polled."""
        self._watch(fd, 0, partial(callback, *args) if args else callback)

    def add_writer(self, fd: Any, callback: _Callback, *args: Any) -> None:
        """Calls `callback` whenever `fd` takes something."""
        self._watch(fd, 1, partial(callback, *args) if args else callback)

    def remove_reader(self, fd: Any) -> bool:
        """Stops watching for something to read."""
        return self._unwatch(fd, 0)

    def remove_writer(self, fd: Any) -> bool:
        """Stops watching for room to write."""
        return self._unwatch(fd, 1)

    def _watch(self, fd: Any, side: int, callback: _Callback) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        watch = self._watches.get(number)
        if watch is None:
            self._epoll.register(number, select.EPOLLOUT if side else select.EPOLLIN)
            watch = self._watches[number] = [None, None]
            self._fresh.add(number)
        elif watch[side] is None:
            self._epoll.modify(number, select.EPOLLIN | select.EPOLLOUT)
        watch[side] = callback

    def _unwatch(self, fd: Any, side: int) -> bool:
        number = fd if isinstance(fd, int) else fd.fileno()
        watch = self._watches.get(number)
        if watch is None or watch[side] is None:
            return False
        watch[side] = None
        if watch[1 - side] is not None:
            self._epoll.modify(number, select.EPOLLIN if side else select.EPOLLOUT)
            return True
        del self._watches[number]
        try:
            self._epoll.unregister(number)
        except OSError:
            pass  # closed already, which the kernel takes for the same
        return True

    # --- signals ----------------------------------------------------------------------------------------

    def add_signal_handler(self, sig: int, callback: _Callback, *args: Any) -> None:
        """Calls `callback` in the loop when the signal comes."""
        signal.set_wakeup_fd(self._mouth, warn_on_full_buffer=False)
        self._signals[sig] = partial(callback, *args)
        signal.signal(sig, lambda number, frame: None)  # the kernel's byte in the pipe is what we act on
        signal.siginterrupt(sig, False)

    def remove_signal_handler(self, sig: int) -> bool:
        """The signal does again what it does by itself."""
        if self._signals.pop(sig, None) is None:
            return False
        signal.signal(sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL)
        if not self._signals:
            signal.set_wakeup_fd(-1)
        return True

    def _on_wake(self) -> None:
        try:
            numbers = os.read(self._ears, 4096)
        except BlockingIOError:
            return
        for number in numbers:
            callback = self._signals.get(number)  # 0 is no signal: a thread has woken us
            if callback is not None:
                callback()

    # --- sockets ----------------------------------------------------------------------------------------

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[Any]:
        """The addresses of a name; for an address no thread is needed."""
        if isinstance(host, str) and host.isascii():
            host = host.encode()  # else the table of all Unicode is loaded to encode it
        try:
            return socket.getaddrinfo(host, port, family, type, proto, flags | socket.AI_NUMERICHOST)
        except socket.gaierror:
            work = partial(socket.getaddrinfo, host, port, family, type, proto, flags)
            found: list[Any] = await self.run_in_executor(None, work)
            return found

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connects a socket that does not block. OSError when nobody is there."""
        try:
            sock.connect(address)
            return
        except (BlockingIOError, InterruptedError):
            pass
        connected = self.create_future()
        number = sock.fileno()
        self.add_writer(number, self._on_connected, sock, connected)
        try:
            await connected
        finally:
            self.remove_writer(number)

    def _on_connected(self, sock: socket.socket, connected: asyncio.Future[None]) -> None:
        if not connected.done():
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                connected.set_exception(OSError(error, os.strerror(error)))
            else:
                connected.set_result(None)

    async def create_connection(self, protocol_factory: Callable[[], Any], *, sock: socket.socket) -> Any:
        """A transport and a protocol for a connected socket."""
        protocol = protocol_factory()
        return SocketTransport(self, sock, protocol), protocol

    async def connect_accepted_socket(self, protocol_factory: Callable[[], Any], sock: socket.socket) -> Any:
        """The same, for a socket that a listener has accepted."""
        return await self.create_connection(protocol_factory, sock=sock)

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: nobody here leaves an asynchronous generator behind."""

    async def shutdown_default_executor(self, *_: Any) -> None:
        """Nothing to do: threads end by themselves."""
