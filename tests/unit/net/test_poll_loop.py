"""The loop of our own does for descriptors, timers, signals, threads and sockets what asyncio's would."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from penstock.net.poll_loop import PollLoop

MEGABYTE = 1024 * 1024


@pytest.fixture
def loop() -> Iterator[PollLoop]:
    loop = PollLoop()
    yield loop
    loop.cancel_all_tasks()
    loop.close()


def run(loop: PollLoop, work: Callable[[], Coroutine[Any, Any, Any]], seconds: float = 10.0) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(seconds):
            return await work()

    return loop.run_until_complete(limited())


class Peer(asyncio.Protocol):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.got = bytearray()
        self.events: list[str] = []
        self.changed = asyncio.Event()

    def _note(self, event: str) -> None:
        self.events.append(event)
        self.changed.set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._note("made")

    def data_received(self, data: bytes) -> None:
        self.got += data
        self.changed.set()

    def eof_received(self) -> None:
        self._note("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        self._note("lost" if exc is None else f"lost: {type(exc).__name__}")

    def pause_writing(self) -> None:
        self._note("full")

    def resume_writing(self) -> None:
        self._note("drained")

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


async def connected(loop: PollLoop) -> tuple[Peer, socket.socket]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    _, peer = await loop.create_connection(Peer, sock=near)
    return peer, far


def test_timers_run_in_their_order_and_cancelled_ones_do_not(loop: PollLoop) -> None:
    ran: list[str] = []

    async def work() -> None:
        loop.call_later(0.02, ran.append, "second")
        loop.call_later(0.01, ran.append, "first")
        loop.call_later(0.01, ran.append, "never").cancel()
        await asyncio.sleep(0.05)

    run(loop, work)
    assert ran == ["first", "second"]


def test_many_cancelled_timers_are_thrown_out(loop: PollLoop) -> None:
    async def work() -> None:
        kept = loop.call_later(60, print)
        for _ in range(1000):
            loop.call_later(60, print).cancel()
        assert len(loop._timers) < 250
        kept.cancel()

    run(loop, work)


def test_what_waits_too_long_is_ended(loop: PollLoop) -> None:
    async def work() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.create_future(), 0.01)

    run(loop, work)


def test_a_thread_wakes_the_loop(loop: PollLoop) -> None:
    async def work() -> int:
        heard = loop.create_future()
        threading.Timer(0.01, loop.call_soon_threadsafe, (heard.set_result, 7)).start()
        return await heard  # type: ignore[no-any-return]

    assert run(loop, work) == 7


def test_what_blocks_is_done_in_a_thread_and_its_error_comes_back(loop: PollLoop) -> None:
    async def work() -> None:
        assert await asyncio.to_thread(threading.get_ident) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)

    run(loop, work)


def test_a_callback_that_fails_is_told_and_the_loop_goes_on(
    loop: PollLoop, caplog: pytest.LogCaptureFixture
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x")

    def fail() -> None:
        loop.remove_reader(reading)
        raise ValueError("mine")

    async def work() -> str:
        loop.add_reader(reading, fail)
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(0.02)
        return "alive"

    with caplog.at_level(logging.ERROR):
        assert run(loop, work) == "alive"
    told = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert set(told) == {ZeroDivisionError, ValueError}
    os.close(reading)
    os.close(writing)


def test_a_descriptor_that_cannot_be_polled_is_said_to_be_so(loop: PollLoop) -> None:
    with open(os.devnull, "rb") as nothing, pytest.raises(PermissionError):
        loop.add_reader(nothing.fileno(), print)


def test_reading_and_writing_are_watched_apart(loop: PollLoop) -> None:
    near, far = socket.socketpair()
    seen: list[str] = []

    async def work() -> None:
        loop.add_reader(near, seen.append, "read")
        loop.add_writer(near, lambda: (seen.append("write"), loop.remove_writer(near)))
        await asyncio.sleep(0.01)
        assert seen == ["write"]
        far.send(b"x")
        await asyncio.sleep(0.01)
        assert "read" in seen
        assert loop.remove_reader(near)
        assert not loop.remove_reader(near)
        seen.clear()
        await asyncio.sleep(0.01)
        assert seen == []

    run(loop, work)
    near.close()
    far.close()


def test_a_number_used_again_in_the_same_turn_hears_nothing_of_its_predecessor(loop: PollLoop) -> None:
    """Two pipes are readable in one turn; the first handler closes the second pipe and opens another."""
    first, first_in = os.pipe()
    second, second_in = os.pipe()
    os.write(first_in, b"x")
    os.write(second_in, b"x")
    wrong: list[int] = []
    fresh: list[int] = []

    def handler_of(mine: int, other: int) -> Callable[[], None]:
        def handle() -> None:
            loop.remove_reader(mine)
            if not fresh:
                loop.remove_reader(other)
                os.close(other)
                fresh.extend(os.pipe())
                assert other in fresh
                loop.add_reader(fresh[0], wrong.append, fresh[0])

        return handle

    async def work() -> None:
        loop.add_reader(first, handler_of(first, second))
        loop.add_reader(second, handler_of(second, first))
        await asyncio.sleep(0.02)
        assert wrong == []

    run(loop, work)
    for number in {first, first_in, second, second_in, *fresh}:
        os.close(number)


def test_a_signal_calls_its_handler_in_the_loop() -> None:
    script = """
import asyncio, os, signal
from penstock.net.poll_loop import PollLoop
loop = PollLoop()
async def work():
    heard = loop.create_future()
    loop.add_signal_handler(signal.SIGTERM, heard.set_result, "heard")
    loop.call_later(0.01, os.kill, os.getpid(), signal.SIGTERM)
    print(await heard, flush=True)
    loop.remove_signal_handler(signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
loop.run_until_complete(work())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=30, check=False)
    assert (done.stdout, done.returncode) == (b"heard\n", -signal.SIGTERM)


def test_exit_goes_through_everything() -> None:
    script = """
from penstock.net.poll_loop import PollLoop
loop = PollLoop()
def leave(): raise SystemExit(7)
async def work():
    loop.call_soon(leave)
    await loop.create_future()
try:
    loop.run_until_complete(work())
finally:
    loop.cancel_all_tasks()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (7, b"")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_names_and_addresses_are_found(loop: PollLoop, host: str) -> None:
    async def work() -> list[Any]:
        return await loop.getaddrinfo(host, 80, type=socket.SOCK_STREAM)

    assert all(info[1] == socket.SOCK_STREAM for info in run(loop, work))


def test_connecting_tells_whether_somebody_is_there(loop: PollLoop) -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
            sock = socket.socket()
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            sock.close()
        again = socket.socket()
        again.setblocking(False)
        with pytest.raises(ConnectionRefusedError):
            await loop.sock_connect(again, address)
        again.close()

    run(loop, work)


def test_bytes_go_both_ways_and_the_end_is_told(loop: PollLoop) -> None:
    async def work() -> None:
        peer, far = await connected(loop)
        peer.transport.write(b"there")
        assert far.recv(100) == b"there"
        far.send(b"back")
        await peer.until(lambda: peer.got == b"back")
        far.close()
        await peer.until(lambda: "lost" in peer.events)
        assert peer.events == ["made", "eof", "lost"]
        assert peer.transport.is_closing()

    run(loop, work)


def test_a_large_message_arrives_whole_through_a_full_socket(loop: PollLoop) -> None:
    sent = os.urandom(8 * MEGABYTE)

    async def work() -> None:
        peer, far = await connected(loop)
        peer.transport.set_write_buffer_limits(MEGABYTE, MEGABYTE // 4)
        for at in range(0, len(sent), 100_000):
            peer.transport.write(sent[at : at + 100_000])
        assert peer.events == ["made", "full"]
        assert peer.transport.get_write_buffer_size() > MEGABYTE
        peer.transport.close()
        got = bytearray()
        while len(got) < len(sent):
            try:
                got += far.recv(MEGABYTE)
            except BlockingIOError:
                await asyncio.sleep(0)
        assert got == sent
        await peer.until(lambda: "lost" in peer.events)
        assert peer.events == ["made", "full", "drained", "lost"]
        assert far.recv(1) == b""
        far.close()

    run(loop, work)


@pytest.mark.parametrize("size", [1, 50_000, 300_000])
@pytest.mark.parametrize("count", [1, 3, 70])
def test_pieces_written_together_arrive_whole_and_in_their_order(
    loop: PollLoop, size: int, count: int
) -> None:
    pieces = [b"" if place % 5 == 4 else os.urandom(size + place) for place in range(count)]

    async def work() -> None:
        peer, far = await connected(loop)
        peer.transport.writelines(pieces)
        peer.transport.write(b"between")
        peer.transport.writelines(iter(pieces[:2]))
        peer.transport.close()
        peer.transport.writelines([])
        sent = b"".join([*pieces, b"between", *pieces[:2]])
        got = bytearray()
        while len(got) < len(sent):
            try:
                got += far.recv(MEGABYTE)
            except BlockingIOError:
                await asyncio.sleep(0)
        assert got == sent
        await peer.until(lambda: "lost" in peer.events)
        assert far.recv(1) == b""
        far.close()

    run(loop, work)


def test_pieces_are_not_kept_for_a_reader_who_is_gone(loop: PollLoop) -> None:
    async def work() -> None:
        peer, far = await connected(loop)
        peer.transport.pause_reading()
        far.close()
        peer.transport.writelines([b"x", b"y"])
        peer.transport.writelines([b"z"])
        await peer.until(lambda: peer.events[-1].startswith("lost"))
        assert peer.events[-1] == "lost: BrokenPipeError"
        assert peer.transport.get_write_buffer_size() == 0

    run(loop, work)


def test_a_protocol_that_gives_up_when_much_waits_gets_no_more(loop: PollLoop) -> None:
    async def work() -> None:
        peer, far = await connected(loop)
        peer.pause_writing = peer.transport.abort  # type: ignore[method-assign]
        peer.transport.writelines([b"x" * 4 * MEGABYTE, b"y" * MEGABYTE])
        assert peer.transport.get_write_buffer_size() == 0
        await peer.until(lambda: "lost" in peer.events)
        far.close()

    run(loop, work)


def test_who_is_paused_reads_nothing_until_it_is_resumed(loop: PollLoop) -> None:
    async def work() -> None:
        peer, far = await connected(loop)
        peer.transport.pause_reading()
        far.send(b"wait")
        await asyncio.sleep(0.02)
        assert peer.got == b""
        peer.transport.resume_reading()
        await peer.until(lambda: peer.got == b"wait")
        far.close()

    run(loop, work)


def test_an_abort_forgets_what_waits(loop: PollLoop) -> None:
    async def work() -> None:
        peer, far = await connected(loop)
        peer.transport.write(b"x" * 4 * MEGABYTE)
        peer.transport.abort()
        peer.transport.write(b"more")
        await peer.until(lambda: "lost" in peer.events)
        assert peer.transport.get_write_buffer_size() == 0
        far.close()

    run(loop, work)


def test_the_end_is_told_once_however_often_it_comes(loop: PollLoop) -> None:
    async def work() -> None:
        peer, far = await connected(loop)
        sent = b"x" * 4 * MEGABYTE
        peer.transport.write(sent)
        peer.transport.close()
        left = len(sent)
        while left:
            try:
                left -= len(far.recv(MEGABYTE))
            except BlockingIOError:
                loop._watches[peer.transport._fd][1]()  # type: ignore[misc]  # the rest is written, and
        peer.transport.abort()  # aborted before the loop has come round
        await peer.until(lambda: "lost" in peer.events)
        await asyncio.sleep(0.01)
        assert peer.events.count("lost") == 1
        far.close()

    run(loop, work)


def test_a_reader_who_is_gone_is_told_as_a_loss(loop: PollLoop) -> None:
    async def work() -> None:
        peer, far = await connected(loop)
        peer.transport.pause_reading()
        far.close()
        peer.transport.write(b"x")
        await peer.until(lambda: peer.events[-1].startswith("lost"))
        assert peer.events[-1] == "lost: BrokenPipeError"

    run(loop, work)


def test_an_end_of_writing_comes_after_what_waits(loop: PollLoop) -> None:
    async def work() -> None:
        peer, far = await connected(loop)
        sent = b"x" * 4 * MEGABYTE
        peer.transport.write(sent)
        peer.transport.write_eof()
        got = bytearray()
        while True:
            try:
                piece = far.recv(MEGABYTE)
            except BlockingIOError:
                await asyncio.sleep(0)
                continue
            if not piece:
                break
            got += piece
        assert got == sent
        far.send(b"still heard")
        await peer.until(lambda: peer.got == b"still heard")
        far.close()

    run(loop, work)


def test_a_protocol_that_fails_loses_its_connection_and_no_other(
    loop: PollLoop, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(Peer):
        def data_received(self, data: bytes) -> None:
            raise ValueError("mine")

    async def work() -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        _, faulty = await loop.create_connection(Faulty, sock=near)
        other, other_far = await connected(loop)
        far.send(b"x")
        await faulty.until(lambda: faulty.events[-1] == "lost: ValueError")
        other_far.send(b"fine")
        await other.until(lambda: other.got == b"fine")
        far.close()
        other_far.close()

    run(loop, work)
    assert "A connection failed" in caplog.text


@pytest.mark.parametrize(("seconds", "is_brisk"), [(60.0, True), (0.0, False)])
def test_how_long_the_last_wait_was_decides_whether_the_next_begins_with_a_look(
    loop: PollLoop, monkeypatch: pytest.MonkeyPatch, seconds: float, is_brisk: bool
) -> None:
    monkeypatch.setattr("penstock.limits.BRISK_SECONDS", seconds)
    loop._has_cores = True

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(0.001)
            assert loop._is_brisk is is_brisk

    run(loop, work)


def test_who_waits_for_long_sleeps(loop: PollLoop) -> None:
    import time

    async def work() -> float:
        loop._is_brisk = True
        before = time.process_time()
        await asyncio.sleep(0.5)
        return time.process_time() - before

    assert run(loop, work) < 0.25


def test_alone_on_one_core_nobody_looks_twice(loop: PollLoop) -> None:
    loop._has_cores = False

    async def work() -> None:
        for _ in range(50):
            await asyncio.sleep(0.0001)
            assert not loop._is_brisk

    run(loop, work)


class _Crowded:
    """The kernel's poll on a core that others want: each look takes a while."""

    def __init__(self, inner: select.epoll, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds
        self.looks = 0

    def poll(self, timeout: float = -1, maxevents: int = -1) -> list[tuple[int, int]]:
        if timeout == 0:
            self.looks += 1
            time.sleep(self._seconds)
        return self._inner.poll(timeout, maxevents)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize(("seconds", "is_left"), [(0.02, True), (0.0, False)])
def test_where_others_want_the_core_nobody_looks_for_a_while(
    loop: PollLoop, monkeypatch: pytest.MonkeyPatch, seconds: float, is_left: bool
) -> None:
    monkeypatch.setattr("penstock.limits.BRISK_LOOK_SECONDS", 0.0001 if is_left else 0.3)
    loop._is_brisk = True
    loop._epoll = _Crowded(loop._epoll, seconds)  # type: ignore[assignment]
    assert loop._wait(0.0) == []
    assert (loop._look_after > time.monotonic()) is is_left
    looks = loop._epoll.looks  # type: ignore[attr-defined]
    loop._is_brisk = True
    loop._wait(0.001)
    assert (loop._epoll.looks == looks) is is_left  # type: ignore[attr-defined]
