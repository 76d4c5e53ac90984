"""`penstock check` and `--config`, as people run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
