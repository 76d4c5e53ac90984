"""Numbered calls as fast as a session takes them, each answer compared with every byte it must have."""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass, field
from typing import Any

from trials.soak.clients import META, Broken
from trials.soak.upstream import MASK, digest_of

SIZE = 1_000


def arguments_of(number: int, size: int = SIZE) -> bytes:
    """What call `number` carries; no two are alike."""
    seed = hashlib.blake2b(b"%d" % number, digest_size=32).hexdigest().encode()
    return b'{"n":%d,"t":"%b"}' % (number, (seed * (size // 64 + 1))[:size])


@dataclass
class Tally:
    """What became of the calls of many sessions."""

    sent: int = 0
    answered: int = 0
    changed: int = 0
    refused: int = 0
    digest: int = 0
    waits: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    _next: int = 0

    def next(self) -> int:
        self._next += 1
        return self._next

    def p(self, part: float) -> float:
        """The wait, in milliseconds, that this part of the calls did not exceed."""
        if not self.waits:
            return 0.0
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000


async def call_once(session: Any, tally: Tally, size: int = SIZE) -> None:
    """One numbered call."""
    number = tally.next()
    arguments = arguments_of(number, size)
    raw = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo",%b"arguments":%b}}' % (
        number,
        META + b"," if session.is_modern else b"",
        arguments,
    )
    tally.sent += 1
    tally.digest = (tally.digest + digest_of(arguments)) & MASK
    began = time.perf_counter()
    try:
        answer = await session.call(number, raw)
    except Broken as why:
        tally.refused += 1
        tally.reasons.append(str(why))
        return
    tally.waits.append(time.perf_counter() - began)
    if answer == b'{"jsonrpc":"2.0","id":%d,"result":{"echo":%b}}' % (number, arguments):
        tally.answered += 1
    else:
        tally.changed += 1
        tally.reasons.append(repr(answer[:200]))


async def run(
    sessions: list[Any],
    tally: Tally,
    seconds: float,
    most: int | None = None,
    size: int = SIZE,
    pause: float = 0.0,
) -> float:
    """Calls on all sessions for so long, or so often; how long it took."""
    end = time.monotonic() + seconds
    began = time.monotonic()

    async def work(session: Any, offset: float) -> None:
        await asyncio.sleep(pause * offset)
        while time.monotonic() < end and (most is None or tally.sent < most) and tally.refused < 100:
            await call_once(session, tally, size)
            if pause:
                await asyncio.sleep(pause)

    each = [session for session in sessions for _ in range(session.at_once)]
    await asyncio.gather(*(work(session, at / len(each)) for at, session in enumerate(each)))
    return time.monotonic() - began
