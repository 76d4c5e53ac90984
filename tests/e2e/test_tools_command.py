"""`penstock tools`: what the filter makes of an upstream's tools, and the options that say which upstream."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gate import DEADLINE, ROOT, SAMPLE, SCRIPTED, Gate, is_running, wait_until

SERVER = [sys.executable, str(SCRIPTED)]


def _run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
    )


def test_the_table_says_what_is_allowed_what_is_denied_and_why() -> None:
    result = _run("tools", "--deny", "^write", "--", *SERVER)
    assert result.returncode == 0
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["TOOL", "TOKENS", "WHY"]
    assert rows[1][:2] == ["echo", "allowed"]
    assert ["write_file", "denied", "18", "--deny", "^write"] in rows
    assert "3 allowed" in result.stdout
    assert "1 denied, about 18 tokens saved" in result.stdout


def test_json_is_for_programs() -> None:
    result = _run("tools", "--deny", "^write,^nothing$", "--format", "json", "--", *SERVER)
    report = json.loads(result.stdout)
    assert [tool["name"] for tool in report["allowed"]] == ["echo", "read_file", "delete_file"]
    assert report["denied"] == [{"name": "write_file", "tokens": 18, "option": "--deny", "pattern": "^write"}]
    assert report["unmatched_patterns"] == ["--deny ^nothing$"]
    assert report["tokens"]["denied"] == 18
    assert "matches no tool: --deny ^nothing$" in result.stderr


def test_names_are_for_scripts() -> None:
    result = _run("tools", "--allow", "file$", "--read-only", "--format", "names", "--", *SERVER)
    assert result.stdout == "read_file\n"


def test_all_pages_are_shown(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.write_text(
        '{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":""}\n{"tools":[{"name":"b","inputSchema":{"type":"object"}}]}\n'
    )
    assert _run("tools", "--format", "names", "--", *SERVER, "--pages", str(pages)).stdout == "a\nb\n"


def test_the_upstream_can_be_one_string() -> None:
    command = f"{shlex.quote(sys.executable)} '{SAMPLE}'"
    assert "read_file\n" in _run("tools", "--format", "names", "--upstream-cmd", command).stdout


def test_a_string_that_is_no_command_is_said_so() -> None:
    result = _run("tools", "--upstream-cmd", "python 'unclosed")
    assert (result.returncode, result.stdout) == (1, "")
    assert "cannot be split into words" in result.stderr


def test_an_upstream_without_tools_is_no_error() -> None:
    result = _run("tools", "--format", "names", "--", *SERVER, "--no-tools")
    assert (result.returncode, result.stdout) == (0, "")


def test_an_upstream_that_dies_is_reported_at_once() -> None:
    for option, value, told in (
        ("--exit", "3", "It exited with status 3 before it answered"),
        ("--mute", "list-dies", "Error: Lost connection to upstream MCP"),
    ):
        began = time.monotonic()
        result = _run("tools", "--", *SERVER, option, value)
        assert time.monotonic() - began < 8
        assert result.returncode == 1
        assert told in result.stderr
        assert "Traceback" not in result.stderr


def test_an_upstream_that_does_not_answer_is_given_up() -> None:
    result = _run("tools", "--tools-timeout", "300ms", "--", *SERVER, "--mute", "list")
    assert result.returncode == 1
    assert result.stderr.endswith(
        "Error: Failed to fetch tool list from upstream MCP\nRequest timeout after 300ms\n"
        "--tools-timeout gives it longer\n"
    )


def test_an_interrupt_leaves_no_child_behind(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"import os,time; open({str(pid_file)!r},'w').write(str(os.getpid())); time.sleep(300)"
    words = [sys.executable, "-m", "penstock", "tools", "--", sys.executable, "-c", script]
    for number in (2, 15):
        pid_file.unlink(missing_ok=True)
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert wait_until(lambda: pid_file.exists() and pid_file.read_text() != "")
        pid = int(pid_file.read_text())
        process.send_signal(number)
        _, errors = process.communicate(timeout=DEADLINE)
        assert process.returncode != 0
        assert b"Traceback" not in errors
        assert wait_until(lambda pid=pid: not is_running(pid), 7)


# --- options for the upstream --------------------------------------------------------------------------


def test_the_upstream_gets_our_environment_and_what_the_user_adds(tmp_path: Path) -> None:
    options = ("--env", "ADDED=a=${PENSTOCK_OURS}-${PENSTOCK_UNSET:-default}", "--cwd", "${PENSTOCK_DIR}")
    env = {"PENSTOCK_OURS": "ours", "PENSTOCK_DIR": str(tmp_path)}
    with Gate(tmp_path, "--deny", "write", *options, env=env) as gate:
        gate.handshake()
        assert gate.order("env", name="ADDED")["result"] == {"value": "a=ours-default", "cwd": str(tmp_path)}
        assert gate.order("env", name="PENSTOCK_OURS")["result"]["value"] == "ours"


@pytest.mark.parametrize("option", ["--env", "--cwd"])
def test_a_variable_that_is_not_set_is_named(option: str) -> None:
    value = "A=${PENSTOCK_UNSET}" if option == "--env" else "${PENSTOCK_UNSET}"
    result = _run("tools", option, value, "--", *SERVER)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: Environment variable PENSTOCK_UNSET is not set\n")
    assert option in result.stderr


def test_an_empty_default_is_a_default() -> None:
    result = _run("tools", "--env", "A=${PENSTOCK_UNSET:-}", "--format", "names", "--", *SERVER)
    assert result.returncode == 0


@pytest.mark.parametrize("pair", ["A", "=x", ""])
def test_an_assignment_that_is_none_is_said_so(pair: str) -> None:
    result = _run("tools", "--env", pair, "--", *SERVER)
    assert result.returncode == 1
    assert "It must look like NAME=value" in result.stderr


def test_help_and_version_go_to_stdout() -> None:
    assert _run("--version").stdout.startswith("penstock ")
    for words in (("--help",), ("tools", "--help")):
        result = _run(*words)
        assert result.returncode == 0
        assert "--deny" in result.stdout


def test_options_of_the_upstream_are_not_ours() -> None:
    result = _run(
        "tools", "--format", "names", "--", sys.executable, str(SCRIPTED), "--version", "2025-06-18"
    )
    assert result.stdout.splitlines() == ["echo", "write_file", "read_file", "delete_file"]
