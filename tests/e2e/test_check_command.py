"""`penstock check` and `--config`, as people run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gate import SCRIPTED, Gate


def penstock(*words: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        input=stdin,
        capture_output=True,
        timeout=60,
        env={**os.environ, **(env or {})},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


GOOD = """
upstream:
  command: [npx, -y, "some server", "${WHERE}"]
  env: {KEY: "${SECRET}"}
tools: {deny: ["^admin_"], read_only: true}
listen: 9000
validate: strict
interceptor:
  rules:
    - id: late
      conditions: [{method_equals: tools/call}]
      actions: [{log: called}]
    - id: early
      priority: 10
      conditions: [{method_equals: tools/call}, {param_equals: {field: name, value: rm}}]
      actions: [{block: Not that one}]
"""


def test_a_good_file_is_told_in_plain_words(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(GOOD)
    code, out, err = penstock("check", str(path), env={"WHERE": "/data", "SECRET": "s3cret"})
    assert (code, err) == (0, "")
    assert f"{path} is right." in out
    assert "Upstream: spawn npx -y 'some server' /data" in out
    assert "with variables: KEY" in out
    assert "s3cret" not in out
    assert "without those that match ^admin_" in out
    assert "readOnlyHint" in out
    assert "over HTTP at 127.0.0.1:9000" in out
    assert "told and withheld" in out
    assert 0 < out.index("1. early") < out.index("2. late")


BAD = """\
upstreem: {command: [a]}
tools:
  deny: ["^[a-z"]
interceptor:
  chain: {timeout: soon}
  rules:
    - id: one
      conditions:
        - method_equal: tools/call
      actions: [{block: no}]
    - id: one
      conditions: [{param_matches: {field: name, pattern: (a+)+}}]
      actions:
        - blok: no
"""


def test_a_bad_file_is_told_all_its_faults_with_lines(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(BAD)
    code, out, err = penstock("check", str(path))
    assert (code, out) == (1, "")
    assert err.startswith("Error: The configuration has ")
    lines = err.splitlines()[1:]
    assert all(line.startswith(f"{path}:") for line in lines)
    told = {int(line.removeprefix(f"{path}:").split(":")[0]): line for line in lines}
    assert 'unknown key "upstreem" in the file; did you mean "upstream"?' in told[1]
    assert "missing closing ]" in told[3]
    assert "interceptor.chain.timeout" in told[5]
    assert 'unknown condition "method_equal"; did you mean "method_equals"?' in told[9]
    assert "(a+)+" in told[12]
    assert 'unknown action "blok"; did you mean "block"?' in told[14]
    # A run says the same, and starts nothing.
    assert penstock("--config", str(path), "--", "false") == (1, "", err)


WELL_FORMED = """\
interceptor:
  chain: {timeout: 2s}
  rules:
    - id: missing-script
      conditions: [{tool: a}]
      actions:
        - run_script: /nowhere/check.sh
    - id: missing-file
      conditions: [{tool: b}]
      actions:
        - run_script: {command: [python3, nowhere.py]}
    - id: misspelt
      conditions:
        - method_equals: tool/call
      actions: [{log: x}]
    - id: never
      conditions: [{method_equals: tools/call}, {method_equals: tools/list}]
      actions: [{log: x}]
    - id: at-home
      conditions: [{tool: c}]
      actions:
        - webhook: {url: "http://127.0.0.1:9/x", allow_http: true}
    - id: shadow
      conditions: [{tool: d}]
      actions:
        - fork: {url: "https://localhost/mcp"}
    - id: vendor
      conditions: [{method_equals: acme/do}]
      actions: [{log: x}]
"""


def faults_of(tmp_path: Path, text: str, name: str = "gate.yaml") -> tuple[int, list[str]]:
    path = tmp_path / name
    path.write_text(text)
    code, out, err = penstock("check", str(path))
    assert out == "" or code == 0
    return code, [line.removeprefix(str(path)) for line in err.splitlines()[1:]]


def test_what_is_well_formed_and_cannot_be_meant_is_told_all_at_once(tmp_path: Path) -> None:
    code, faults = faults_of(tmp_path, WELL_FORMED)
    assert code == 1
    assert faults == [
        ':7: interceptor.rules[0].actions[0]: there is no program "/nowhere/check.sh"; '
        "give its whole path, or put it in PATH",
        ':11: interceptor.rules[1].actions[0]: there is no script "nowhere.py"; give its whole path',
        ':13: interceptor.rules[2]: MCP has no method "tool/call"; did you mean "tools/call"?',
        ':16: interceptor.rules[3]: the rule "never" can never fire; no message has all of these methods',
        ":22: interceptor.rules[4].actions[0]: 127.0.0.1 is on this machine or in a private network; "
        "say allow_private: true",
        ":26: interceptor.rules[5].actions[0]: localhost is on this machine or in a private network; "
        "say allow_private: true",
    ]


MISPLACED = """\
interceptor:
  classes: {tool/call: review, "vendor/*": log}
  method_interceptors:
    resource/read: {class: ResourceAccessInterceptor}
  rules:
    - id: bare
      conditions: [{tool: a}, {param_exists: path}]
      actions: [{log: x}]
    - id: whole
      conditions: [{param_equals: {field: params.name, value: a}}]
      actions: [{log: x}]
    - id: jail
      conditions: [{tool: a}, {path_outside: {fields: [arguments.path, paths], roots: /a}}]
      actions: [{block: x}]
    - id: result
      conditions: [{tool: a}, {not: {result_exists: result.content}}]
      actions: [{log: x}]
    - id: fine
      conditions: [{tool: a}, {param_exists: "**.path"}, {param_exists: _meta.a}]
      actions: [{log: x}]
    - id: of-others
      conditions: [{method_equals: prompts/get}, {param_exists: path}]
      actions: [{log: x}]
"""


def test_a_path_that_begins_where_nothing_is_gets_a_hint(tmp_path: Path) -> None:
    _, faults = faults_of(tmp_path, MISPLACED)
    assert faults == [
        ':2: interceptor.classes: MCP has no method "tool/call"; did you mean "tools/call"?',
        ':4: interceptor.method_interceptors: MCP has no method "resource/read"; '
        'did you mean "resources/read"?',
        ':7: interceptor.rules[0]: the params of tools/call have no "path"; did you mean "arguments.path"?',
        ':10: interceptor.rules[1]: "params.name" begins in params already; leave out params: name',
        ':13: interceptor.rules[2]: the params of tools/call have no "paths"; '
        'did you mean "arguments.paths"?',
        ':16: interceptor.rules[3]: "result.content" begins in the result already; leave out result',
    ]


FRAMES = """\
interceptor:
  transport_rules:
    - id: size
      conditions: [{size_greater_than: 1MB}]
      actions:
        - run_script: /nowhere/check.sh
"""


def test_rules_about_frames_are_looked_at_too(tmp_path: Path) -> None:
    _, faults = faults_of(tmp_path, FRAMES)
    (fault,) = faults
    assert fault.startswith(":6: interceptor.transport_rules[0].actions[0]: there is no program")


def test_a_run_is_not_kept_from_starting_by_what_may_come_later(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(WELL_FORMED)
    with Gate(tmp_path, "--config", str(path)) as gate:
        gate.handshake()
        assert gate.ask("ping") is not None


SLOW = """\
interceptor:
  chain: {timeout: 2s}
  rules:
    - id: a
      actions:
        - webhook: {url: "https://example.org/", wait: true, timeout: 3s}
    - id: b
      actions:
        - run_script: {command: [python3, -V], timeout: 2001ms}
    - id: c
      actions:
        - delay: 2s
    - id: told-not-asked
      actions:
        - webhook: {url: "https://example.org/", timeout: 9s}
    - id: as-long-as-there-is
      actions:
        - webhook: {url: "https://example.org/", wait: true}
"""


def test_a_time_beyond_the_chains_is_a_fault(tmp_path: Path) -> None:
    code, faults = faults_of(tmp_path, SLOW)
    assert code == 1
    assert [line.split(":")[1] for line in faults] == ["6", "9", "12"]
    assert all("waits longer than the chain may take (2s); see chain.timeout" in line for line in faults)


MANY = """\
upstream: {command: [a]}
interceptor:
  chain: {timeout: soon}
  rules:
    - id: one
      actions: [{deny: no}]
    - id: two
      conditions: [{result_contains: {field: a, pattern: b}}]
      actions: [{block: x}]
    - id: three
      actions: [{block: x}]
    - id: three
      actions: [{block: x}]
  method_interceptors:
    tools/call: {class: ToolCalInterceptor}
  interceptors:
    - class: nowhere.at:All
tests:
  - message: {id: 1, method: ping}
"""


def test_faults_in_one_part_hide_none_in_another(tmp_path: Path) -> None:
    (tmp_path / "gate.tests.yaml").write_text("tests:\n  - nane: a\n")
    code, faults = faults_of(tmp_path, MANY)
    assert code == 1
    told = "\n".join(faults)
    for part in (
        ":3: interceptor.chain.timeout",
        ':6: interceptor.rules[0].actions[0]: unknown action "deny"; did you mean "block"?',
        ':8: interceptor.rules[1].conditions[0]: unknown condition "result_contains"; '
        'did you mean "result_matches"?',
        ':12: interceptor.rules[3].id: the id "three" is taken; see rules[2]',
        ':15: interceptor.method_interceptors.tools/call.class: unknown class "ToolCalInterceptor"; '
        'did you mean "ToolCallInterceptor"?',
        ':17: interceptor.interceptors[0].class: cannot load "nowhere.at:All"',
        ":19: a test needs expect",
        'gate.tests.yaml:2: unknown key "nane" in tests[0]; did you mean "name"?',
    ):
        assert part in told, told


def test_keys_at_the_wrong_place_are_sent_to_the_right_one(tmp_path: Path) -> None:
    text = "rules:\n  - id: a\ndeny: [x]\ntimeout: 3s\ncommand: [a]\nread_only: true\n"
    _, faults = faults_of(tmp_path, text)
    assert 'unknown key "rules" in the file; it belongs under interceptor:' in faults[0]
    assert 'unknown key "deny" in the file; it belongs under tools: tools: {deny: ...}' in faults[1]
    assert 'unknown key "timeout" in the file; did you mean "timeouts"?' in faults[2]
    assert "it belongs under upstream" in faults[3]
    assert "it belongs under tools" in faults[4]


def test_a_tab_is_called_a_tab(tmp_path: Path) -> None:
    for text, line in (
        ("upstream:\n\tcommand: [a]\n", 2),
        ("interceptor:\n  rules:\n  - id: x\n\tactions: [allow]\n", 4),
    ):
        _, faults = faults_of(tmp_path, text)
        assert faults == [f":{line}: a tab; YAML takes blanks to set lines in"]


def test_it_says_what_a_path_with_a_star_reaches(tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    rule = {"id": "a", "conditions": [{"param_exists": "arguments.**.path"}], "actions": [{"log": "x"}]}
    path.write_text(json.dumps({"interceptor": {"rules": [rule]}}))
    code, out, _ = penstock("check", str(path))
    assert code == 0
    assert '  arguments.**.path: every "path" in "arguments", however deep it lies\n' in out


def test_two_rules_of_one_id(tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    rule = {"id": "one", "actions": [{"block": "no"}]}
    path.write_text(json.dumps({"interceptor": {"rules": [rule, rule]}}, indent=1))
    code, _, err = penstock("check", str(path))
    assert code == 1
    line = 1 + [n for n, text in enumerate(path.read_text().splitlines()) if '"id"' in text][1]
    assert f'{path}:{line}: interceptor.rules[1].id: the id "one" is taken' in err


def test_a_fault_in_a_test_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(
        "tols: 1\ntests:\n  - name: a\n    message: {id: {}}\n  - message: {id: 1, method: ping}\n"
    )
    code, _, err = penstock("check", str(path))
    assert code == 1
    assert f"{path}:4: Invalid request" in err
    assert f"{path}:3: a test needs expect" in err
    assert f'{path}:1: unknown key "tols"' in err
    assert f"{path}:5: a test needs expect" in err


def test_a_command_line_that_makes_no_sense() -> None:
    for words in (
        ["check"],
        ["check", "a", "b"],
        ["rules"],
        ["rules", "tset", "a"],
        ["check", "--what", "a"],
    ):
        code, out, err = penstock(*words)
        assert (code, out) == (2, ""), words
        assert "Usage: penstock" in err
    code, _, err = penstock("check", "/nowhere/at/all.yaml")
    assert code == 1
    assert "Cannot read the configuration: /nowhere/at/all.yaml" in err


def test_a_run_with_a_file_hides_what_the_file_denies(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    command = [sys.executable, "-S", str(SCRIPTED), "--record", str(tmp_path / "heard")]
    path.write_text(json.dumps({"upstream": {"command": command}, "tools": {"deny": ["."]}}))
    code, out, err = penstock("tools", "--config", str(path), "--format", "names")
    assert (code, out) == (0, ""), err
    path.write_text(json.dumps({"upstream": {"command": command}}))
    code, out, err = penstock("tools", "--config", str(path), "--format", "names")
    assert code == 0, err
    assert out


def test_flags_before_a_command_and_a_file_go_together(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text("log: {level: debug}\ntools: {deny: [.]}\n")
    with Gate(tmp_path, "--config", str(path)) as gate:
        gate.handshake()
        assert gate.ask("tools/list")["result"]["tools"] == []


def limited(**more: object) -> dict[str, object]:
    return {"rules": [{"id": "a", "actions": [{"rate_limit": {"limit": 1, "window": "1s", **more}}]}]}


def guarded(config: dict[str, object]) -> dict[str, object]:
    return {"method_interceptors": {"tools/call": {"class": "ToolCallInterceptor", "config": config}}}


REMEMBERS = {"rules": [{"id": "a", "actions": [{"set_state": {"key": "a", "value": 1}}]}]}


@pytest.mark.parametrize(
    ("interceptor", "more", "is_noted"),
    [
        (limited(), {}, True),
        (limited(key="${client_name}"), {}, False),
        (REMEMBERS, {}, True),
        (REMEMBERS, {"stdio": True}, False),
        (guarded({"rate_limit": {"per_hour": 1}}), {}, True),
        (guarded({}), {}, False),
    ],
)
def test_it_says_who_shares_a_session(
    interceptor: dict[str, object], more: dict[str, object], is_noted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "gate.json"
    path.write_text(json.dumps({**more, "interceptor": interceptor}))
    code, out, _ = penstock("check", str(path))
    assert code == 0
    assert ("that send no Authorization header are one session" in out) is is_noted


def test_it_says_what_is_kept_counted_and_traced(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text(
        "upstream: {command: [x]}\nrecord: {file: r.jsonl}\naudit: {file: a.jsonl, on_failure: block}\n"
        'metrics: {listen: 9464}\ntelemetry: {otlp: "http://localhost:4318"}\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "check", str(path)], capture_output=True, text=True, check=True
    )
    assert "Recording: r.jsonl; when it cannot be written, traffic goes on.\n" in done.stdout
    assert "Audit: a.jsonl; when it cannot be written, requests are refused.\n" in done.stdout
    assert "Metrics: at 127.0.0.1:9464/metrics.\n" in done.stdout
    assert "Traces: to http://localhost:4318.\n" in done.stdout


def test_faults_of_what_is_kept_have_their_line(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text("upstream: {command: [x]}\naudit: {sync: never}\nrecord: {rotate: 1}\n")
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "check", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "gate.yaml:2: audit.sync must be one of second, os, record" in done.stderr
    assert "gate.yaml:3: " in done.stderr


def test_programs_get_json(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("tools: {deny: [delete]}\n")
    bad.write_text("tools:\n  deni: [delete]\n")
    code, out, _ = penstock("check", str(good), "--format", "json")
    assert (code, json.loads(out)["ok"]) == (0, True)
    code, out, _ = penstock("check", str(bad), "--format", "json")
    told = json.loads(out)
    assert code == 1
    assert [fault["line"] for fault in told["faults"]] == [2]
    assert "deny" in told["faults"][0]["text"]
