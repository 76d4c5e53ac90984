"""What sharing costs: limited calls counted in Redis beside the same counted in the process, interleaved.

    python -m bench.fleet_cost [--rounds N] [--calls N]

Real instances, a real redis-server, an upstream of the tests. Every round times each way once, in turn;
shown are medians over the rounds, and the median of their ratios. Needs redis-server and penstock[redis].
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from doors import LegacyDoor  # type: ignore[import-not-found]
from fleet import Connection, Instances, flood, limit_rule, shared  # type: ignore[import-not-found]
from pairs import Upstream  # type: ignore[import-not-found]
from redis_server import RedisServer  # type: ignore[import-not-found]


def _private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    fields = dict(line.split(":", 1) for line in lines)
    return sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty"))


async def _one_by_one(port: int, calls: int) -> float:
    connection = Connection(port)
    try:
        times = []
        for number in range(calls):
            done = await connection.call(number)
            times.append(done.answered - done.sent)
        return statistics.median(times) * 1e6
    finally:
        connection.close()


def _ping(redis: RedisServer, calls: int) -> float:
    """One round trip of the driver, in microseconds."""
    import redis.asyncio as driver

    async def ask() -> float:
        client = driver.Redis(port=redis.port)
        times = []
        for _ in range(calls):
            began = time.perf_counter()
            await client.ping()
            times.append(time.perf_counter() - began)
        await client.aclose()
        return statistics.median(times) * 1e6

    return asyncio.run(ask())


def _cpu_us(pid: int) -> float:
    """Processor time that a process has had, in microseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e3


def _rate(fleet: Instances, calls: int) -> tuple[float, float]:
    """Calls a second, 16 in flight, and the processor time of one: the same whoever else uses the machine."""
    pid = fleet.all[0].process.pid
    began, had = time.perf_counter(), _cpu_us(pid)
    flood(fleet.ports, calls, 16)
    return calls / (time.perf_counter() - began), (_cpu_us(pid) - had) / calls


def measure(rounds: int, calls: int) -> dict[str, float]:
    """Every figure by name."""
    work = Path(tempfile.mkdtemp())
    rules = {"rules": [limit_rule(100_000, "60s")]}
    full = {"rules": [limit_rule(1, "3600s")]}
    found: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    def started(name: str, document: dict[str, Any]) -> Instances:
        place = work / name
        place.mkdir()
        return Instances(place, upstream.words(), document, count=1)

    with RedisServer(work) as redis, Upstream("streamable", work) as upstream:
        with (
            started("local", {"interceptor": rules}) as local,
            started("shared", {"shared": shared(redis.url), "interceptor": rules}) as far,
            started("full-local", {"interceptor": full}) as full_local,
            started(
                "full-shared", {"shared": shared(redis.url, namespace="b"), "interceptor": full}
            ) as full_far,
        ):
            note(
                "private memory more with shared, KiB",
                _private_kib(far.all[0].process.pid) - _private_kib(local.all[0].process.pid),
            )
            for number in range(rounds + 1):
                here, there = (asyncio.run(_one_by_one(one.ports[0], calls)) for one in (local, far))
                ping = _ping(redis, calls)
                rates, works = zip(
                    *(_rate(one, calls) for one in (local, far, full_local, full_far)), strict=True
                )
                if number:
                    note("PING, us", ping)
                    note("limited call, local, us", here)
                    note("limited call, shared, us", there)
                    note("added by sharing over PING (bar 2)", (there - here) / ping)
                    note("16 in flight, shared over local (bar 0.85)", rates[1] / rates[0])
                    note("past the limit, shared over local (bar 0.95)", rates[3] / rates[2])
                    note("16 in flight, processor time of a call, local, us", works[0])
                    note("16 in flight, processor time, local over shared", works[0] / works[1])
                    note("past the limit, processor time, local over shared", works[2] / works[3])
        document = {
            "shared": shared(redis.url, namespace="c"),
            "peer": {"listen": "127.0.0.1:0", "drain": "1s"},
        }
        place = work / "hops"
        place.mkdir()
        with Instances(place, Upstream("stdio", work).words(), document, count=2) as fleet:
            client = LegacyDoor(fleet.ports[0], "legacy", listens=False)
            client.begin()
            for number in range(rounds + 1):
                medians = []
                for port in fleet.ports:
                    client.port = port
                    times = []
                    for _ in range(max(10, calls // 5)):
                        began = time.perf_counter()
                        client.ask("x/nothing")
                        times.append(time.perf_counter() - began)
                        client.heard.clear()
                        while client.responses:
                            client.responses.pop().close()
                    medians.append(statistics.median(times))
                if number:
                    note("forwarded over owned (bar 2.2)", medians[1] / medians[0])
            client.close()
        memory = int(
            redis.ask("MEMORY", "USAGE", max(redis.ask("KEYS", "*"), key=lambda key: _size(redis, key)))
        )
        note("largest key in Redis, bytes", memory)
    return {name: round(statistics.median(values), 2) for name, values in found.items()}


def _size(redis: RedisServer, key: bytes) -> int:
    return int(redis.ask("MEMORY", "USAGE", key) or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times limited calls with and without Redis.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=300, help="in each round, each way")
    options = parser.parse_args()
    for name, value in measure(options.rounds, options.calls).items():
        print(f"{name:<48} {value:>10}")


if __name__ == "__main__":
    main()
