"""A command has a time of its own to start: a package manager may have to fetch the server first."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gate import SCRIPTED
from pairs import Proxy

SLOW = "import sys, time, runpy; time.sleep({}); sys.argv = ['s']; runpy.run_path({!r}, run_name='__main__')"


def slow(seconds: float) -> list[str]:
    return [sys.executable, "-S", "-c", SLOW.format(seconds, str(SCRIPTED))]


def penstock(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_starting_may_take_longer_than_the_tool_list() -> None:
    shown = penstock("tools", "--tools-timeout", "1s", "--format", "names", "--", *slow(3))
    assert shown.returncode == 0, shown.stderr
    assert "echo" in shown.stdout


def test_a_listener_waits_for_a_slow_start_too(tmp_path: Path) -> None:
    with Proxy(tmp_path, ["--", *slow(3)], "--tools-timeout", "1s", "--deny", "^write") as proxy:
        door = proxy.connect("streamable", "legacy")
        door.begin()
        assert door.is_alive()


def test_after_the_first_answer_the_list_has_its_own_time() -> None:
    began = time.monotonic()
    silent = [sys.executable, "-S", str(SCRIPTED), "--mute", "list"]
    shown = penstock("tools", "--tools-timeout", "500ms", "--", *silent)
    assert shown.returncode == 1
    assert "Error: Failed to fetch tool list from upstream MCP\nRequest timeout after 500ms\n" in shown.stderr
    assert "--tools-timeout gives it longer" in shown.stderr
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("verb", [["tools"], ["--listen", "0"]], ids=["tools", "listen"])
def test_too_slow_a_start_names_the_command_and_the_option(verb: list[str]) -> None:
    shown = penstock(
        *verb, "--start-timeout", "700ms", "--", sys.executable, "-c", "import time; time.sleep(60)"
    )
    assert shown.returncode == 1
    assert f"Error: Failed to connect to upstream MCP at {sys.executable} -c" in shown.stderr
    assert "No answer within 700ms; --start-timeout gives it longer" in shown.stderr


def test_people_hear_that_it_is_still_starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import penstock.limits\npenstock.limits.STARTING_SECONDS = 0.5\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    shown = penstock(
        "tools", "--start-timeout", "1200ms", "--", sys.executable, "-S", "-c", "input(); input()"
    )
    assert "Still starting (1 s): " in shown.stderr
    assert "-c 'input(); input()'" in shown.stderr


def test_one_that_is_still_starting_gets_sigterm_and_time_to_clean_up(tmp_path: Path) -> None:
    mark = tmp_path / "cleaned"
    script = (
        "import signal, sys, time\n"
        "def leave(*_):\n"
        f"    time.sleep(1.5); open({str(mark)!r}, 'w').close(); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        "time.sleep(60)\n"
    )
    penstock("tools", "--start-timeout", "1500ms", "--", sys.executable, "-S", "-c", script)
    assert mark.exists()
