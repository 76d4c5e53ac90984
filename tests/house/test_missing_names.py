"""The guards hold: Penstock with names taken away that other systems do not have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gate import Gate

MACOS = """
import fcntl, os, select, signal, sys
for module, names in ((fcntl, ["F_SETPIPE_SZ", "F_GETPIPE_SZ"]), (select, ["epoll"]),
                      (os, ["pidfd_open", "waitid", "P_PID", "WEXITED", "WNOWAIT", "CLD_EXITED", "pipe2"])):
    for name in names:
        delattr(module, name)
"""
"""What macOS with Python 3.11 has not got. Without epoll, asyncio takes the next best selector."""

WITHOUT_PIDFD = "import os\ndel os.pidfd_open\n"

WINDOWS = """
import asyncio, os, select, signal, subprocess, sys
for module, names in ((signal, ["SIGHUP", "SIGKILL", "SIGUSR1"]), (select, ["poll", "epoll", "PIPE_BUF"]),
                      (os, ["killpg", "setsid", "fork", "set_blocking", "writev", "O_NONBLOCK"])):
    for name in names:
        delattr(module, name)
def refuse(*_):
    raise OSError(10038, "not a socket")
select.select = refuse
sys.modules["fcntl"] = None
from penstock import cli
sys.platform = "win32"
sys.exit(cli.main({words!r}))
"""


@pytest.mark.parametrize("names", [MACOS, WITHOUT_PIDFD], ids=["macos", "no pidfd"])
def test_a_session_over_stdio_works_without_what_only_linux_has(tmp_path: Path, names: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(names)
    with Gate(tmp_path, "--deny", "^(write|delete)_", env={"PYTHONPATH": str(tmp_path)}) as gate:
        gate.handshake()
        assert gate.is_alive()
        assert gate.end() == 0


@pytest.mark.parametrize("names", [MACOS, WITHOUT_PIDFD], ids=["macos", "no pidfd"])
def test_an_upstream_that_dies_is_noticed_without_what_only_linux_has(tmp_path: Path, names: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(names)
    server = [sys.executable, "-S", "-c", "import sys; sys.exit(3)"]
    command = [sys.executable, "-m", "penstock", "--deny", "x", "--", *server]
    heard, kept_open = (
        os.pipe()
    )  # a client that stays: its own end would end Penstock, too, now and then first
    try:
        done = subprocess.run(
            command,
            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
            stdin=heard,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(heard)
        os.close(kept_open)
    assert done.returncode == 1
    assert "It exited with status 3 before it answered" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_names_are_really_gone(tmp_path: Path) -> None:
    probe = MACOS + "print(hasattr(os, 'waitid'), hasattr(select, 'epoll'))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def _on_windows(*words: str) -> subprocess.CompletedProcess[str]:
    probe = WINDOWS.format(words=list(words))
    return subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--deny", "x", "--", "server"),
        ("tools", "--", "server"),
        ("--listen", "0", "--upstream", "http://127.0.0.1:1/mcp"),
    ],
)
def test_a_proxy_on_windows_is_refused_in_one_sentence(words: tuple[str, ...]) -> None:
    done = _on_windows(*words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[0] == "Error: Penstock cannot proxy on Windows"
    assert "WSL" in done.stderr
    assert "Traceback" not in done.stderr


def test_files_can_be_checked_on_windows(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_text("upstream: {command: [server]}\ntools: {deny: ['^x']}\n")
    assert _on_windows("check", str(good)).returncode == 0
    bad = tmp_path / "bad.yaml"
    bad.write_text("upstream: {command: [server]}\ntools: {denny: ['^x']}\n")
    done = _on_windows("check", str(bad))
    assert done.returncode == 1
    assert "denny" in done.stdout + done.stderr


def test_clients_are_shown_on_windows_and_nothing_is_wrapped_there(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"files": {"command": "npx"}}}')
    shown = _on_windows("clients", "--client", "cursor", "--file", str(path))
    assert shown.returncode == 0, shown.stderr
    assert "files" in shown.stdout
    done = _on_windows("wrap", "files", "--client", "cursor", "--file", str(path), "--deny", "x", "--yes")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "penstock" not in path.read_text()
