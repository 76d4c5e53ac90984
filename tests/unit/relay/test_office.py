"""Where sessions get their links: not more than may be open and about to close."""

from __future__ import annotations

import asyncio

from penstock import limits
from penstock.gate.gate import Gate
from penstock.policy.exchange import Session
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.relay.catalogs import Catalogs
from penstock.relay.kept_lists import KeptLists
from penstock.relay.link_pool import LinkPool


class Lingering:
    """A link that takes its time to close."""

    def __init__(self) -> None:
        self.may_leave = asyncio.Event()

    async def close(self) -> None:
        await self.may_leave.wait()


def test_no_link_is_opened_while_too_many_are_closing() -> None:
    async def run() -> None:
        pool = LinkPool(
            Lingering,  # type: ignore[arg-type]
            Gate(ToolFilter()),
            Catalogs(ToolFilter(), KeptLists(None)),  # type: ignore[arg-type]
            1.0,
            lambda catalog: None,
            lambda session_id: Session(),
        )
        links = [Lingering() for _ in range(limits.SESSIONS)]
        for link in links:
            assert not pool.is_full
            pool.close_link(link)  # type: ignore[arg-type]
        assert pool.is_full
        for link in links:
            link.may_leave.set()
        await pool.closed()
        assert not pool.is_full

    asyncio.run(run())
