"""docs/performance.md and its plots say what bench/results.json says, and the benchmark works."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.page import RESULTS, pages
from bench.verdicts import verdicts

ROOT = Path(__file__).resolve().parent.parent.parent
FIGURES = {"p50", "p99", "rate", "cpu"}


def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return found


@pytest.mark.parametrize("name", ["performance.md", "performance-added.svg", "performance-growth.svg"])
def test_the_page_is_what_the_results_give(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == pages(results())[name], "run python -m bench.page"


def test_every_promise_stands_on_the_page_with_its_verdict() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    for verdict in verdicts(results()):
        assert f"| {verdict.promise} | {verdict.limit} | {verdict.measured} | {verdict.state} |" in page


def test_a_worse_figure_is_a_missed_promise() -> None:
    worse = results()
    worse["groups"]["http-http"]["targets"]["penstock"]["call c=1"] = {"p50 x nginx": 9.0}
    assert verdicts(worse)[0].state == "missed"


@pytest.mark.skipif(sys.platform != "linux", reason="measures through /proc")
@pytest.mark.timeout(300)
def test_the_benchmark_runs_and_every_answer_is_right(tmp_path: Path) -> None:
    """A few requests each. How long they take is nobody's business here."""
    file = tmp_path / "results.json"
    command = [sys.executable, "-m", "bench", "--smoke", "--no-peers", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    for pair, group in found["groups"].items():
        assert {"direct", "penstock"} <= set(group["targets"]), pair
        for name, cells in group["targets"].items():
            for key, cell in cells.items():
                assert set(cell) >= FIGURES, (pair, name, key, cell)
    assert set(found["groups"]) == {"http-http", "stdio-stdio"} == set(found["memory"]["pairs"])
    for pair in found["groups"]:
        assert found["start"][pair]["penstock"]["ms"] > 0
        assert found["memory"]["pairs"][pair]["penstock"]["rest"]["private"] > 0
        assert "after 10 MB" in found["memory"]["pairs"][pair]["penstock"]
    assert found["memory"]["pairs"]["http-http"]["penstock"]["sessions"]["count"] == 5
    for name in ("tools", "rules", "size", "sessions"):
        assert "failed" not in found["growth"][name]
    if shutil.which("cc"):
        assert "relay" in found["groups"]["stdio-stdio"]["targets"]
    assert set(pages(found)) == {"performance.md", "performance-added.svg", "performance-growth.svg"}
