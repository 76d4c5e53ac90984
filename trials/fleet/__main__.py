"""`python -m trials.fleet [--seconds N]`: mixed load on five instances while each party is killed once.

Prints a table, and exits with 1 when a limit did not hold: more in a window than the limit, or, when Redis
has lost its memory, than twice the limit; or a refusal that nothing explains.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from fleet import Call, Connection, Instances, limit_rule, shared  # type: ignore[import-not-found]
from pairs import Upstream  # type: ignore[import-not-found]
from redis_server import RedisServer  # type: ignore[import-not-found]
from trials.faults.tcp_relay import TcpRelay
from trials.faults.toxics import Toxic
from trials.fleet.checker import unfounded, worst_window

LIMIT, WINDOW = 50, 2.0
EXCEEDED = "Rate limit exceeded"
_BEFORE: list[tuple[float, float]] = []


async def _load(ports: list[int], seconds: float, calls: list[Call]) -> None:
    """Clients that ask in bursts and pauses, each at an instance of its own choice."""
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        chance = random.Random(number)
        while time.monotonic() < end:
            connection = Connection(chance.choice(ports))
            try:
                for _ in range(chance.randrange(1, 8)):
                    calls.append(await asyncio.wait_for(connection.call(number), 10))
            except (OSError, EOFError, TimeoutError, ValueError, IndexError):
                pass  # its instance was killed
            finally:
                connection.close()
            await asyncio.sleep(chance.random() * 0.2)

    await asyncio.gather(*(client(number) for number in range(16)))


def _judge(name: str, calls: list[Call], most: int, is_steady: bool) -> bool:
    admitted = [(call.sent, call.answered) for call in calls if call.passed]
    told = [call for call in calls if not call.passed]
    refused = [
        (call.sent, call.answered) for call in told if call.answer.get("error", {}).get("message") == EXCEEDED
    ]
    worst = worst_window(admitted, WINDOW)
    _BEFORE.extend(admitted)  # a window may reach back into the load before
    strange = unfounded(_BEFORE, refused, LIMIT, WINDOW, 0.0) if is_steady else 0
    is_good = worst <= most and not strange and bool(admitted)
    print(
        f"{name:<34} {len(calls):>6} calls {len(admitted):>5} passed  worst window {worst:>3} (most {most})"
        f"  unexplained refusals {strange}  {'holds' if is_good else 'DOES NOT HOLD'}",
        flush=True,
    )
    return is_good


def _phase(name: str, ports: list[int], seconds: float, most: int = LIMIT, is_steady: bool = True) -> bool:
    calls: list[Call] = []
    asyncio.run(_load(ports, seconds, calls))
    return _judge(name, calls, most, is_steady)


def main() -> int:
    parser = argparse.ArgumentParser(description="Five instances, one Redis, faults; is the limit a limit?")
    parser.add_argument("--seconds", type=float, default=15.0, help="of load, for each fault")
    seconds = parser.parse_args().seconds
    work = Path(tempfile.mkdtemp())
    good = []
    with (
        RedisServer(work) as redis,
        TcpRelay("127.0.0.1", redis.port) as relay,
        Upstream("streamable", work) as upstream,
    ):
        settings = shared(f"redis://127.0.0.1:{relay.port}/0", timeout="300ms")
        document = {"shared": settings, "interceptor": {"rules": [limit_rule(LIMIT, "2s")]}}
        with Instances(work, upstream.words(), document, count=5) as fleet:
            good.append(_phase("nothing fails", fleet.ports, seconds))
            relay.toxic = Toxic("latency", seconds=0.02)
            good.append(_phase("Redis is 20 ms away", fleet.ports, seconds))
            relay.toxic = Toxic()
            killed = fleet.all.pop()
            killed.process.kill()
            killed.process.wait()
            good.append(_phase("an instance is gone (kill -9)", fleet.ports, seconds))
            redis.freeze()
            time.sleep(1)
            redis.thaw()
            time.sleep(6)
            good.append(_phase("Redis froze for a second", fleet.ports, seconds))
            redis.kill()
            redis.start()
            time.sleep(6)
            good.append(_phase("Redis was killed and is empty", fleet.ports, seconds, 2 * LIMIT, False))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
