"""Threats over stdio that take more than one message; the single ones are the tables in trials/attack."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from gate import Gate, call, request
from readings import calls_in
from trials.attack.client_bytes import WRITE, params_call

DENIED = ("write_file", "delete_file")
DENY = ("--deny", "^(write|delete)_")


class Live:
    """A gate that is started again when an attack has brought it down, so that one failure stays one."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.gate: Gate | None = None

    def get(self) -> Gate:
        if self.gate is None or self.gate.process.poll() is not None:
            self.gate = Gate(self.work, *DENY, upstream=["--split-cr"])
            self.gate.handshake()
            assert self.gate.is_alive()
        self.gate.unasked.clear()
        return self.gate


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    live = Live(tmp_path_factory.mktemp("threats"))
    yield live
    if live.gate is not None:
        with live.gate:
            pass


def _fire(gate: Gate, raw: bytes) -> tuple[list[bytes], list[bytes]]:
    """Sends `raw`; what reached the upstream, and what the client was told."""
    before = len(gate.reached())
    gate.unasked.clear()
    gate.say(raw)
    assert gate.is_alive(), "the next allowed call does not work"
    return gate.reached()[before:-1], gate.unasked


def _error(line: bytes) -> dict[str, object]:
    error = json.loads(line, parse_int=str if b"99999" in line else None)["error"]
    return {**error, "code": int(error["code"])}


@pytest.mark.parametrize(
    "raw",
    [
        params_call(b'{"name":"echo","name":"write_file"}'),
        b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":\r' + WRITE + b"\r}}",
    ],
    ids=["2 denied name last", "51 carriage returns round an inner call"],
)
def test_a_naive_upstream_runs_what_the_gate_keeps_from_it(tmp_path: Path, raw: bytes) -> None:
    with Gate(tmp_path, direct=True, upstream=["--split-cr"]) as gate:
        gate.say(raw)
        assert json.loads(gate.answer(b'"t"'))["result"]["called"] == "write_file"


def test_hidden_and_unknown_tools_get_the_same_bytes_but_for_their_names(live: Live) -> None:
    """Row 1: nobody can tell a hidden tool from none."""
    gate = live.get()
    told = [_fire(gate, call(name, b"7"))[1][0] for name in ("write_file", "delete_file", "no_such_tool")]
    bare = {
        line.replace(name, b"")
        for line, name in zip(told, (b"write_file", b"delete_file", b"no_such_tool"), strict=True)
    }
    assert len(bare) == 1


@pytest.mark.parametrize(
    "how", ["one byte a write", "CRLF", "cut inside a character", "cut inside an escape"]
)
@pytest.mark.parametrize("name", ["echo", "write_file"])
def test_56_pieces_make_no_difference(live: Live, how: str, name: str) -> None:
    gate = live.get()
    arguments = '{"a":"日本","b":"\\u65e5"}'.encode()
    raw = b'{"jsonrpc":"2.0","id":"p","method":"tools/call","params":{"name":"%b","arguments":%b}}' % (
        name.encode(), arguments,
    )  # fmt: skip
    before = len(gate.reached())
    if how == "one byte a write":
        for i in range(len(raw)):
            gate.send(raw[i : i + 1])
        gate.send(b"\n")
    elif how == "CRLF":
        gate.send(raw + b"\r\n")
    else:
        border = raw.index("本".encode()) + 1 if "character" in how else raw.index(b"\\u65e5") + 3
        gate.send(raw[:border])
        assert gate.maybe_line(0.05) is None
        gate.send(raw[border:] + b"\n")
    reply = json.loads(gate.answer(b'"p"'))
    assert gate.is_alive()
    if name == "echo":
        assert reply["result"]["called"] == "echo"
        assert gate.reached()[before:-1] == [raw]
    else:
        assert reply["error"]["code"] == -32601
        assert gate.reached()[before:-1] == []


@pytest.mark.parametrize("name", ["echo", "write_file"])
@pytest.mark.parametrize("cut", [20, 60, -1, 0])
def test_55_a_call_cut_off_by_the_end_of_input_is_never_half_sent(
    tmp_path: Path, name: str, cut: int
) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake()
        assert gate.is_alive()
        before = len(gate.reached())
        gate.send(call(name)[: cut or None])
        assert gate.end() == 0
        assert gate.reached()[before:] in ([], [call(name)] if (name, cut) == ("echo", 0) else [])


def test_39_tools_that_appear_later_are_neither_listed_nor_callable(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake()
        before = gate.ask("tools/list")["result"]
        new = '{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"fresh","inputSchema":{"type":"object"}},{"name":"write_file","inputSchema":{"type":"object"}}]}'
        gate.order("retool", raw=new)
        assert gate.ask("tools/list")["result"] == before
        reached, told = _fire(gate, call("fresh", b'"t"'))
        assert reached == []
        assert _error(told[-1])["code"] == -32601


def test_97_a_description_changed_after_the_start_is_not_shown(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake()
        before = gate.ask("tools/list")["result"]
        gate.order(
            "retool", raw='{"tools":[{"name":"echo","description":"evil","inputSchema":{"type":"object"}}]}'
        )
        assert gate.ask("tools/list")["result"] == before


def test_40_a_denied_call_is_denied_before_after_and_between_handshakes(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.say(call("write_file", b'"early"'))
        assert _error(gate.answer(b'"early"'))["code"] < 0
        gate.handshake("2024-11-05")
        for _ in range(2):
            _, told = _fire(gate, WRITE)
            assert _error(told[-1])["code"] == -32601
            gate.handshake("2025-03-26")
            assert [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]] == [
                "echo",
                "read_file",
            ]
        assert not any(calls_in(line) & set(DENIED) for line in gate.reached())


def test_41_task_methods_pass_because_a_stdio_upstream_has_one_client(live: Live) -> None:
    raw = request(b'"t"', "tasks/get", b'{"taskId":"write_file"}')
    assert _fire(live.get(), raw)[0] == [raw]


def test_47_a_cancel_of_a_call_that_was_refused_stays_here(live: Live) -> None:
    gate = live.get()
    _fire(gate, call("write_file", b"4711"))
    for token in (b"4711", b"4711.0"):
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % token
        assert _fire(gate, cancel) == ([], [])
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"t-known"}}'
    assert _fire(gate, cancel)[0] == [cancel]


def test_47_a_cancel_of_a_call_that_still_waits_for_the_list_ends_that_call(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY, upstream=["--list-delay", "1"]) as gate:
        gate.handshake()
        gate.say(call("read_file", b'"held"'))
        gate.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"held"}}')
        assert gate.is_alive()
        assert not any(b'"held"' in line for line in gate.reached())


def test_47_an_id_used_again_after_a_refusal_can_be_cancelled(live: Live) -> None:
    gate = live.get()
    _fire(gate, call("write_file", b"31"))
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":31}}'
    raw = request(b"31", "x/nothing")
    assert _fire(gate, raw + b"\n" + cancel)[0] == [raw, cancel]


def test_93_a_tool_list_before_the_catalog_is_there_is_not_shown(tmp_path: Path) -> None:
    early = '{"jsonrpc":"2.0","method":"notifications/x","params":{"tools":[{"name":"write_file"}]}}\n'
    with Gate(tmp_path, *DENY, upstream=["--after-initialize", early, "--list-delay", "0.2"]) as gate:
        gate.handshake()
        assert gate.is_alive()
        assert gate.unasked == []


def test_128_levels_pass_from_the_upstream(live: Live) -> None:
    assert "result" in live.get().order("deep", levels=128)


@pytest.mark.parametrize("is_last", [False, True], ids=["id first", "id last"])
@pytest.mark.parametrize("size", [10 * 1024 * 1024 + 1, 21 * 1024 * 1024])
def test_104_an_answer_that_is_too_large_becomes_an_error(live: Live, size: int, is_last: bool) -> None:
    gate = live.get()
    answer = gate.order("big", bytes=size, last=is_last)
    assert answer["error"]["code"] == -32603
    assert gate.is_alive()
    assert f"{size:,}" in gate.stderr or size > 20 * 1024 * 1024


def test_95_escaped_and_decomposed_names_are_filtered(tmp_path: Path) -> None:
    accented = unicodedata.normalize("NFD", "supprimé").encode()
    pages = [
        b'{"tools":[{"name":"\\u0077rite_file","inputSchema":{"type":"object"}},{"n\\u0061me":"delete\\u005ffile","inputSchema":{"type":"object"}},'
        b'{"name":"%b","inputSchema":{"type":"object"}},{"name":"echo","inputSchema":{"type":"object"}}]}'
        % accented
    ]
    with Gate(tmp_path, *DENY, "--deny", unicodedata.normalize("NFC", "^supprimé$"), pages=pages) as gate:
        gate.handshake()
        assert [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]] == ["echo"]
        for name in (*DENIED, accented.decode(), unicodedata.normalize("NFC", accented.decode())):
            assert _error(_fire(gate, call(name, b'"t"'))[1][-1])["code"] == -32601


def test_96_double_and_unspeakable_names_are_left_out_aloud(tmp_path: Path) -> None:
    tools = [
        b'{"name":"echo","description":"first","inputSchema":{"type":"object"}}',
        b'{"name":"echo","description":"second","inputSchema":{"type":"object"}}',
        b'{"name":"a b","inputSchema":{"type":"object"}}',
        b'{"name":"a\\u001b[31m","inputSchema":{"type":"object"}}',
        b'{"name":"' + b"x" * 1_000_000 + b'","inputSchema":{"type":"object"}}',
        b'{"name":"","inputSchema":{"type":"object"}}',
    ]
    with Gate(tmp_path, *DENY, pages=[b'{"tools":[' + b",".join(tools) + b"]}"]) as gate:
        gate.handshake()
        listed = gate.ask("tools/list")["result"]["tools"]
        assert [(tool["name"], tool["description"]) for tool in listed] == [("echo", "first")]
        assert _error(_fire(gate, call("a b", b'"t"'))[1][-1])["code"] == -32601
        assert gate.stderr.count("left out") == 5
        assert "\x1b" not in gate.stderr


def test_101_errors_of_other_methods_pass_untouched(live: Live) -> None:
    reply = b'{"jsonrpc":"2.0","id":<id>,"error":{"code":-1,"message":"tools: write_file, echo"}}'
    answer = live.get().order("say", raw=reply.decode() + "\n", mute=True)
    assert answer["error"]["message"] == "tools: write_file, echo"


def test_102_sampling_with_tools_passes(live: Live) -> None:
    gate = live.get()
    raw = b'{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"tools":[{"name":"write_file"}]}}'
    gate.order("say", raw=raw.decode() + "\n")
    assert gate.unasked == [raw]
    answer = b'{"jsonrpc":"2.0","id":"s","result":{"role":"assistant"}}'
    assert _fire(gate, answer)[0] == [answer]


def test_34_an_answer_to_the_upstream_passes_once(live: Live) -> None:
    gate = live.get()
    gate.order("say", raw='{"jsonrpc":"2.0","id":"once","method":"roots/list"}\n')
    answer = b'{"jsonrpc":"2.0","id":"once","result":{"roots":[]}}'
    assert _fire(gate, answer)[0] == [answer]
    assert _fire(gate, answer) == ([], [])


def test_103_references_in_a_schema_are_bytes_like_any_other(tmp_path: Path) -> None:
    tool = b'{"name":"echo","inputSchema":{"type":"object","$ref":"http://127.0.0.1:9/x","x-mcp-header":"a\\r\\nb"}}'
    with Gate(tmp_path, *DENY, pages=[b'{"tools":[%b]}' % tool]) as gate:
        gate.handshake()
        gate.say(request(b"1", "tools/list"))
        assert tool in gate.answer(b"1")


def test_110_everything_denied_is_an_empty_list_and_a_working_proxy(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", ".") as gate:
        gate.handshake()
        assert gate.ask("tools/list")["result"]["tools"] == []
        assert gate.ask("ping")["result"] == {}


def test_110_a_pattern_that_matches_nothing_is_a_warning(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "^nothing_like_it$") as gate:
        gate.handshake()
        assert len(gate.ask("tools/list")["result"]["tools"]) == 4
        assert "matches no tool: --deny ^nothing_like_it$" in gate.stderr


def test_110_without_a_pattern_everything_passes(tmp_path: Path) -> None:
    with Gate(tmp_path) as gate:
        gate.handshake()
        assert len(gate.ask("tools/list")["result"]["tools"]) == 4
        assert _fire(gate, WRITE)[0] == [WRITE]
