"""Tasks of both revisions and questions in the middle of a call: live servers of the official SDK.

A denied tool begins no task. What a rule says about the results of calls or about questions holds for what
comes later, by whatever message it comes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gate import META, ROOT, Gate
from sdk_readers import _needs_old

SERVER = str(ROOT / "tests" / "upstreams" / "task_server.py")
OLD = ROOT / ".peers" / "mcp1" / "bin" / "python"
ASKING = [sys.executable, str(ROOT / "tests" / "upstreams" / "conformance_server.py"), "--transport", "stdio"]
TASKS = [
    pytest.param([str(OLD), "-W", "ignore", SERVER, "1"], "legacy", id="2025-11-25", marks=_needs_old),
    pytest.param([sys.executable, SERVER, "2"], "modern", id="2026-07-28"),
]
BLOCK = [{"block": "kept back"}]
NO_SECRETS = {
    "id": "secrets",
    "direction": "upstream",
    "conditions": [{"method_equals": "tools/call"}, {"text_matches": "hunter2"}],
    "actions": BLOCK,
}


def opened(work: Path, command: list[str], era: str, *rules: dict[str, Any]) -> Gate:
    file = work / "rules.json"
    file.write_text(json.dumps({"interceptor": {"rules": list(rules)}}))
    gate = Gate(work, "--deny", "^write_", "--config", str(file), command=command)
    if era == "legacy":
        gate.handshake()
    return gate


def params(era: str, inner: bytes) -> bytes:
    return b"{%b}" % inner if era == "legacy" else b"{%b,%b}" % (inner, META)


def begun(gate: Gate, era: str, name: str) -> Any:
    """The answer to a call that is to become a task."""
    task = b',"task":{"ttl":60000}' if era == "legacy" else b""
    return gate.ask("tools/call", params(era, b'"name":"%b","arguments":{}%b' % (name.encode(), task)))


def brought(gate: Gate, era: str, answer: Any) -> Any:
    """What its task brings, in the way of the era."""
    task = answer["result"]["task"] if era == "legacy" else answer["result"]
    named = params(era, b'"taskId":%b' % json.dumps(task["taskId"]).encode())
    end = time.monotonic() + 20
    while era == "legacy" and time.monotonic() < end:
        if gate.ask("tasks/get", named)["result"]["status"] == "completed":
            break
    return gate.ask("tasks/result" if era == "legacy" else "tasks/get", named)


@pytest.mark.parametrize(("command", "era"), TASKS)
def test_a_denied_tool_begins_no_task_and_an_allowed_one_brings_its_result(
    command: list[str], era: str, tmp_path: Path
) -> None:
    with opened(tmp_path, command, era) as gate:
        denied = begun(gate, era, "write_slow")
        assert denied["error"] == {"code": -32601, "message": "Tool not found: write_slow"}
        assert "hunter2" in json.dumps(brought(gate, era, begun(gate, era, "slow")))
        assert "ran slow" in gate.stderr
        assert "ran write_slow" not in gate.stderr


@pytest.mark.parametrize(("command", "era"), TASKS)
def test_a_rule_about_results_of_calls_holds_for_what_a_task_brings(
    command: list[str], era: str, tmp_path: Path
) -> None:
    with opened(tmp_path, command, era, NO_SECRETS) as gate:
        answer = begun(gate, era, "slow")
        assert "result" in answer
        late = brought(gate, era, answer)
        assert "hunter2" not in json.dumps(late)
        assert late["error"]["code"] == -32001


def ask_name(gate: Gate, more: bytes = b"") -> Any:
    inner = b'"name":"test_input_required_result_elicitation","arguments":{}%b' % more
    capable = META.replace(b'clientCapabilities":{}', b'clientCapabilities":{"elicitation":{}}')
    return gate.ask("tools/call", b"{%b,%b}" % (inner, capable))


ANSWER = b',"inputResponses":{"user_name":{"action":"accept","content":{"name":"hunter2"}}}'


def test_a_call_with_several_rounds_passes_as_it_is(tmp_path: Path) -> None:
    with opened(tmp_path, ASKING, "modern") as gate:
        question = ask_name(gate)["result"]
        assert (question["resultType"], list(question["inputRequests"])) == ("input_required", ["user_name"])
        assert ask_name(gate, ANSWER)["result"]["content"][0]["text"] == "Hello, hunter2!"


def test_rules_hold_for_the_questions_and_the_answers_of_such_a_call(tmp_path: Path) -> None:
    question = {"id": "q", "direction": "upstream", "conditions": [{"method_equals": "elicitation/create"}]}
    answer = {
        "id": "a",
        "conditions": [{"param_matches": {"field": "inputResponses.**", "pattern": "hunter2"}}],
    }
    with opened(tmp_path, ASKING, "modern", {**question, "actions": BLOCK}) as gate:
        assert "inputRequests" not in json.dumps(ask_name(gate))
    with opened(tmp_path, ASKING, "modern", {**answer, "actions": BLOCK}) as gate:
        assert "inputRequests" in ask_name(gate)["result"]
        refused = ask_name(gate, ANSWER)
        assert refused["error"]["code"] == -32001
        assert "hunter2" not in json.dumps(refused)
