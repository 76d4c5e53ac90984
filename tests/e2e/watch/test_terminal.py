"""The live view in a terminal of 80 by 24 (acceptance 25)."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pyte
import pytest

from gate import SAMPLE, Gate
from sessions import START, RecordingMaker, penstock

DEADLINE = 20.0


class Terminal:
    """`penstock watch` on a terminal, and what it shows."""

    def __init__(self, *words: str) -> None:
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        env = {**os.environ, "TERM": "linux", "LANG": "C.UTF-8"}
        for name in ("COLUMNS", "LINES"):  # curses would believe them rather than the terminal
            env.pop(name, None)
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "penstock", "watch", *words],
            env=env,
            dimensions=(24, 80),
            timeout=DEADLINE,
        )

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    def shows(self, *texts: str) -> None:
        """Waits until all of these are there."""
        until = time.monotonic() + DEADLINE
        while time.monotonic() < until:
            try:
                self._stream.feed(self.child.read_nonblocking(65536, 0.1))
            except pexpect.TIMEOUT:
                pass
            if all(text in self.text for text in texts):
                return
        raise AssertionError(f"{texts} never came:\n{self.text}")

    def press(self, keys: str) -> None:
        self.child.send(keys)

    def resize(self, rows: int, columns: int) -> None:
        self.child.setwinsize(rows, columns)
        self.screen.resize(rows, columns)


@pytest.fixture
def folder() -> Iterator[str]:
    made = tempfile.mkdtemp(prefix="pens-", dir="/tmp")
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = made
    yield made
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before
    shutil.rmtree(made, ignore_errors=True)


def test_25_list_filter_approve_and_resize(folder: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "interceptor: {rules: [{id: ask, conditions: [{tool: write_file}], actions: [approve]}]}\n"
    )
    words = ["--dashboard", "auto", "--config", str(rules)]
    with Gate(tmp_path, *words, command=["python3", str(SAMPLE)]) as gate:
        gate.handshake()
        gate.ask("tools/list")
        gate.ask("tools/call", b'{"name":"echo","arguments":{"text":"\\u001b[2Jhello","token":"sample-42"}}')
        view = Terminal()
        view.shows("[1 Traffic]", "initialize", "tools/list", "echo")
        view.press("/tool:echo\r")
        view.shows("2 of ", "filter: tool:echo")
        assert "initialize" not in view.text
        view.press("\r")
        view.shows("verdict pass", "isError")
        assert "sample-42" not in view.text
        view.press("\x1b")
        params = b'{"name":"write_file","arguments":{"path":"a"}}'
        gate.say(b'{"jsonrpc":"2.0","id":71,"method":"tools/call","params":%b}' % params)
        view.shows("2 Held 1")
        view.press("2")
        view.shows("approve", "write_file", "ask")
        view.press("a")
        view.shows("once more")
        view.press("a")
        assert b'"result"' in gate.answer(b"71")
        view.shows("Nothing waits")
        view.resize(12, 60)
        view.press("3")
        view.shows("[3 Sessions]", "raw")
        for page in "45678":
            view.press(page)
            view.shows(f"[{page} ")
        view.press("q")
        view.child.expect(pexpect.EOF)
        view.child.close()
        assert view.child.exitstatus == 0


def test_23_a_proxy_that_is_killed_is_missed_and_what_comes_next_is_shown_once(
    folder: str, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    view = Terminal()
    with Gate(tmp_path / "one", "--dashboard", "auto", command=["python3", str(SAMPLE)]) as gate:
        gate.handshake()
        gate.ask("tools/call", b'{"name":"echo","arguments":{"text":"before"}}')
        view.shows("echo")
        gate.process.kill()
        gate.process.wait()
        view.shows("DISCONNECTED from sample_server")
    with Gate(tmp_path / "two", "--dashboard", "auto", command=["python3", str(SAMPLE)]) as gate:
        gate.handshake()
        gate.ask("tools/call", b'{"name":"read_file","arguments":{"path":"after"}}')
        view.shows("read_file", "without sample_server")
        view.press("/from:client kind:request tool:echo,read_file\r")
        view.shows("2 of ")
        view.child.kill(signal.SIGKILL)  # the terminal is a hub of its own: another one begins with the ring
        again = Terminal("--filter", "from:client tool:read_file")
        again.shows("1 of ", "read_file")
        assert again.text.count("read_file") == 2  # the row, and the filter
        again.press("q")
        again.child.expect(pexpect.EOF)
        again.child.close()
    view.child.close(force=True)


def test_alerts_and_patterns_are_tables_of_the_terminal(folder: str, tmp_path: Path) -> None:
    with RecordingMaker(tmp_path / "usual.jsonl") as made:
        for number in range(400):
            made.call(f"s{number}", START + number * 3_600, "search", {"q": "x"})
    penstock("baseline", str(tmp_path / "usual.jsonl"), "--out", str(tmp_path / "b"))
    with RecordingMaker(tmp_path / "today.jsonl") as made:
        for number in range(20):
            made.call(f"t{number}", START + number * 86_400, "search", {"q": "x"})
        odd = made.call("odd", START + 19 * 86_400, "drop_all", {"q": "x"})
    words = [str(tmp_path / "today.jsonl"), "--baseline", str(tmp_path / "b"), "--budget", "1/20"]
    terminal = Terminal(*words)
    try:
        terminal.shows("search")
        terminal.press("9")
        terminal.shows("[9 Alerts]", "odd", f"{odd}", "tool drop_all, never")
        terminal.press("0")
        terminal.shows("[0 Patterns]", "drop_all", "maker", "new since last week", "a new tool")
        terminal.press("q")
    finally:
        terminal.child.close(force=True)
