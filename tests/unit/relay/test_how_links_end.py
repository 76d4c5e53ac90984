"""How a link ends that stands before another one: what is behind it ends too, in the time that was given."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from penstock.net.warden import Warden
from penstock.relay.adapters.bridged_link import BridgedLink
from penstock.relay.adapters.swapping_link import SwappingLink
from penstock.relay.contracts import UpstreamLink
from penstock.relay.first_request import FirstRequestLink
from penstock.upstream.stdio import StdioUpstream
from penstock.upstream.timed import TimedLink

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
"""A process that leaves neither when its input ends nor when it is asked to."""

AROUND: dict[str, Callable[[StdioUpstream], Any]] = {
    "a translated one": BridgedLink,
    "one with a token": lambda link: SwappingLink(link, source=None),  # type: ignore[arg-type]
    "one with a time limit": lambda link: TimedLink(link, 60),
    "one whose era is open": lambda link: FirstRequestLink(link, "auto", 60),
}


class Nobody:
    """Hears everything and does nothing."""

    def from_upstream(self, raw: bytes) -> None: ...

    def upstream_noise(self, raw: bytes) -> None: ...

    def upstream_refused(self, id_token: bytes | None, why: str, raw: bytes = b"") -> None: ...

    def upstream_lost(self, error: Exception) -> None: ...


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("kind", AROUND)
@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_behind_a_link_ends_with_it(kind: str, at_once: bool) -> None:
    async def run() -> int:
        child = StdioUpstream([sys.executable, "-S", "-E", "-c", DEAF], None, None, Warden())
        link: UpstreamLink = AROUND[kind](child)
        link.receiver = Nobody()
        assert is_alive(child.group)
        if at_once:
            link.kill()
        await link.stop(0.0)
        return child.group

    assert not is_alive(asyncio.run(run()))
