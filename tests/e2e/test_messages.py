"""What people read when something is wrong: the promised text, the promised exit code, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gate import DEADLINE, Gate, call, request

DENY = ("--deny", "write")


def test_a_tool_list_that_does_not_come_in_time(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, "--tools-timeout", "300", upstream=["--mute", "list"]) as gate:
        gate.handshake()
        gate.say(call("echo", b'"held"'))
        gate.say(request(b'"pending"', "x/say", b'{"raw":"","mute":true}'))
        answers = {json.loads(line)["id"]: json.loads(line)["error"] for line in gate.rest()}
        assert gate.process.wait(DEADLINE) == 1
        expected = {
            "code": -32603,
            "message": "Failed to fetch tool list from upstream MCP",
            "data": {"code": "TIMEOUT"},
        }
        assert answers == {"held": expected, "pending": expected}
        assert (
            "Error: Failed to fetch tool list from upstream MCP\nRequest timeout after 300ms\n" in gate.stderr
        )


def test_a_tool_list_that_comes_just_in_time(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, "--tools-timeout", "10s", upstream=["--list-delay", "1"]) as gate:
        gate.handshake()
        assert len(gate.ask("tools/list")["result"]["tools"]) == 3


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (b'{"tools":5}', "The answer is not valid: its tool list cannot be read"),
        (b"{}", "The answer is not valid: its tool list has no tools member"),
        (b'{"tools":[],"tools":[]}', "The tool list cannot be read"),
        (b'{"tools":[NaN]}', "The answer cannot be read"),
    ],
)
def test_a_tool_list_that_is_none(tmp_path: Path, page: bytes, why: str) -> None:
    with Gate(tmp_path, *DENY, pages=[page]) as gate:
        gate.handshake(then=(request(b"1", "tools/list"),))  # what the upstream lists is the end
        lines = gate.rest()
        assert [json.loads(line)["id"] for line in lines] == [1]
        assert gate.process.wait(DEADLINE) == 1
        assert f"Error: Failed to fetch tool list from upstream MCP\n{why}\n" in gate.stderr


def test_a_tool_list_without_end(tmp_path: Path) -> None:
    pages = [
        b'{"tools":[],"nextCursor":"a"}',
        b'{"tools":[],"nextCursor":"b"}',
        b'{"tools":[],"nextCursor":"a"}',
    ]
    with Gate(tmp_path, *DENY, pages=pages) as gate:
        gate.handshake()
        gate.rest()
        assert gate.process.wait(DEADLINE) == 1
        assert "The tool list has no end: a cursor came twice" in gate.stderr


def test_an_upstream_that_answers_the_list_with_an_error(tmp_path: Path) -> None:
    error = '{"code":-32000,"message":"not \\u001b[31mtoday","data":[1.0]}'
    with Gate(tmp_path, *DENY, upstream=["--list-error", error, "--list-delay", "3"]) as gate:
        gate.handshake()
        gate.say(request(b"1", "tools/list"))  # before the answer, which is the end
        assert gate.rest() == [b'{"jsonrpc":"2.0","id":1,"error":%b}' % error.encode()]
        assert gate.process.wait(DEADLINE) == 1
        assert "The upstream answered with error -32000: not ?[31mtoday" in gate.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_lost_upstream_in_either_form(tmp_path: Path, form: str) -> None:
    with Gate(tmp_path, *DENY, "--log-format", form) as gate:
        gate.handshake()
        gate.say(request(b"1", "x/die"))
        gate.rest()
        assert gate.process.wait(DEADLINE) == 1
        if form == "text":
            assert "Error: Lost connection to upstream MCP\nShutting down proxy\n" in gate.stderr
        else:
            entries = [json.loads(line) for line in gate.stderr.splitlines()]
            wanted = {"message": "Lost connection to upstream MCP", "detail": "Shutting down proxy"}
            assert any(wanted.items() <= entry.items() for entry in entries)


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_upstream_that_cannot_be_started_in_either_form(form: str) -> None:
    words = [sys.executable, "-m", "penstock", "--log-format", form, "--", "/nowhere/at all"]
    result = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert result.returncode == 1
    assert result.stdout == ""
    if form == "text":
        assert result.stderr.endswith(
            "\nError: Failed to connect to upstream MCP at /nowhere/at all\n"
            "Command not found: /nowhere/at all\n"
        )
    else:
        last = result.stderr.splitlines()[-1]
        assert json.loads(last)["detail"] == "Command not found: /nowhere/at all"


def test_what_is_said_at_the_start(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^write_,^nothing$", "--deny", "delete") as gate:
        gate.handshake()
        assert gate.is_alive()
        assert "2 tools allowed, 2 denied, about 33 tokens saved (estimated" in gate.stderr
        assert "Denied (--deny ^write_): write_file.\n" in gate.stderr
        assert "Denied (--deny delete): delete_file.\n" in gate.stderr
        assert "warning: This pattern matches no tool: --deny ^nothing$\n" in gate.stderr


def test_a_log_line_holds_no_command_for_a_terminal(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake()
        gate.order("say", raw="debug \x1b[31m print\r fake: line \u0085\n")
        assert gate.is_alive()
        assert "\x1b" not in gate.stderr
        assert "\r" not in gate.stderr
        assert "debug ?[31m print" in gate.stderr


def test_a_pattern_is_repeated_on_one_line(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "no\nsuch\x1b") as gate:
        gate.handshake()
        assert gate.is_alive()
        assert "This pattern matches no tool: --deny no\\x0asuch\\x1b\n" in gate.stderr


def test_a_quiet_log_says_nothing_of_what_goes_well(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, "--log-level", "warning") as gate:
        gate.handshake()
        assert gate.is_alive()
        assert gate.end() == 0
        assert gate.stderr == ""
