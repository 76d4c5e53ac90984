"""What can be wrong with a line: each fault is one `Toxic`, and `pump` moves bytes through it.

A toxic looks at one direction. Those that end a connection do so once, after so many bytes: what comes after
shows who survived. The names are those of the trade (latency, slicer, bandwidth, slow close, reset, cut).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

KINDS = ("none", "latency", "bandwidth", "slicer", "stall", "slow-close", "cut", "reset")
ENDING = ("cut", "reset")
"""Those after which a connection is gone; every other one only takes time."""


@dataclass
class Toxic:
    """A fault on a line. `toward` is where the bytes go that it spoils: "client" or "upstream"."""

    kind: str = "none"
    toward: str = "client"
    after: int = 0  # bytes that pass unspoilt, of all connections together
    seconds: float = 0.0
    rate: int = 0  # bytes a second
    is_spent: bool = field(default=False, init=False)
    _passed: int = field(default=0, init=False)

    async def spoil(self, chunk: bytes, write: Callable[[bytes], Awaitable[None]]) -> str | None:
        """Writes `chunk` in its own way; "cut" or "reset" when the line ends here."""
        room = max(0, self.after - self._passed)
        self._passed += len(chunk)
        if room >= len(chunk) or self.is_spent:
            await write(chunk)
            return None
        if self.kind == "latency":
            await asyncio.sleep(self.seconds)
        elif self.kind == "stall":
            self.is_spent = True
            await write(chunk[:room])
            await asyncio.sleep(self.seconds)
            chunk = chunk[room:]
        elif self.kind == "slicer":
            for at in range(len(chunk)):
                await write(chunk[at : at + 1])
                await asyncio.sleep(0)
            return None
        elif self.kind == "bandwidth":
            step = max(1, self.rate // 50)
            for at in range(0, len(chunk), step):
                await write(chunk[at : at + step])
                await asyncio.sleep(len(chunk[at : at + step]) / self.rate)
            return None
        elif self.kind in ENDING:
            self.is_spent = True
            await write(chunk[:room])
            return self.kind
        await write(chunk)
        return None

    async def before_close(self) -> None:
        """What is to be waited for before an end is passed on."""
        if self.kind == "slow-close":
            await asyncio.sleep(self.seconds)


async def pump(
    read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]], toxic: Toxic | None
) -> str:
    """Moves bytes to their end; why it ended: "end", "cut" or "reset"."""
    try:
        while chunk := await read():
            if toxic is None:
                await write(chunk)
            elif (ended := await toxic.spoil(chunk, write)) is not None:
                return ended
    except OSError:
        return "reset"
    if toxic is not None:
        await toxic.before_close()
    return "end"
