"""Both eras of MCP over stdio, and clients that keep to neither."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate import META, Gate, call, request

DENY = ("--deny", "^(write|delete)_")
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


def _names(answer: dict[str, dict[str, list[dict[str, str]]]]) -> list[str]:
    return [tool["name"] for tool in answer["result"]["tools"]]


def _modern(token: bytes, method: str, more: bytes = b"") -> bytes:
    return request(token, method, b"{%b%b}" % (more, META))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_legacy_client_has_its_own_handshake_and_ours_is_not_seen(tmp_path: Path, version: str) -> None:
    with Gate(tmp_path, *DENY) as gate:
        assert gate.handshake(version)["result"]["protocolVersion"] == version
        assert _names(gate.ask("tools/list")) == ["echo", "read_file"]
        assert gate.is_alive()
        methods = [json.loads(line)["method"] for line in gate.reached()]
        assert methods == ["initialize", "notifications/initialized", "tools/list", "tools/call"]
        assert gate.unasked == []


def test_the_version_that_the_upstream_chooses_is_passed_on(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, upstream=["--version", "2024-11-05"]) as gate:
        assert gate.handshake("2025-11-25")["result"]["protocolVersion"] == "2024-11-05"


@pytest.mark.parametrize("first", ["server/discover", "tools/list", "tools/call", "resources/list"])
def test_a_modern_client_may_begin_with_anything(tmp_path: Path, first: str) -> None:
    with Gate(tmp_path, *DENY) as gate:
        more = b'"name":"echo",' if first == "tools/call" else b""
        gate.say(_modern(b'"first"', first, more))
        answer = json.loads(gate.answer(b'"first"'))
        assert "result" in answer
        if first == "tools/list":
            assert _names(answer) == ["echo", "read_file"]
        gate.say(_modern(b'"list"', "tools/list"))
        assert _names(json.loads(gate.answer(b'"list"'))) == ["echo", "read_file"]
        gate.say(_modern(b'"denied"', "tools/call", b'"name":"write_file",'))
        assert json.loads(gate.answer(b'"denied"'))["error"]["code"] == -32601
        gate.say(_modern(b'"allowed"', "tools/call", b'"name":"echo",'))
        assert json.loads(gate.answer(b'"allowed"'))["result"]["called"] == "echo"
        messages = [json.loads(line) for line in gate.reached()]
        assert "initialize" not in [message["method"] for message in messages]
        ours = [message for message in messages if message["method"] == "tools/list"]
        assert len(ours) == 1
        meta = ours[0]["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert meta["io.modelcontextprotocol/clientInfo"] == {"name": "raw", "version": "1"}
        assert not any("write_file" in json.dumps(message) for message in messages)


def test_what_belongs_to_one_modern_request_is_not_copied_to_ours(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        meta = META[:-1] + b',"progressToken":5,"traceparent":"00-x"}'
        gate.say(request(b"1", "tools/list", b"{%b}" % meta))
        gate.answer(b"1")
        probe, ours = [json.loads(line) for line in gate.reached()]
        assert probe["method"] == "server/discover"  # a tools/list proves nothing, so this went before it
        assert probe["params"] == ours["params"]
        assert set(ours["params"]["_meta"]) == {
            "io.modelcontextprotocol/protocolVersion",
            "io.modelcontextprotocol/clientInfo",
            "io.modelcontextprotocol/clientCapabilities",
        }


def test_a_client_that_skips_the_handshake_is_gated_too(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        assert _names(gate.ask("tools/list")) == ["echo", "read_file"]
        assert gate.ask("tools/call", b'{"name":"write_file"}')["error"]["code"] == -32601
        assert gate.is_alive()


def test_a_client_that_asks_too_early_hears_the_upstream_and_may_ask_again(tmp_path: Path) -> None:
    error = b'{"code":-32002,"message":"not initialized"}'
    with Gate(tmp_path, *DENY, upstream=["--list-error", error.decode()]) as gate:
        gate.say(request(b"1", "tools/list"))
        assert gate.answer(b"1") == b'{"jsonrpc":"2.0","id":1,"error":%b}' % error
        assert gate.ask("ping")["result"] == {}


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
def test_tool_requests_that_come_before_the_handshake_is_through_wait(tmp_path: Path, method: str) -> None:
    with Gate(tmp_path, *DENY, upstream=["--list-delay", "0.2"]) as gate:
        gate.send(
            request(b"1", "initialize", b'{"protocolVersion":"2025-06-18"}') + b"\n"
            + request(b"2", method, b'{"name":"echo"}') + b"\n"
            + call("write_file", b"3") + b"\n"
            + request(b"4", "ping") + b"\n"
        )  # fmt: skip
        answers = {json.loads(gate.line())["id"] for _ in range(4)}
        assert answers == {1, 2, 3, 4}
        methods = [json.loads(line)["method"] for line in gate.reached()]
        assert methods[0] == "initialize"
        assert not any(b"write_file" in line for line in gate.reached())


def test_an_upstream_without_tools_answers_in_its_own_words(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, upstream=["--no-tools"]) as gate:
        gate.handshake()
        gate.say(request(b"1.0", "tools/list"))
        assert gate.answer(b"1.0") == (
            b'{"jsonrpc":"2.0","id":1.0,"error":{"code":-32601, "message":"no tools at \\u65e5"}}'
        )
        assert gate.ask("tools/call", b'{"name":"echo"}')["error"]["message"] == "Tool not found: echo"
        assert gate.ask("ping")["result"] == {}


def test_a_client_that_probes_for_the_modern_era_can_fall_back(tmp_path: Path) -> None:
    """The upstream speaks the legacy era only: it refuses everything before its handshake."""
    with Gate(tmp_path, *DENY, upstream=["--legacy-only"]) as gate:
        for method in ("server/discover", "tools/list"):
            gate.say(_modern(b'"probe"', method))
            assert json.loads(gate.answer(b'"probe"'))["error"]["code"] == -32602
        gate.handshake()
        assert _names(gate.ask("tools/list")) == ["echo", "read_file"]
        assert gate.is_alive()


def test_tools_that_an_upstream_adds_before_anybody_has_looked_are_in_the_catalog(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake()
        names = ["echo", "late", "write_late"]
        tools = ",".join(f'{{"name":"{name}","inputSchema":{{"type":"object"}}}}' for name in names)
        gate.order("retool", raw=f'{{"tools":[{tools}]}}')
        assert _names(gate.ask("tools/list")) == ["echo", "late"]
        gate.order("retool", raw='{"tools":[]}')
        assert _names(gate.ask("tools/list")) == ["echo", "late"]
        assert gate.ask("tools/call", b'{"name":"write_late"}')["error"]["code"] == -32601
        assert gate.ask("tools/call", b'{"name":"late"}')["result"]["called"] == "late"


# --- batches -------------------------------------------------------------------------------------------


def test_in_2025_03_26_every_member_of_a_batch_is_gated_as_if_it_came_alone(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake("2025-03-26")
        assert gate.is_alive()
        before = len(gate.reached())
        parts = [
            call("echo", b"1"),
            call("write_file", b'"two"'),
            b'{"jsonrpc":"2.0","method":"notifications/x"}',
            request(b"3", "tools/list"),
            b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","name":"write_file"}}',
            b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"write_file"}}',
            b"[]",
            b"5",
            request(b"6.0", "ping"),
        ]
        gate.say(b"[ %b ]" % b" , ".join(parts))
        answers = json.loads(gate.line())
        by_id = {str(answer["id"]): answer for answer in answers}
        assert by_id["1"]["result"]["called"] == "echo"
        assert by_id["two"]["error"]["code"] == -32601
        assert _names(by_id["3"]) == ["echo", "read_file"]
        assert by_id["4"]["error"]["code"] == -32600
        assert by_id["6.0"]["result"] == {}
        assert [answer["id"] for answer in answers].count(None) == 2
        assert len(answers) == 7
        assert gate.reached()[before:] == [parts[0], parts[2], parts[8]]
        assert gate.is_alive()


def test_a_batch_of_notifications_has_no_answer(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake("2025-03-26")
        gate.say(b'[{"jsonrpc":"2.0","method":"notifications/x"}]')
        assert gate.is_alive()
        assert gate.unasked == []


def test_a_batch_that_waits_for_the_list_is_answered_whole(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, upstream=["--list-delay", "0.3"]) as gate:
        gate.handshake("2025-03-26")
        gate.say(b"[%b,%b]" % (call("write_file", b"1"), request(b"2", "tools/list")))
        assert [answer["id"] for answer in json.loads(gate.line())] == [1, 2]


def test_a_batch_that_is_under_way_when_the_upstream_dies_is_answered(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake("2025-03-26")
        assert gate.is_alive()
        gate.say(b"[%b,%b]" % (request(b"1", "ping"), request(b"2", "x/die")))
        answers = json.loads(gate.line())
        assert [("result" in answer, answer["id"]) for answer in answers] == [(True, 1), (False, 2)]
        gate.rest()


def test_an_upstreams_batch_is_passed_on_in_parts(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake("2025-03-26")
        parts = [b'{"jsonrpc":"2.0","method":"a"}', b'{ "jsonrpc":"2.0","id":<id>,"result":{}}']
        gate.say(
            request(
                b"9",
                "x/say",
                json.dumps({"raw": f"[{parts[0].decode()} , {parts[1].decode()}]\n", "mute": 1}).encode(),
            )
        )
        assert gate.line() == parts[0]
        assert gate.line() == parts[1].replace(b"<id>", b"9")


@pytest.mark.parametrize("version", [version for version in VERSIONS if version != "2025-03-26"])
def test_elsewhere_a_batch_is_refused(tmp_path: Path, version: str) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake(version)
        assert gate.is_alive()
        before = len(gate.reached())
        gate.say(b"[%b]" % call("echo"))
        answer = json.loads(gate.line())
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        assert gate.reached()[before:] == []
        assert gate.is_alive()


# --- what flows both ways ------------------------------------------------------------------------------


def test_an_id_that_still_waits_cannot_be_used_again(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake()
        gate.say(request(b"7", "x/say", b'{"raw":"","mute":true}'))
        gate.say(request(b"7.0", "ping"))
        answer = json.loads(gate.line())
        assert answer["error"]["code"] == -32600
        assert gate.is_alive()


def test_a_request_with_a_null_id_is_answered_and_forgotten(tmp_path: Path) -> None:
    with Gate(tmp_path) as gate:
        gate.handshake()
        reply = '{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}'
        for _ in range(2):
            gate.say(request(b"null", "x/say", json.dumps({"raw": reply + "\n", "mute": True}).encode()))
            assert gate.line() == reply.encode()


def test_read_only_and_allow_work_together(tmp_path: Path) -> None:
    with Gate(tmp_path, "--read-only", "--allow", "file") as gate:
        gate.handshake()
        assert _names(gate.ask("tools/list")) == ["read_file"]
