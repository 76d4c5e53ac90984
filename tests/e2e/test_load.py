"""The short form of `make soak`: a little of what is exact. Its figures: docs/faults-and-load.md."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from gate import ROOT

sys.path.insert(0, str(ROOT))

from trials.soak import abuses, loads
from trials.soak.__main__ import plan

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

MANY = 300
PLENTY = 60.0  # seconds that no run of so few messages needs


@pytest.mark.parametrize("is_modern", [False, True], ids=["legacy", "modern"])
@pytest.mark.parametrize("upstream", loads.TRANSPORTS)
@pytest.mark.parametrize("client", loads.TRANSPORTS)
def test_numbered_messages_arrive_once_whole_and_in_order(
    client: str, upstream: str, is_modern: bool, tmp_path: Path
):
    row = asyncio.run(loads.exactly_once(tmp_path, client, upstream, is_modern, PLENTY, MANY))
    assert row.is_held, row.verdict
    assert row.count >= MANY


@pytest.mark.parametrize(
    ("lie", "noticed"), [("change", "not answered rightly"), ("twice", "calls reached the upstream")]
)
def test_one_wrong_message_in_hundreds_is_noticed(
    lie: str, noticed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SOAK_LIE", lie)
    row = asyncio.run(loads.exactly_once(tmp_path, "stdio", "stdio", False, PLENTY, MANY))
    assert not row.is_held
    assert noticed in row.verdict


def test_those_who_come_and_go_leave_nothing_behind(tmp_path: Path):
    row = asyncio.run(loads.churn(tmp_path, "streamable", "streamable", 300))
    assert row.is_held, row.verdict


@pytest.mark.parametrize(
    ("client", "upstream", "what", "is_ruled"),
    [  # `make soak` tries all of them a thousand times each.
        ("legacy", "streamable", "hung up", False),
        ("legacy", "streamable", "hung up", True),
        ("legacy", "streamable", "refused", True),
        ("legacy", "streamable", "invented", True),
        ("modern", "stdio", "hung up", False),
        ("modern", "stdio", "invented", True),
    ],
)
def test_memory_is_flat_without_the_collector_however_exchanges_end(
    client: str, upstream: str, what: str, is_ruled: bool, tmp_path: Path
):
    row = asyncio.run(abuses.abuse(tmp_path, client, upstream, what, is_ruled, 100))
    assert row.is_held, row.verdict


def test_whole_lives_leave_no_process_behind(tmp_path: Path):
    row = asyncio.run(loads.starts_and_stops(tmp_path, 3))
    assert row.is_held, row.verdict


def test_a_count_of_messages_is_shared_out_among_all_pairs_in_both_eras(tmp_path: Path):
    parts = [load for name, load in plan(tmp_path, 1.0, 1_000_000) if name == "once"]
    assert len(parts) == len({part.args for part in parts}) == 18  # type: ignore[attr-defined]
    assert sum(part.args[-1] for part in parts) >= 1_000_000  # type: ignore[attr-defined]
