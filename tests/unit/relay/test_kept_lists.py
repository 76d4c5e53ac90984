"""Lists that an upstream has given, kept unfiltered: who waits for one, and what becomes of a failure."""

from __future__ import annotations

import asyncio

import pytest

from memory_doors import catalog, upstream_tools
from penstock.errors import ToolListFailed, UpstreamError
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.tools.upstream_tools import UpstreamTools
from penstock.relay.kept_lists import EVERYBODYS, CatalogKey, KeptLists
from penstock.wire.mcp.eras import Era

KEY = EVERYBODYS[0]
FAILED = ToolListFailed("The answer cannot be read")
TOLD = "Failed to fetch tool list from upstream MCP. The answer cannot be read."


def shown(key: CatalogKey, tools: UpstreamTools) -> ToolCatalog | UpstreamError:
    return catalog()


def refused(key: CatalogKey, tools: UpstreamTools) -> ToolCatalog | UpstreamError:
    return FAILED


def test_a_list_that_cannot_be_had_or_shown_is_told_to_people_and_to_who_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(era: Era) -> UpstreamTools:
        raise FAILED

    async def run() -> None:
        lists, outcomes = KeptLists(fails), []
        lists.wait(KEY, (shown, outcomes.append), None)
        await asyncio.wait(lists._tasks)
        assert outcomes == [FAILED]
        assert [record.getMessage() for record in caplog.records] == [TOLD]
        lists.wait(KEY, (refused, outcomes.append), lambda: None)
        lists.put(KEY, upstream_tools())
        assert outcomes == [FAILED, FAILED]
        assert [record.getMessage() for record in caplog.records] == [TOLD, TOLD]

    asyncio.run(run())


def test_a_list_is_learned_once_for_all_who_wait_and_nothing_is_left_of_the_task() -> None:
    asked: list[Era] = []

    async def learn(era: Era) -> UpstreamTools:
        asked.append(era)
        return upstream_tools()

    async def run() -> None:
        lists, outcomes = KeptLists(learn), []
        lists.wait(KEY, (shown, outcomes.append), None)
        lists.wait(KEY, (shown, outcomes.append), None)
        assert len(lists._tasks) == 1  # the loop itself keeps none of them alive
        await asyncio.wait(lists._tasks)
        await asyncio.sleep(0)
        assert not lists._tasks
        assert (asked, outcomes) == ([KEY.era], [catalog(), catalog()])

    asyncio.run(asyncio.wait_for(run(), 20))
