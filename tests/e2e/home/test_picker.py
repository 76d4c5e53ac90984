"""Choosing tools by hand, at a terminal and without one."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest

from gate import SCRIPTED
from home_folder import PENSTOCK, Home

TOOLS: list[dict[str, Any]] = [
    {"name": "read.all", "description": "Reads.", "annotations": {"readOnlyHint": True}},
    {"name": "read/one", "description": "Reads\u001b[2J one\u202e.", "annotations": {"readOnlyHint": True}},
    {"name": "cost$", "description": "Counts " + "much " * 30},
    {"name": "write", "description": "Writes.", "annotations": {"destructiveHint": True}},
    {"name": "writer", "description": "Is not write."},
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    pages = tmp_path / "pages"
    tools = [{"inputSchema": {"type": "object"}, **tool} for tool in TOOLS]
    pages.write_text(json.dumps({"tools": tools}) + "\n")
    entry = {"command": sys.executable, "args": ["-S", str(SCRIPTED), "--pages", str(pages)]}
    made.write("project", ".mcp.json", json.dumps({"mcpServers": {"s": entry}}))
    return made


class Terminal:
    """Penstock on a terminal of its own, and what is on its screen."""

    def __init__(self, home: Home, *words: str) -> None:
        env = {**home.environment(), "TERM": "xterm"}
        self.child = pexpect.spawn(
            str(PENSTOCK), list(words), cwd=str(home.project), env=env, dimensions=(24, 100), timeout=30
        )
        self._screen = pyte.Screen(100, 24)
        self._stream = pyte.ByteStream(self._screen)

    def until(self, pattern: str) -> str:
        """Reads until the screen shows `pattern`; the whole screen."""
        for _ in range(300):
            shown = "\n".join(self._screen.display)
            if re.search(pattern, shown):
                return shown
            try:
                self._stream.feed(self.child.read_nonblocking(65536, timeout=0.1))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                break
        raise AssertionError(f"{pattern} is not on the screen:\n" + "\n".join(self._screen.display))

    def type(self, keys: str) -> None:
        self.child.send(keys)

    def end(self) -> int:
        self.child.expect(pexpect.EOF)
        self.child.close()
        return int(self.child.exitstatus)


def _args(home: Home) -> list[str]:
    return json.loads((home.project / ".mcp.json").read_text())["mcpServers"]["s"]["args"]


def _totals(home: Home) -> tuple[int, int]:
    args = _args(home)
    shown = home.run(
        "tools", "--format", "json", *args[: args.index("--")], "--", *args[args.index("--") + 1 :]
    )
    tokens = json.loads(shown.stdout)["tokens"]
    return tokens["allowed"], tokens["allowed"] + tokens["denied"]


def test_the_picker_toggles_searches_counts_and_writes_one_deny(home: Home) -> None:
    terminal = Terminal(home, "wrap", "s", "--client", "claude-code")
    first = terminal.until(r"5 of 5 kept")
    assert "[x]" in first
    assert "read.all" in first
    assert "\u202e" not in first
    terminal.type("j ")  # read/one
    terminal.until(r"4 of 5 kept")
    terminal.type("/writ")
    found = terminal.until(r"4 of 5 kept[^\n]*/writ")
    assert "writer" in found
    assert "read.all" not in found
    terminal.type("\r")
    terminal.type("a")
    terminal.until(r"2 of 5 kept")
    terminal.type("j ")  # writer comes back
    shown = terminal.until(r"3 of 5 kept, about ([0-9,]+) of ([0-9,]+) tokens")
    total = re.search(r"about ([0-9,]+) of ([0-9,]+) tokens", shown)
    assert total is not None
    terminal.type("\r")
    terminal.until(r"Write this\? \[y/N\]")
    terminal.type("y\r")
    assert terminal.end() == 0
    assert _args(home)[:2] == ["--deny", "^(read/one|write)$"]
    assert _totals(home) == (int(total[1].replace(",", "")), int(total[2].replace(",", "")))


def test_leaving_writes_nothing(home: Home) -> None:
    before = (home.project / ".mcp.json").read_bytes()
    terminal = Terminal(home, "wrap", "s", "--client", "claude-code", "--pick")
    terminal.until("5 of 5 kept")
    terminal.type(" q")
    assert terminal.end() == 1
    assert (home.project / ".mcp.json").read_bytes() == before
    assert not home.state.exists()


def test_numbered_lines_give_the_same_flags(home: Home) -> None:
    words = ("wrap", "s", "--client", "claude-code", "--pick", "--plain", "--yes")
    done = home.run(*words, typed="2 4\n\n")
    assert done.returncode == 0, done.stderr
    assert "3 of 5 kept" in done.stderr
    assert "\u202e" not in done.stderr
    assert "\u001b" not in done.stderr
    assert _args(home)[:2] == ["--deny", "^(read/one|write)$"]
    assert home.run(*words, typed="q\n").returncode == 1
    again = home.run(*words, typed="\n")  # it begins with what is hidden now
    assert "Already so" in again.stderr


def test_an_allow_list_hides_what_comes_later(home: Home) -> None:
    done = home.run(
        "wrap",
        "s",
        "--client",
        "claude-code",
        "--pick",
        "--plain",
        "--as",
        "allow",
        "--yes",
        typed="r\n3\n\n",
    )
    assert done.returncode == 0, done.stderr
    assert _args(home)[:2] == ["--allow", r"^(read\.all|read/one|cost\$)$"]


def test_names_with_dots_dollars_and_slashes_vanish_and_no_others(home: Home) -> None:
    done = home.run("wrap", "s", "--client", "claude-code", "--pick", "--plain", "--yes", typed="1-4\n\n")
    assert done.returncode == 0
    args = _args(home)
    border = args.index("--")
    left = home.run("tools", "--format", "names", *args[:border], "--", *args[border + 1 :])
    assert left.stdout.split() == ["writer"]


def test_without_a_terminal_and_without_options_nothing_is_asked(home: Home) -> None:
    done = home.run("wrap", "s", "--client", "claude-code", "--yes")
    assert done.returncode == 2
    assert "--pick" in done.stderr
