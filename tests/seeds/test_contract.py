"""The contract of a tool filter, row by row."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
from pathlib import Path

import pytest
from black_box import SAMPLE_COMMAND, run
from seed_rows import row

from gate import SCRIPTED, Gate, call, request
from pairs import Proxy, Upstream

ROOT = Path(__file__).parents[2]


@row("B17", "B18")
def test_the_list_has_only_what_passed_the_filter(gate: Gate) -> None:
    names = [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]]
    assert names
    assert not [name for name in names if re.search("^(write|delete)_", name)]


@row("B19")
def test_the_order_is_the_upstreams(gate: Gate) -> None:
    assert [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]] == ["echo", "read_file"]


@row("B20")
def test_the_list_costs_no_upstream_call(gate: Gate) -> None:
    gate.ask("tools/list")
    before = gate.reached()
    gate.ask("tools/list")
    assert gate.reached() == before
    assert sum(b"tools/list" in line for line in before) == 1


@row("C31", "C32", "C37")
def test_an_allowed_call_goes_up_and_its_answer_comes_back_as_it_is(gate: Gate) -> None:
    raw = request(b"77", "tools/call", b'{"name":"echo","arguments":{"arg1":"value1"}}')
    gate.say(raw)
    answer = gate.answer(b"77")
    assert answer == (
        b'{"jsonrpc":"2.0","id":77,"result":{"content":[{"type":"text","text":"called"}], "called" : "echo"}}'
    )
    assert raw in gate.reached()


@row("C33", "C34", "C35", "C36")
def test_a_denied_call_is_answered_like_an_unknown_one_and_goes_nowhere(gate: Gate) -> None:
    before = gate.reached()
    answers = []
    for name in ("delete_file", "no_such_tool"):
        gate.say(call(name, b"3"))
        answers.append(gate.answer(b"3").replace(name.encode(), b"NAME"))
    assert answers[0] == answers[1]
    assert json.loads(answers[0])["error"] == {"code": -32601, "message": "Tool not found: NAME"}
    assert gate.reached() == before


@pytest.mark.parametrize("method", ["resources/list", "resources/read", "prompts/list", "prompts/get"])
@row("C38", "C39", "C40", "C41", "C43")
def test_other_methods_pass_unmodified(gate: Gate, method: str) -> None:
    raw = b'{ "id":"m" ,"method":"%b","jsonrpc":"2.0", "params":{"uri":"a:b", "n" : 1.0}}' % method.encode()
    gate.say(raw)
    assert gate.answer(b'"m"') == b'{"jsonrpc":"2.0","id":"m","result":{"heard":"%b"}}' % method.encode()
    assert raw in gate.reached()


@row("C42")
def test_sampling_passes_to_the_client_and_its_answer_back(gate: Gate) -> None:
    asked = '{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"maxTokens": 1e2}}'
    gate.order("say", raw=asked + "\n")
    assert asked.encode() in gate.unasked
    answer = b'{"jsonrpc":"2.0","id":"s1","result":{"role":"assistant", "n":1.0}}'
    gate.say(answer)
    assert gate.is_alive()
    assert answer in gate.reached()


@row("C44")
def test_an_error_of_the_upstream_reaches_the_client(gate: Gate) -> None:
    raw = '{"jsonrpc":"2.0","id":<id>,"error":{"code":-32050 ,"message":"quota","data":{"n":1.0}}}'
    gate.say(request(b"5", "x/say", json.dumps({"raw": raw + "\n", "mute": True}).encode()))
    assert gate.answer(b"5") == raw.replace("<id>", "5").encode()


@row("C45")
def test_a_slow_answer_holds_up_no_other(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^x") as gate:
        gate.handshake()
        gate.say(request(b'"slow"', "x/say", b'{"raw":"","mute":true}'))  # never answered
        assert gate.is_alive()


def _dying(work: Path) -> Gate:
    gate = Gate(work, "--deny", "^x")
    gate.handshake()
    gate.say(request(b'"p"', "x/die", b'{"status":7}'))
    return gate


@row("E71", "E72", "F85")
def test_a_lost_upstream_is_noticed_said_and_ends_the_proxy_with_1(tmp_path: Path) -> None:
    with _dying(tmp_path) as gate:
        assert b'"error"' in gate.answer(b'"p"')
        assert gate.process.wait(20) == 1
        assert "Error: Lost connection to upstream MCP" in gate.stderr
        assert "Shutting down proxy" in gate.stderr


@row("E74")
def test_there_is_no_attempt_to_reconnect(tmp_path: Path) -> None:
    with _dying(tmp_path) as gate:
        assert gate.process.wait(20) == 1
        assert sum(b'"initialize"' in line for line in gate.reached()) == 1


@pytest.mark.parametrize("transport", ["sse", "streamable"])
@row("X8")
def test_a_listener_before_an_upstream_that_dies_ends_with_1(tmp_path: Path, transport: str) -> None:
    with (
        Upstream(transport, tmp_path) as upstream,
        Proxy(tmp_path, upstream.words(), "--deny", "^x") as proxy,
        proxy.connect("streamable", "legacy") as client,
    ):
        client.begin()
        client.begin_order("say", b'"p"', raw="", mute=True)
        client.until(lambda: any(b"x/say" in line for line in upstream.reached()))
        assert upstream.process is not None
        upstream.process.send_signal(signal.SIGKILL)
        assert json.loads(client.answer(b'"p"'))["error"]["code"] == -32603
        assert proxy.process.wait(30) == 1
        assert "Error: Lost connection to upstream MCP" in proxy.stderr
        assert "Shutting down proxy" in proxy.stderr


@row("F78", "F79", "F80")
def test_an_invalid_pattern_is_named() -> None:
    done = run("--deny", "^[a-z", "--", *SAMPLE_COMMAND)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()[:2]
    assert first == 'Error: Invalid regex pattern in deny list: "^[a-z"'
    assert second.startswith("Pattern must be a valid regular expression")


@row("F81", "F82")
def test_an_unsafe_pattern_is_named() -> None:
    done = run("--deny", "(a+)+", "--", *SAMPLE_COMMAND)
    assert done.returncode == 1
    assert done.stderr.splitlines()[:2] == [
        'Error: Unsafe regex pattern detected: "(a+)+"',
        "Pattern could cause catastrophic backtracking",
    ]


@row("F83", "F84")
def test_a_tool_list_that_does_not_come_is_named() -> None:
    words = [sys.executable, "-S", str(SCRIPTED), "--mute", "list"]
    done = run("tools", "--tools-timeout", "300", "--", *words)
    assert done.returncode == 1
    assert "Error: Failed to fetch tool list from upstream MCP" in done.stderr
    assert "Request timeout after 300ms" in done.stderr


@row("F86", "F87")
def test_a_connection_that_fails_is_named_with_its_url() -> None:
    with socket.socket() as silent:  # takes the connection into its backlog and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run("tools", "--connect-timeout", "300", "--upstream", url)
    assert done.returncode == 1
    assert f"Error: Failed to connect to upstream MCP at {url}" in done.stderr
    assert "Connection timeout after 300ms" in done.stderr


@row("G92")
def test_no_internal_detail_reaches_a_client(tmp_path: Path) -> None:
    with _dying(tmp_path) as gate:
        answer = gate.answer(b'"p"')
        assert b"Traceback" not in answer
        assert str(ROOT).encode() not in answer
        assert b"/" not in json.loads(answer)["error"]["message"].encode()


@row("G93")
def test_names_in_errors_are_sanitised(gate: Gate) -> None:
    gate.say(request(b"8", "tools/call", b'{"name":"a\\u0000\\u001b[2J\\u202e%b"}' % (b"x" * 500)))
    message = json.loads(gate.answer(b"8"))["error"]["message"]
    assert message.isprintable()
    assert len(message) <= len("Tool not found: ") + 128


@row("G94")
def test_what_the_upstream_sends_is_checked_against_the_schema(tmp_path: Path) -> None:
    with Gate(tmp_path, "--validate", "strict") as gate:
        gate.handshake()
        for params, is_right in ((b'{"level":"info","data":1}', True), (b'{"level":5}', False)):
            raw = b'{"jsonrpc":"2.0","method":"notifications/message","params":%b}' % params
            gate.order("say", raw=raw.decode() + "\n")
            assert (raw in gate.unasked) is is_right


@pytest.mark.parametrize("options", [(), ("--deny", "^x")], ids=["open", "filtering"])
@row("G94")
def test_strict_validation_sees_what_the_tool_list_shows(tmp_path: Path, options: tuple[str, ...]) -> None:
    page = (
        b'{"tools":[{"name":"odd","title":5,"inputSchema":{"type":"object"}},'
        b'{"name":"good","inputSchema":{"type":"object"}}]}'
    )
    with Gate(tmp_path, "--validate", "strict", *options, pages=[page]) as gate:
        gate.handshake()
        assert [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]] == ["good"]
        assert 'the tool "odd" is left out: it breaks the MCP schema' in gate.stderr


@pytest.mark.parametrize("error", ['"no"', '{"code":"x","message":"no"}', '{"code":1}'])
@row("G94")
def test_an_error_that_is_none_is_caught(gate: Gate, error: str) -> None:
    answer = gate.order("say", raw=f'{{"jsonrpc":"2.0","id":<id>,"error":{error}}}\n', mute=True)
    assert answer["error"] == {"code": -32603, "message": "The upstream's answer is not valid"}


@row("X11")
def test_validate_without_its_package_ends_in_one_sentence(
    tmp_path: Path,
) -> None:
    (tmp_path / "jsonschema.py").write_text("raise ImportError('not here')\n")
    (tmp_path / "mcp_types.py").write_text("raise ImportError('not here')\n")
    (tmp_path / "pydantic.py").write_text("raise ImportError('not here')\n")
    done = run("--stdio", "--validate", "schema", "--", *SAMPLE_COMMAND, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "pip install" in done.stderr


@row("H99", "H100", "H101", "H102", "H103")
def test_the_measured_figures_keep_the_promises() -> None:
    # Timings never decide a test. The benchmark measures; these are the figures that it wrote down.
    measured = json.loads((ROOT / "bench" / "results.json").read_text())
    for group in measured["groups"].values():
        targets = group["targets"]
        direct, ours = targets["direct"], targets["penstock"]
        assert ours["call c=1"]["p50"] - direct["call c=1"]["p50"] < 5000
        for step in ("list c=1", "denied c=1"):
            if step in ours:
                assert ours[step]["p50"] < 1000
    for started in measured["start"].values():
        assert started["penstock"]["ms"] < 500
    bare = measured["memory"]["bare"]["private"]
    for pair in measured["memory"]["pairs"].values():
        assert pair["penstock"]["rest"]["private"] - bare < 10 * 1024
