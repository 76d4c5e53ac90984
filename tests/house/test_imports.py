"""Nothing loads that the run did not ask for."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import pytest

from gate import Gate

HEAVY = """yaml mcp mcp_types pydantic pydantic_core httpx httpcore anyio h11 h2 httptools ssl _ssl redis
    rich uvloop http urllib.request email xml sqlite3 multiprocessing concurrent.futures.process unittest json
    unicodedata dataclasses importlib.metadata""".split()

PEEK = """
import atexit, os, sys
def _leave():
    with open(os.environ["PENSTOCK_TEST_MODULES"], "w") as file:
        file.write("\\n".join(name for name, module in sys.modules.items() if module is not None))
atexit.register(_leave)
"""


def _modules(work: Path, *options: str, attack: bytes | None = None) -> set[str]:
    """What a run has loaded at its end."""
    (work / "sitecustomize.py").write_text(PEEK)
    target = work / "modules"
    env = {"PYTHONPATH": str(work), "PENSTOCK_TEST_MODULES": str(target)}
    with Gate(work, *options, env=env) as gate:
        gate.handshake()
        assert gate.is_alive()
        if attack is not None:
            gate.say(attack)
        assert gate.end() == 0
    return set(target.read_text().splitlines())


@pytest.mark.parametrize("options", [("--deny", "^(write|delete)_"), ("--read-only",), ()], ids=" ".join)
def test_a_plain_filter_run_loads_nothing_heavy(tmp_path: Path, options: tuple[str, ...]) -> None:
    loaded = _modules(tmp_path, *options)
    assert not loaded & set(HEAVY)
    assert not [name for name in loaded if name.startswith("penstock.auth")]


def test_23_a_plain_filter_loads_nothing_of_a_fleet(tmp_path: Path) -> None:
    rooms = (
        "redis",
        "penstock.fleet",
        "penstock.peers",
        "penstock.open_",
        "penstock.supervisor",
        "penstock.state",
    )
    loaded = _modules(tmp_path, "--deny", "^(write|delete)_")
    allowed = {"penstock.open_gate", "penstock.open_links"}
    assert not {name for name in loaded if name.startswith(rooms)} - allowed


@pytest.mark.parametrize(
    ("rules", "is_loaded"), [("", False), ("\ninterceptor:\n  rules: []\n", True)], ids=["none", "some"]
)
def test_a_file_without_rules_loads_no_rules(tmp_path: Path, rules: str, is_loaded: bool) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(f"tools: {{deny: [^write_]}}{rules}")
    loaded = _modules(tmp_path, "--config", str(path))
    assert ("penstock.policy.rules.interceptor" in loaded) == is_loaded


def test_this_test_would_see_a_heavy_module(tmp_path: Path) -> None:
    twice = b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b","n\xc3\xa4me":1}'
    assert "unicodedata" in _modules(tmp_path, "--deny", "x", attack=twice)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_start_time_and_memory_are_printed_and_not_judged(tmp_path: Path) -> None:
    began = time.monotonic()
    with Gate(tmp_path, "--deny", "^(write|delete)_") as gate:
        gate.handshake()
        assert gate.is_alive()
        took = time.monotonic() - began
        fields = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{gate.process.pid}/smaps_rollup").read_text().splitlines()[1:]
        )
        private = sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty"))
        resident = int(fields["Rss"].split()[0])
        assert gate.end() == 0
    # A warning, because that is what every way of running pytest shows.
    warnings.warn(
        f"for the record: first call answered {took * 1000:.0f} ms after exec, upstream included; "
        f"private memory {private / 1024:.1f} MB, resident {resident / 1024:.1f} MB",
        stacklevel=1,
    )
