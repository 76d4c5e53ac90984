"""`penstock rules test` and `penstock rules explain`, as people run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RULES = """
interceptor:
  rules:
    - id: no-rm
      priority: 50
      conditions: [{method_equals: tools/call}, {param_equals: {field: name, value: rm}}]
      actions: [{block: "Not rm"}, {log: {level: warn, message: tried}}]
    - id: mark
      conditions: [{method_equals: tools/call}, {param_equals: {field: name, value: get}}]
      actions: [{set_param: {field: arguments.marked, value: true}}]
    - id: tainted
      conditions: [{method_equals: tools/call}, {state_equals: {key: tainted, value: true}}]
      actions: [{block: After untrusted content}]
    - id: taint
      direction: upstream
      conditions: [{method_equals: resources/read}]
      actions: [{set_state: {key: tainted, value: true}}]
    - id: asked
      conditions: [{method_equals: x/ask}]
      actions: [{webhook: {url: "https://hook.example/", wait: true}}]
    - id: off
      enabled: false
      actions: [{block: never}]
"""
TESTS = """
tests:
  - name: rm is blocked
    message: {id: 1, method: tools/call, params: {name: rm}}
    expect: {verdict: block, rule: no-rm, reason: Not rm}
  - name: get is marked
    message: '{"jsonrpc": "2.0",  "id": 1, "method": "tools/call", "params": {"name": "get", "arguments":{}}}'
    expect:
      changed: true
      message: {id: 1, method: tools/call, params: {name: get, arguments: {marked: true}}}
  - name: nothing goes out once something untrusted was read
    messages:
      - message: {id: 1, method: tools/call, params: {name: send}}
        expect: {verdict: pass, changed: false}
      - message: {id: 2, method: resources/read, params: {uri: "http://a"}}
      - message: {id: 2, result: {contents: []}}
        direction: upstream
        expect: pass
      - message: {id: 3, method: tools/call, params: {name: send}}
    expect: {verdict: block, rule: tainted}
  - name: a session that is tainted already
    session: {values: {tainted: true}, id: s1, client_name: c, age: 1h}
    message: {id: 3, method: tools/call, params: {name: send}}
    expect: block
  - name: the hook says no
    message: {id: 1, method: x/ask}
    webhook: block
    expect: {verdict: block, rule: asked}
  - name: the hook says yes
    message: {id: 1, method: x/ask}
    expect: pass
  - name: a response alone
    direction: upstream
    request: {id: 7, method: resources/read, params: {uri: "http://a"}}
    message: {id: 7, result: {}}
    expect: {verdict: pass, changed: false}
"""


def penstock(*words: str, stdin: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words], input=stdin, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


def test_tests_in_the_same_file(rules: Path) -> None:
    rules.write_text(RULES + TESTS)
    code, out, err = penstock("rules", "test", str(rules))
    assert (code, err) == (0, ""), out
    assert out.splitlines()[0] == "ok      rm is blocked"
    assert out.splitlines()[-1] == "7 tests, 0 failed"


def test_tests_in_the_file_beside_it(rules: Path) -> None:
    for name in ("rules.tests.yaml", "rules.yaml.tests.yaml"):
        beside = rules.parent / name
        beside.write_text(TESTS)
        code, out, _ = penstock("rules", "test", str(rules))
        assert code == 0, out
        assert out.splitlines()[-1] == "7 tests, 0 failed"
        beside.unlink()


def test_no_tests_at_all(rules: Path) -> None:
    code, _, err = penstock("rules", "test", str(rules))
    assert code == 1
    assert "There are no tests" in err
    rules.write_text("tools: {deny: [x]}\n" + TESTS)
    code, _, err = penstock("rules", "test", str(rules))
    assert code == 1
    assert "There are no rules" in err


FAILING = """
tests:
  - name: wrong verdict
    message: {id: 1, method: tools/call, params: {name: rm}}
    expect: pass
  - name: wrong rule and reason
    message: {id: 1, method: tools/call, params: {name: rm}}
    expect: {verdict: block, rule: other, reason: because}
  - name: wrong message
    message: {id: 1, method: tools/call, params: {name: get, arguments: {}}}
    expect: {message: {id: 1, method: tools/call, params: {name: get, arguments: {marked: 1}}}}
  - name: not changed
    message: {id: 1, method: ping}
    expect: {changed: true}
  - name: in the middle
    messages:
      - {message: {id: 1, method: ping}, expect: drop}
      - {message: {id: 2, method: ping}, expect: pass}
  - name: this one holds
    message: {method: tools/call, params: {name: rm}}
    expect: drop
"""


def test_a_test_that_fails_says_what_happened_and_where_it_stands(rules: Path) -> None:
    rules.write_text(RULES + FAILING)
    code, out, _ = penstock("rules", "test", str(rules))
    assert code == 3
    line = (RULES + FAILING).split("\n").index("  - name: wrong verdict") + 1
    assert f"FAILED  wrong verdict  ({rules}:{line})\n" in out
    assert "        expected pass, got block (rule no-rm: Not rm)\n" in out
    assert "        expected rule other, got no-rm\n" in out
    assert "        expected reason because, got Not rm\n" in out
    assert '"marked":1' in out  # 1 is not true
    assert "        expected a changed message\n" in out
    assert "        message 1: expected drop, got pass\n" in out
    assert "ok      this one holds\n6 tests, 5 failed\n" in out


def test_explaining_a_block(rules: Path) -> None:
    message = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}'
    code, out, err = penstock("rules", "explain", str(rules), stdin=message)
    assert code == 0, err
    assert out.startswith("Request of the client: tools/call\nrule no-rm: applies\n")
    assert 'holds: param name is "rm"' in out
    assert "rule mark: does not apply" in out
    assert 'does not hold: param name is "get"' in out
    assert "rule taint: is for messages of the upstream" in out
    assert "rule off: is switched off" in out
    assert "outcome: blocked by no-rm; the client is answered" in out
    assert '"code":-32001' in out
    assert "tried" in err


def test_explaining_a_change_over_several_lines(rules: Path) -> None:
    message = (
        '{"jsonrpc":"2.0",\n "id":1,\n "method":"tools/call",\n "params":{"name":"get","arguments":{}}}\n'
    )
    code, out, _ = penstock("rules", "explain", str(rules), stdin=message)
    assert code == 0
    assert "outcome: passes, changed to" in out
    assert '"marked":true' in out


def test_explaining_what_came_after_something_else(rules: Path) -> None:
    lines = (
        '{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"http://a"}}\n'
        '{"jsonrpc":"2.0","id":1,"result":{}}\n'
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"send"}}\n'
    )
    code, out, _ = penstock("rules", "explain", str(rules), stdin=lines)
    assert code == 0
    assert "outcome: blocked by tainted" in out
    code, out, _ = penstock("rules", "explain", str(rules), stdin="".join(lines.splitlines(True)[:2]))
    assert out.startswith("Response of the upstream\n")
    assert "rule taint: applies" in out
    assert "outcome: passes, byte for byte" in out


def test_explaining_what_would_leave_the_process(rules: Path) -> None:
    code, out, _ = penstock("rules", "explain", str(rules), stdin='{"jsonrpc":"2.0","id":1,"method":"x/ask"}')
    assert code == 0
    assert "beside that: ask https://hook.example/ (rehearsed answer: allow)" in out


def test_explaining_what_is_no_message(rules: Path) -> None:
    code, out, err = penstock("rules", "explain", str(rules), stdin="\n")
    assert (code, out) == (1, "")
    assert "There is no message on stdin" in err
    for text in ("hello", '{"id": 1}', "[]", '{"jsonrpc":"2.0","id":1,"method":"a"}\n{"x":1}\n'):
        code, out, err = penstock("rules", "explain", str(rules), stdin=text)
        assert (code, out) == (1, "")
        assert "The message on stdin would be refused" in err


def test_the_time_of_a_test_must_be_one(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    message = "    message: {id: 1, method: ping}\n    expect: pass\n"
    path.write_text(f"tests:\n  - session: {{at: noon}}\n{message}")
    code, _, err = penstock("check", str(path))
    assert code == 1
    assert f"{path}:2: at must be a time such as 2026-11-16T09:30" in err


def test_a_bad_file_is_told_its_faults(rules: Path) -> None:
    rules.write_text("interceptor: {rules: [{id: a, actions: [{blok: x}]}]}\n")
    for verb in ("test", "explain"):
        code, out, err = penstock("rules", verb, str(rules))
        assert (code, out) == (1, "")
        assert 'did you mean "block"?' in err
