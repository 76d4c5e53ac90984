"""The loads, one function each. What is exact decides; what is a time is told as a ratio."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from trials.soak.clients import META, Broken, HttpLine, Stdio
from trials.soak.site import DENY, PENSTOCK, Site, children, files, is_running, until, uss
from trials.soak.traffic import Tally, run
from trials.soak.upstream import MASK
from trials.table import Row

MIB = 1024 * 1024
TRANSPORTS = ("stdio", "sse", "streamable")
SESSIONS = {"stdio": 1, "sse": 4, "streamable": 8}
WARM_UP = 0.25
"""The part of a run after which memory is looked at for the first time."""
GROWTH = 0.05
"""What memory may grow after that, of itself, but never less than FLOOR: buffers come and go."""
FLOOR = 2 * MIB
THINKING = 0.05
"""Seconds between two calls of a session where a time is told: what is asked for is a wait, not a queue."""


def _row(load: str, where: str, transport: str, wrong: list[str], told: str, began: float) -> Row:
    verdict = "; ".join(wrong[:3]) + (" | " if wrong else "") + told
    return Row(load, where, transport, verdict, not wrong, time.monotonic() - began)


def _wrong(tally: Tally) -> list[str]:
    wrong = []
    if tally.answered != tally.sent:
        wrong.append(
            f"{tally.sent - tally.answered} of {tally.sent} not answered rightly: {tally.reasons[:1]}"
        )
    return wrong


async def exactly_once(
    work: Path, client: str, upstream: str, is_modern: bool, seconds: float, most: int | None
) -> Row:
    """Numbered calls over one pair: none lost, doubled, out of order or changed; memory flat."""
    began = time.monotonic()
    with Site(work, upstream, listens=client != "stdio") as site:
        sessions = [await site.client(client, is_modern).greet() for _ in range(SESSIONS[client])]
        pids = [site.pid] if client != "stdio" else [session.process.pid for session in sessions]
        tally = Tally()
        await run(sessions, tally, 30.0, 1)  # a client of the newer era has not heard anything yet
        before_files = sum(map(files, pids))
        took = await run(sessions, tally, seconds * WARM_UP, None if most is None else int(most * WARM_UP))
        warm = sum(map(uss, pids))
        objects, _ = await site.inside(pids[0])
        took += await run(sessions, tally, seconds * (1 - WARM_UP), most)
        grown = sum(map(uss, pids)) - warm
        objects_now, _ = await site.inside(pids[0])
        wrong = _wrong(tally)
        if objects_now > objects + 1_000:  # a kept connection is a handful; a leak has no end
            wrong.append(f"{objects_now} objects, were {objects}")
        wrong += [f"{s.strays} answers that nobody waited for" for s in sessions if getattr(s, "strays", 0)]
        # Calls of one session travel side by side to a Streamable HTTP upstream, on a connection each. Where
        # clients of the newer era share a link, the upstream cannot tell whose a call is.
        is_parallel = upstream == "streamable" and sessions[0].at_once > 1
        is_shared = is_modern and client == "streamable"
        wrong += await _compare(site, sessions, tally, upstream, is_parallel or is_shared)
        allowed = max(FLOOR, int(GROWTH * warm))
        if grown > allowed:
            wrong.append(f"memory grew by {grown / MIB:.1f} MiB")
        leak = sum(map(files, pids)) - before_files
        # Connections to the upstream are kept for the next request.
        if leak > (sessions[0].at_once if is_parallel else 3) * len(sessions) + 2:
            wrong.append(f"{leak} descriptors more")
        for session in sessions:
            code = await session.close()
            if client == "stdio" and code != 0:
                wrong.append(f"exit code {code}")
        if site.process is not None and (code := site.end()) != 0:
            wrong.append(f"exit code {code}")
        if "Traceback" in site.errors.read_text():
            wrong.append("a traceback")
    told = (
        f"{tally.answered:,} messages each way, {tally.answered / took:,.0f}/s, p99 {tally.p(0.99):.1f} ms, "
        f"memory {warm / MIB:.1f} {grown / MIB:+.2f} MiB, objects {objects_now - objects:+d}"
    )
    clients = f"{SESSIONS[client]} {'of the newer era' if is_modern else 'sessions'}"
    row = _row("exactly once", clients, f"{client} -> {upstream}", wrong, told, began)
    row.count = tally.answered
    return row


async def _compare(site: Site, sessions: list[Any], tally: Tally, upstream: str, is_mixed: bool) -> list[str]:
    """What the upstream has seen against what was sent. `is_mixed`: order says nothing."""
    seen = {"calls": 0, "digest": 0, "disorder": 0}
    if upstream == "stdio":  # only a session of its own can ask a child, and some share one
        by_child = {}
        for session in sessions:
            meta = META if session.is_modern else b""
            raw = b'{"jsonrpc":"2.0","id":999999999,"method":"x/stats","params":{%b}}' % meta
            told = json.loads(await session.call(999999999, raw))["result"]
            by_child[told["pid"]] = told
        seen = {key: sum(told[key] for told in by_child.values()) for key in seen}
        seen["digest"] &= MASK
    else:
        seen = await site.stats()
    wrong = []
    if seen["calls"] != tally.sent:
        wrong.append(f"{seen['calls']} calls reached the upstream of {tally.sent} that were sent")
    if seen["digest"] != tally.digest:
        wrong.append("what reached the upstream is not what was sent")
    if seen["disorder"] and not is_mixed:
        wrong.append(f"{seen['disorder']} calls out of order")
    return wrong


async def many_sessions(work: Path, active: int, idle: int, seconds: float) -> Row:
    """Many that speak and more that do not."""
    began = time.monotonic()
    with Site(work, "streamable") as site:
        one = await site.client("streamable").greet()
        alone = Tally()
        await run([one], alone, seconds * 0.2)
        before = files(site.pid)
        sleepers = []
        for _ in range(idle):
            sleeper = await site.client("streamable").greet()
            sleeper.line.close()  # it will be back
            sleepers.append(sleeper)
        straight, tally = Tally(), Tally()
        without = [await site.direct().greet() for _ in range(active)]
        await run(without, straight, seconds * 0.3, pause=THINKING * 10)
        for session in without:
            await session.close()
        # Now, and not before: none waits so long that it is rightly hung up on.
        crowd = [await site.client("streamable").greet() for _ in range(active)]
        took = await run(crowd, tally, seconds * 0.5, pause=THINKING * 10)
        used = files(site.pid) - before
        wrong = _wrong(tally) + _wrong(straight)
        if used > 4 * active:
            wrong.append(f"{used} descriptors for {active} sessions")
        back = Tally()
        for sleeper in sleepers[:: max(1, idle // 50)]:
            sleeper.line = await HttpLine.open(site.port)
            await run([sleeper], back, 5.0, back.sent + 1)
            sleeper.line.close()
        wrong += [f"idle sessions: {text}" for text in _wrong(back)]
        memory = uss(site.pid)
        for session in [one, *crowd]:
            await session.close()
        if site.end() != 0:
            wrong.append("exit code")
    ratio = tally.p(0.99) / alone.p(0.99) if alone.waits else 0.0
    told = (
        f"{tally.answered:,} calls, {tally.answered / took:,.0f}/s, p99 {tally.p(0.99):.0f} ms, {ratio:.1f}x "
        f"of one session alone ({straight.p(0.99):.0f} ms direct), "
        f"{used / active:.1f} fds a session, {memory / MIB:.0f} MiB"
    )
    return _row(
        "many sessions", f"{active} active, {idle} idle", "streamable -> streamable", wrong, told, began
    )


async def many_children(work: Path, count: int, seconds: float) -> Row:
    """Sessions with a child each."""
    began = time.monotonic()
    with Site(work, "stdio") as site:
        await until(lambda: len(children(site.pid)) <= 1, 10)
        start = (files(site.pid), len(children(site.pid)))
        crowd: list[Any] = []
        for at in range(0, count, 5):
            crowd += await asyncio.gather(
                *(site.client("streamable").greet() for _ in range(min(5, count - at)))
            )
        tally = Tally()
        await run(crowd, tally, seconds)
        wrong = _wrong(tally)
        living = len(children(site.pid))
        used = (files(site.pid) - start[0]) / count
        if living < count:
            wrong.append(f"only {living} children")
        if used > 5:
            wrong.append(f"{used:.1f} descriptors a session")
        for session in crowd:
            await session.close()
        if not await until(lambda: (files(site.pid), len(children(site.pid))) <= start, 20):
            wrong.append(f"left: {files(site.pid)} files, {len(children(site.pid))} children, was {start}")
        if site.end() != 0:
            wrong.append("exit code")
    told = f"{tally.answered:,} calls, {used:.1f} fds a session, all children gone afterwards"
    return _row("many children", f"{count} children", "streamable -> stdio", wrong, told, began)


async def slow_readers(work: Path, stalled: int, active: int, seconds: float) -> Row:
    """Some never read what they asked for; the others must not notice, and memory stays bounded."""
    began = time.monotonic()
    with Site(work, "streamable") as site:
        crowd = [await site.client("streamable").greet() for _ in range(active)]
        before, after = Tally(), Tally()
        await run(crowd, before, seconds / 2, pause=THINKING * 2)
        memory = uss(site.pid)
        sleepers = []
        for _ in range(stalled):
            sleeper = await site.client("streamable").greet()
            sleeper.line.transport.pause_reading()
            raw = (
                b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
                b'{"name":"flood","arguments":{"count":3500}}}'  # 200 MB
            )
            sleeper.line.transport.write(sleeper.post(raw))
            sleepers.append(sleeper)
        await run(crowd, after, seconds / 2, pause=THINKING * 2)
        peak = uss(site.pid)
        wrong = _wrong(before) + _wrong(after)
        bound = int(1.1 * (memory + stalled * 20 * MIB))
        if peak > bound:
            wrong.append(f"memory {peak / MIB:.0f} MiB, over {bound / MIB:.0f}")
        for sleeper in sleepers:
            sleeper.line.cut()
        for session in crowd:
            await session.close()
        if site.end() != 0:
            wrong.append("exit code")
    ratio = after.p(0.99) / before.p(0.99) if before.waits else 0.0
    told = (
        f"actives' p99 {after.p(0.99):.0f} ms = {ratio:.1f}x of before, "
        f"memory {memory / MIB:.1f} -> {peak / MIB:.1f} MiB"
    )
    return _row(
        "slow readers", f"{stalled} stalled, {active} active", "streamable -> streamable", wrong, told, began
    )


async def fairness(work: Path, small: int, seconds: float) -> Row:
    """One sends messages of 9 MB, the others of 1 KB."""
    began = time.monotonic()
    with Site(work, "streamable") as site:
        before, after, heavy, straight = Tally(), Tally(), Tally(), Tally()
        without = [await site.direct().greet() for _ in range(small + 1)]
        await asyncio.gather(
            run(without[1:], straight, seconds * 0.3, pause=THINKING),
            run(without[:1], Tally(), seconds * 0.3, size=9_000_000),
        )
        for session in without:
            await session.close()
        crowd = [await site.client("streamable").greet() for _ in range(small)]
        await run(crowd, before, seconds * 0.2, pause=THINKING)
        big = await site.client("streamable").greet()
        await asyncio.gather(
            run(crowd, after, seconds * 0.5, pause=THINKING), run([big], heavy, seconds * 0.5, size=9_000_000)
        )
        wrong = _wrong(before) + _wrong(after) + _wrong(heavy)
        for session in [*crowd, big]:
            await session.close()
        if site.end() != 0:
            wrong.append("exit code")
    ratio = after.p(0.99) / before.p(0.99) if before.waits else 0.0
    told = (
        f"{heavy.answered} big ones, small p99 {after.p(0.99):.0f} ms = {ratio:.1f}x of before, "
        f"longest {after.p(1.0):.0f} ms ({straight.p(1.0):.0f} direct)"
    )
    return _row("fairness", f"one of 9 MB, {small} of 1 KB", "streamable -> streamable", wrong, told, began)


async def churn(work: Path, client: str, upstream: str, count: int) -> Row:
    """Clients come and go, a third of them cut off without a word; all is as it was afterwards."""
    began = time.monotonic()
    with Site(work, upstream) as site:
        tally = Tally()
        # What is loaded once is loaded now, and the allocator has as much as a crowd of them needs.
        await _come_and_go(site, client, max(30, int(count * WARM_UP)), tally)
        await until(lambda: len(children(site.pid)) <= 1, 30)
        await asyncio.sleep(5.0)  # kept connections to the upstream have gone by now
        objects, tasks = await site.inside()
        start, memory = (files(site.pid), len(children(site.pid))), uss(site.pid)
        await _come_and_go(site, client, count, tally)
        wrong = _wrong(tally)
        wait = 75.0 if upstream == "stdio" else 10.0
        if not await until(lambda: (files(site.pid), len(children(site.pid))) <= start, wait):
            now = (files(site.pid), len(children(site.pid)))
            wrong.append(f"files and children {now}, were {start}")
        most = objects + max(150, count // 50)  # who leaves something behind leaves it each time
        for _ in range(10):  # on a busy machine the last of them take their time
            await asyncio.sleep(1.0)
            objects_now, tasks_now = await site.inside()
            if tasks_now <= tasks and objects_now <= most:
                break
        if tasks_now > tasks:
            wrong.append(f"{tasks_now} tasks, were {tasks}")
        if objects_now > most:
            wrong.append(f"{objects_now} objects, were {objects}")
        # The allocator keeps what a crowd has scattered: some more at first, and the same after any number.
        grown = uss(site.pid) - memory
        if grown > 0.2 * memory:
            wrong.append(f"memory grew by {grown / MIB:.1f} MiB")
        if site.end() != 0:
            wrong.append("exit code")
    told = (
        f"files and children back to {start}, tasks {tasks} -> {tasks_now}, "
        f"objects {objects:,} -> {objects_now:,}, memory {memory / MIB:.1f} {grown / MIB:+.2f} MiB"
    )
    return _row("churn", f"{count:,} connects, a third cut", f"{client} -> {upstream}", wrong, told, began)


async def _come_and_go(site: Site, client: str, count: int, tally: Tally) -> None:
    turn = asyncio.Semaphore(16)

    async def one(number: int) -> None:
        async with turn:
            session = site.client(client)
            if number % 3 == 2:
                line = await HttpLine.open(site.port)  # says half a word, and is gone
                line.transport.write(b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
                await asyncio.sleep(0)
                line.cut()
                return
            try:
                await session.greet()
                await run([session], tally, 30.0, tally.sent + 1)
                await session.close()
            except Broken as why:
                tally.refused += 1
                tally.reasons.append(str(why))

    await asyncio.gather(*(one(number) for number in range(count)))


async def too_many(work: Path, count: int) -> Row:
    """More connections than there is room for: told so, and the room is free again afterwards."""
    began = time.monotonic()
    with Site(work, "streamable") as site:
        one = await site.client("streamable").greet()
        start = files(site.pid)
        lines, refused = [], 0
        for _ in range(count):
            line = await HttpLine.open(site.port)
            lines.append(line)
        for line in lines:
            try:
                status, _, _ = await line.ask(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                refused += status == 503
            except Broken:
                refused += 1
        tally = Tally()
        await run([one], tally, 5.0, 20)
        wrong = _wrong(tally)
        if not refused:
            wrong.append("nobody was refused")
        for line in lines:
            line.close()
        if not await until(lambda: files(site.pid) <= start + 1, 10):
            wrong.append(f"{files(site.pid)} files, were {start}")
        await one.close()
        if site.end() != 0:
            wrong.append("exit code")
    told = f"{count - refused} taken, {refused} refused, the old session served, files back to {start}"
    return _row("too many connections", f"{count:,} at once", "streamable -> streamable", wrong, told, began)


async def dripping(work: Path, count: int) -> Row:
    """Requests that come a byte at a time, half of them in their heads and half in their bodies."""
    began = time.monotonic()
    start_of_head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with Site(work, "streamable") as site:
        crowd = [await site.client("streamable").greet() for _ in range(8)]
        before, meanwhile = Tally(), Tally()
        await run(crowd, before, 3.0, pause=THINKING)
        start = files(site.pid)
        lines = [await HttpLine.open(site.port) for _ in range(count)]
        for place, line in enumerate(lines):
            line.transport.write(start_of_head + (b"Content-Length: 1000\r\n\r\n" if place % 2 else b"X: "))
        at = time.monotonic()
        calls = asyncio.create_task(run(crowd, meanwhile, 12.0, pause=THINKING))
        while (left := [line for line in lines if not line.is_gone]) and time.monotonic() < at + 30:
            for line in left:
                line.transport.write(b"x")
            await asyncio.sleep(1.0)
        took = time.monotonic() - at
        await calls
        wrong = _wrong(before) + _wrong(meanwhile)
        if left:
            wrong.append(f"{len(left)} still there after 30 s")
        if not await until(lambda: files(site.pid) <= start + 1, 10):
            wrong.append(f"{files(site.pid)} files, were {start}")
        for session in crowd:
            await session.close()
        if site.end() != 0:
            wrong.append("exit code")
    ratio = meanwhile.p(0.99) / before.p(0.99) if before.waits else 0.0
    told = f"all closed after {took:.0f} s, p99 of others {ratio:.1f}x of before, files back to {start}"
    return _row("a byte a second", f"{count} connections", "streamable -> streamable", wrong, told, began)


async def starts_and_stops(work: Path, count: int) -> Row:
    """Whole lives, one after another: nobody is left behind."""
    began = time.monotonic()
    command = [*PENSTOCK, "--stdio", *DENY, "--", sys.executable, "-S", "-m", "trials.soak.upstream", "stdio"]
    wrong: list[str] = []
    seen: list[int] = []
    starts, stops = [], []
    for _ in range(count):
        with (work / "starts").open("ab") as errors:
            session = Stdio(command, errors)
            at = time.monotonic()
            await session.greet()
            tally = Tally()
            await run([session], tally, 10.0, 1)
            starts.append(time.monotonic() - at)
            assert session.process is not None
            seen += [session.process.pid, *children(session.process.pid)]
            at = time.monotonic()
            code = await session.close()
            stops.append(time.monotonic() - at)
            if code != 0 or tally.answered < 1:
                wrong.append(f"exit code {code}, {tally.answered} answers")
    left = [pid for pid in seen if is_running(pid)]
    if left:
        wrong.append(f"{len(left)} processes left behind")
    if _zombies():
        wrong.append("zombies")
    if max(stops) > 6.0:
        wrong.append(f"a stop took {max(stops):.1f} s")
    start, bare = sorted(starts)[len(starts) // 2], _bare_start()
    told = (
        f"none left of {len(seen)} processes, first answer after {start * 1000:.0f} ms "
        f"({start / bare:.1f}x of a bare import of asyncio), longest stop {max(stops):.2f} s"
    )
    return _row("starts and stops", f"{count} lives", "stdio -> stdio", wrong, told, began)


def _zombies() -> bool:
    words = ["ps", "--ppid", str(os.getpid()), "-o", "stat="]
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return any(line.strip().startswith("Z") for line in listed.splitlines())


def _bare_start() -> float:
    """How long the interpreter takes alone, in this very moment."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import asyncio"], check=True)
    return time.monotonic() - began
