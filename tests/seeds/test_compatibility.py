"""Notes on compatibility with servers and clients, row by row."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from seed_rows import row

from gate import Gate, call, children_of, is_running, request, wait_until
from ruled import Ruled, rule

ODD = {
    "D51": b'{"method":"v/a","id":%b,"params":{"z":1,"a":2},"jsonrpc":"2.0"}',
    "D52": b'  {"jsonrpc" :\t"2.0" , "id": %b,"method":"v/a","params" : { } }',
    "D53": b'{"jsonrpc":"2.0","id":%b,"method":"v/a","params":{"t":"\\u65e5\\u672c"}}',
    "D54": b'{"jsonrpc":"2.0","id":%b,"method":"v/a","params":{"n":[1.0,1e400,12345678901234567890123]}}',
    "D55": b'{"jsonrpc":"2.0","id":%b,"method":"v/a","params":{"t":"  a\\t b  "}}',
}


@pytest.mark.parametrize("name", ODD)
@row("D51", "D52", "D53", "D54", "D55")
def test_every_byte_of_a_message_is_preserved(gate: Gate, name: str) -> None:
    token = b'"%b"' % name.encode()
    gate.say(ODD[name] % token)
    gate.answer(token)
    assert ODD[name] % token in gate.reached()
    raw = (ODD[name] % token).replace(b'"method":"v/a",', b"").replace(b'"params"', b'"result"')
    gate.say(request(token, "x/say", json.dumps({"raw": raw.decode("latin-1") + "\n", "mute": 1}).encode()))
    assert gate.answer(token) == raw


@row("D56")
def test_each_message_is_one_line(gate: Gate) -> None:
    gate.say(request(b"1", "ping"))
    gate.say(request(b"2", "ping"))
    assert gate.answer(b"1") == b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert gate.answer(b"2") == b'{"jsonrpc":"2.0","id":2,"result":{}}'


@row("D57", "D58", "D59")
def test_requests_responses_and_notifications_pass_both_ways(gate: Gate) -> None:
    notice = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a" : 1}}'
    gate.say(notice)
    back = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t", "progress":1}}'
    asked = '{"jsonrpc":"2.0","id":"q","method":"roots/list"}'
    gate.order("say", raw=back + "\n" + asked + "\n")
    assert back.encode() in gate.unasked
    assert asked.encode() in gate.unasked
    response = b'{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}'
    gate.say(response)
    assert gate.is_alive()
    assert notice in gate.reached()
    assert response in gate.reached()


@pytest.mark.parametrize(
    "token", [b"42", b"0", b"-7", b'"abc-123"', b'"9f3c2d1e-0000-4000-8000-00805f9b34fb"']
)
@row("D60", "D61")
def test_ids_are_numbers_or_texts(gate: Gate, token: bytes) -> None:
    gate.say(request(token, "ping"))
    assert gate.answer(token) == b'{"jsonrpc":"2.0","id":%b,"result":{}}' % token


@row("D62")
def test_an_error_may_have_the_id_null(gate: Gate) -> None:
    raw = '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
    gate.order("say", raw=raw + "\n")
    assert raw.encode() in gate.unasked
    gate.say(b"{")
    assert json.loads(gate.line())["id"] is None


@row("D63")
def test_more_than_128_levels_are_rejected(gate: Gate) -> None:
    for levels, passes in ((128, True), (129, False)):
        gate.say(request(b"1", "v/deep", b'{"a":%b%b}' % (b"[" * (levels - 2), b"]" * (levels - 2))))
        assert (b'"result"' in gate.answer(b"1")) is passes


@row("D64")
def test_ten_mebibytes_pass_and_more_is_rejected_aloud(tmp_path: Path) -> None:
    limit = 10 * 1024 * 1024
    with Gate(tmp_path, "--deny", "^x_") as gate:
        gate.handshake()
        assert len(gate.order("big", bytes=limit)["result"]["text"]) > limit - 200
        assert "error" in gate.order("big", bytes=limit + 1)
        gate.send(b"x" * (21 * 1024 * 1024) + b"\n")
        assert b'"error"' in gate.line()
        assert gate.is_alive()
        assert "MiB" in gate.stderr


@row("E65")
def test_the_child_starts_at_once(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^x") as gate:
        assert wait_until(lambda: len(children_of(gate.process.pid)) >= 1)
        assert gate.reached() == []


@row("E66")
def test_a_child_that_fails_to_start_is_noticed(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^x", upstream=["--exit", "3"]) as gate:
        assert gate.process.wait(20) == 1
        assert "3" in gate.stderr


@row("E67")
def test_the_end_of_the_client_is_the_end_of_the_child(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^x") as gate:
        gate.handshake()
        pid = gate.order("pid")["result"]["pid"]
        assert gate.end() == 0
        assert not is_running(pid)


@row("E68")
def test_a_child_that_does_not_leave_is_killed(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^x", upstream=["--ignore-eof", "--ignore-term"]) as gate:
        gate.handshake()
        pid = gate.order("pid")["result"]["pid"]
        gate.end(within=30)
        assert not is_running(pid)


@row("E75")
def test_when_the_child_dies_who_waits_hears_it_and_the_proxy_ends(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^x") as gate:
        gate.handshake()
        gate.say(request(b'"die"', "x/die", b'{"signal":9}'))
        assert b'"error"' in gate.answer(b'"die"')
        assert gate.process.wait(20) == 1
        assert "Lost connection" in gate.stderr


@row("E76")
def test_the_childs_stderr_passes_unparsed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import sys; sys.stderr.write('{\"jsonrpc\": odd\\n'); sys.stdin.read()"]
    with Gate(tmp_path, "--deny", "^x", command=words) as gate:
        assert wait_until(lambda: '{"jsonrpc": odd' in gate.stderr)
        gate.end()


@row("G97", "G98")
def test_noise_on_stdout_is_logged_and_skipped(gate: Gate) -> None:
    gate.order("say", raw="Debug: hello\n\n[1,2\n")
    assert wait_until(lambda: "Skipped" in gate.stderr)
    assert gate.is_alive()


RULES = [
    rule("no-keys", [{"method_equals": "tools/call"}], {"block": "No keys here"}),
    rule("no-reading", [{"method_equals": "resources/read"}], {"block": "Not that one"}),
    rule(
        "no-sampling",
        [{"method_equals": "sampling/createMessage"}],
        {"block": "No sampling"},
        direction="upstream",
    ),
]


@row("N178", "N180", "N181", "N182")
def test_policy_decides_about_calls_reads_and_sampling_and_says_why(tmp_path: Path) -> None:
    with Ruled("stdio", tmp_path, {"rules": RULES}) as ruled:
        assert ruled.client.call("echo")["error"] == {
            "code": -32001,
            "message": "No keys here",
            "data": {"rule": "no-keys", "action": "block"},
        }
        assert ruled.client.ask("resources/read", b'{"uri":"a:b"}')["error"]["message"] == "Not that one"
        asked = '{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{}}'
        ruled.client.order("say", raw=asked + "\n")
        assert not [heard for heard in ruled.client.heard if b"sampling" in heard.raw]


@row("N176", "N177", "N179")
def test_what_is_audited_and_what_is_not(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with Gate(tmp_path, "--deny", "^(write|delete)_", "--audit", str(audit)) as gate:
        gate.handshake()
        for method in (
            "ping",
            "tools/list",
            "resources/list",
            "prompts/list",
            "vendor.acme/custom",
            "v/unknown",
        ):
            gate.ask(method)
        gate.say(call("echo", b"1"))
        gate.answer(b"1")
        assert gate.end() == 0
    entries: list[dict[str, Any]] = [json.loads(line) for line in audit.read_text().splitlines()]
    methods = [entry["method"] for entry in entries if entry.get("kind") == "message"]
    assert methods == [
        "tools/list",
        "resources/list",
        "prompts/list",
        "vendor.acme/custom",
        "v/unknown",
        "tools/call",
    ]
