"""Every way round the gate that is known, fired at a live one. Numbers are rows of the threat catalogue."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gate import Gate, call, is_answer_to, request
from readings import calls_in

DENIED = ("write_file", "delete_file")
DENY = ("--deny", "^(write|delete)_")


class Attack(NamedTuple):
    row: str
    what: str
    raw: bytes
    verdict: str
    token: bytes = b'"t"'


def _params(params: bytes, method: bytes = b'"tools/call"') -> bytes:
    return b'{"jsonrpc":"2.0","id":"t","method":%b,"params":%b}' % (method, params)


def _name(text: str) -> bytes:
    return _params(b'{"name":%b,"arguments":{}}' % json.dumps(text).encode())


def _raw_name(text: str | bytes) -> bytes:
    return _params(b'{"name":"%b","arguments":{}}' % (text.encode() if isinstance(text, str) else text))


def _deep(levels: int) -> bytes:
    inner = levels - 3
    return _params(b'{"name":"echo","arguments":{"a":%b%b}}' % (b"[" * inner, b"]" * inner))


WRITE = call("write_file", b'"t"')
NF, DROP, SILENT, INVALID, UNKNOWN, FORWARD, LISTED = "nf drop silent invalid unknown forward listed".split()

ATTACKS = [
    Attack("1", "plain call of a denied tool", WRITE, NF),
    Attack("1", "plain call of a tool that exists nowhere", _name("nowhere"), NF),
    Attack("2", "denied name last", _params(b'{"name":"echo","name":"write_file"}'), DROP),
    Attack("2", "denied name first", _params(b'{"name":"write_file","name":"echo"}'), DROP),
    Attack("3", "the same name twice", _params(b'{"name":"write_file","name":"write_file"}'), DROP),
    Attack("3", "an allowed name twice", _params(b'{"name":"echo","name":"echo"}'), DROP),
    Attack("4", "two params, denied last", WRITE[:-1] + b',"params":{"name":"echo"}}', DROP),
    Attack("4", "two params, denied first", call("echo")[:-1] + b',"params":{"name":"write_file"}}', DROP),
    Attack("5", "two methods", WRITE[:-1] + b',"method":"ping"}', DROP),
    Attack("5", "two methods, call last", request(b"1", "ping", b'{"name":"write_file"}')[:-1]
           + b',"method":"tools/call"}', DROP),
    Attack("5", "two ids", call("echo", b"1")[:-1] + b',"id":2}', DROP),
    Attack("5", "two ids, one begins like the other, and two params", WRITE.replace(b'"t"', b"12")[:-1] + b',"params":{"name":"echo"},"id":1}', DROP),
    Attack("6", "escaped key alone", _params(b'{"\\u006eame":"write_file"}'), NF),
    Attack("6", "escaped key beside a plain one", _params(b'{"name":"echo","\\u006eame":"write_file"}'), DROP),
    Attack("7", "name in escapes", _params(b'{"name":"\\u0077rite_file"}'), NF),
    Attack("7", "method in escapes", _params(b'{"name":"write_file"}', b'"\\u0074ools\\u002fcall"'), NF),
    Attack("7", "method with an escaped slash", _params(b'{"name":"write_file"}', b'"tools\\/call"'), NF),
    *(
        Attack("8", f"{key} beside name", _params(b'{"name":"echo","%b":"write_file"}' % key.encode()), DROP)
        for key in ("Name", "NAME", "ｎame", "na\u1d50e")
    ),
    Attack("8", "Name instead of name", _params(b'{"Name":"write_file"}'), DROP),
    Attack("8", "Params beside params", call("echo")[:-1] + b',"Params":{"name":"write_file"}}', DROP),
    Attack("8", "long s in params", call("echo")[:-1] + ',"param\u017f":{"name":"write_file"}}'.encode(), DROP),
    Attack("8", "Method beside method", request(b"1", "ping", b'{"name":"write_file"}')[:-1]
           + b',"Method":"tools/call"}', DROP),
    Attack("8", "Params alone", b'{"jsonrpc":"2.0","id":"t","method":"tools/call","Params":{"name":"write_file"}}',
           DROP),
    *(
        Attack("11", f"key {key!a}", _params(b'{"name":"echo",%b:"write_file"}' % json.dumps(key).encode()), DROP)
        for key in ("name ", " name", "name\t", "na\u200bme", "name\0", "name\u00a0", "\ufeffname", "name\ufe0f")
    ),
    Attack("12", "UTF-8 byte order mark", b"\xef\xbb\xbf" + WRITE, DROP),
    Attack("12", "byte order mark before an allowed call", b"\xef\xbb\xbf" + call("echo"), DROP),
    *(
        Attack("13", encoding, WRITE.decode().encode(encoding), DROP)
        for encoding in ("utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32-be", "utf-32")
    ),
    Attack("14", "overlong bytes in the name", _raw_name(b"write\xc1\x9ffile"), DROP),
    Attack("14", "a surrogate in UTF-8", _raw_name(b"write_file\xed\xa0\x80"), DROP),
    Attack("14", "a stray byte in an argument", _params(b'{"name":"echo","arguments":{"a":"\xff"}}'), DROP),
    *(
        Attack("15", f"{number.decode()} in a call", _params(b'{"name":"echo","arguments":{"n":%b}}' % number), DROP)
        for number in (b"NaN", b"Infinity", b"-Infinity", b"01", b"0x10", b"1.", b".5", b"+1")
    ),
    *(
        Attack("16", f"denied call with id {token[:9].decode()}", call("write_file", token), NF, token)
        for token in (b"1e400", b"-0", b"1.5", b"9" * 5_000, b"9" * 30)
    ),
    *(
        Attack("16", f"allowed call with id {token[:9].decode()}", call("echo", token), FORWARD, token)
        for token in (b"1e400", b"-0", b"1.5", b"9" * 5_000, b"9" * 30)
    ),
    Attack("17", "half a pair in an argument", _params(b'{"name":"echo","arguments":{"a":"\\ud800"}}'), FORWARD),
    Attack("17", "half a pair after a denied name", _params(b'{"name":"write_file\\ud800"}'), INVALID),
    Attack("18", "raw control byte in a string", _raw_name(b"write_file\x01"), DROP),
    Attack("18", "NUL before the message", b"\0" + WRITE, DROP),
    Attack("18", "escaped NUL after the name", _params(b'{"name":"write_file\\u0000"}'), NF),
    Attack("19", "comment", WRITE[:-1] + b"/* */}", DROP),
    Attack("19", "line comment", WRITE + b"// x", DROP),
    Attack("19", "trailing comma", WRITE[:-1] + b",}", DROP),
    Attack("19", "single quotes", WRITE.replace(b'"', b"'"), DROP),
    Attack("19", "bare keys", b'{jsonrpc:"2.0",id:"t",method:"tools/call",params:{name:"write_file"}}', DROP),
    Attack("20", "128 levels", _deep(128), FORWARD),
    Attack("20", "129 levels", _deep(129), DROP),
    Attack("20", "1,000 levels", _deep(1_000), DROP),
    Attack("20", "100,000 levels", _deep(100_000), DROP),
    Attack("20", "50,000 levels that never close", _params(b'{"name":"echo","arguments":' + b"[" * 50_000), DROP),
    *(
        Attack("23", f"two messages with {between!r} between", call("echo") + between + WRITE, DROP)
        for between in (b"", b" ", b",", b"\t", b"\r", b";", b"\0")
    ),
    Attack("23", "garbage before", b"x" + WRITE, DROP),
    Attack("23", "garbage after", WRITE + b"x", DROP),
    Attack("23", "denied call before a ping", WRITE + request(b"2", "ping"), DROP),
    *(
        Attack("24", f"params {params.decode()}", _params(params), INVALID)
        for params in (
            b'{"name":["write_file"]}', b'{"name":{"a":"write_file"}}', b'{"name":null}', b'{"name":5}',
            b"{}", b"null", b'{"arguments":{"name":"write_file"}}', b'"write_file"', b"5",
        )
    ),
    Attack("24", "no params", b'{"jsonrpc":"2.0","id":"t","method":"tools/call"}', INVALID),
    Attack("25", "__proto__ carries a name", _params(b'{"__proto__":{"name":"write_file"}}'), DROP),
    Attack("25", "__proto__ beside a name", _params(b'{"name":"echo","__proto__":{"name":"write_file"}}'), DROP),
    Attack("25", "constructor beside a name", _params(b'{"name":"echo","constructor":{"name":"write_file"}}'), DROP),
    Attack("25", "__proto__ in the envelope", call("echo")[:-1]
           + b',"__proto__":{"params":{"name":"write_file"}}}', DROP),
    Attack("26", "a name of 1 MB", _name("w" * 1_000_000), NF),
    *(
        Attack("26", f"name {name!a}", _name(name), NF)
        for name in ("write\r\nfile", "\x1b[31mwrite_file", "\u202ewrite_file", "<b>write_file</b>", "\u2066x")
    ),
    Attack("27", "array with a denied call", b"[" + WRITE + b"]", DROP),
    Attack("27", "array with an allowed and a denied call", b"[" + call("echo") + b"," + WRITE + b"]", DROP),
    Attack("28", "nested array", b"[[" + WRITE + b"]]", DROP),
    Attack("28", "empty array", b"[]", DROP),
    Attack("28", "junk array", b'[1,"tools/call",null,{}]', DROP),
    Attack("28", "array that does not end", b"[" + WRITE, DROP),
    Attack("28", "array with something after it", b"[]" + WRITE, DROP),
    Attack("28", "array with tools/list", b"[" + request(b"1", "tools/list") + b"]", DROP),
    Attack("29", "call without an id", b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"write_file"}}', SILENT),
    Attack("29", "allowed call without an id", b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}', SILENT),
    Attack("30", "id null", call("write_file", b"null"), SILENT),
    *(Attack("30", f"id {token.decode()}", call("write_file", token), DROP) for token in (b"true", b"[]", b"{}")),
    *(
        Attack("31", f"method {method!a}", _params(b'{"name":"write_file"}', json.dumps(method).encode()), UNKNOWN)
        for method in (
            "Tools/Call", "TOOLS/CALL", "tools/call ", " tools/call", "tools//call", "tools／call",
            "tools/\u200bcall", "tools/call\0", "tools/call/", "/tools/call", "tool\u017f/call", "tools\\call",
            "Tools/List", "tools/list ",
        )
    ),
    Attack("32", "jsonrpc missing", b'{"id":"t","method":"tools/call","params":{"name":"write_file"}}', DROP),
    Attack("32", "jsonrpc 1.0", WRITE.replace(b'"2.0"', b'"1.0"'), DROP),
    Attack("32", "jsonrpc a number", WRITE.replace(b'"2.0"', b"2.0"), DROP),
    Attack("33", "method and result", WRITE[:-1] + b',"result":{}}', DROP),
    Attack("33", "method and error", WRITE[:-1] + b',"error":{"code":1,"message":""}}', DROP),
    Attack("34", "a response nobody asked for", b'{"jsonrpc":"2.0","id":"t","result":{"name":"write_file"}}', SILENT),
    Attack("34", "an error nobody asked for", b'{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":""}}', SILENT),
    Attack("35", "positional params", _params(b'["write_file",{}]'), INVALID),
    *(
        Attack("36", f"name {name!a}", _name(name), NF)
        for name in (
            "write_file ", " write_file", "\twrite_file", "write_file\n", "Write_File", "WRITE_FILE",
            unicodedata.normalize("NFD", "write_filé"), "writе_file", "write\u200b_file", "write%5ffile",
            "./write_file", "\u200fwrite_file", "ｗrite_file", "echo ", "Echo", "e\u200bcho",
        )
    ),
    *(
        Attack("38", f"tools/list with {params.decode()}", _params(params, b'"tools/list"'), INVALID)
        for params in (
            b'{"cursor":"forged"}', b'{"cursor":-1}', b'{"cursor":' + b"9" * 40 + b"}", b'{"cursor":""}',
            b'{"cursor":{}}', b'{"cursor":["x"]}', b"[]", b"null", b'"x"',
        )
    ),
    *(
        Attack("38", f"tools/list with {params.decode()}", _params(params, b'"tools/list"'), LISTED)
        for params in (b"{}", b'{"cursor":null}', b'{"filter":"write_file"}', b'{"_meta":{"progressToken":1}}')
    ),
    Attack("38", "tools/list twice", _params(b"{}", b'"tools/list"')[:-1] + b',"method":"tools/list"}', DROP),
    Attack("41", "a call as a task", _params(b'{"name":"write_file","task":{"ttl":1}}'), NF),
    Attack("43", "completion/complete names a denied tool",
           _params(b'{"ref":{"type":"ref/prompt","name":"write_file"}}', b'"completion/complete"'), FORWARD),
    Attack("44", "prompts/get names a denied tool", _params(b'{"name":"write_file"}', b'"prompts/get"'), FORWARD),
    Attack("44", "resources/read names a denied tool", _params(b'{"uri":"x:write_file"}', b'"resources/read"'), FORWARD),
    Attack("45", "a vendor method that wraps a call", _params(b'{"name":"write_file"}', b'"x/tools.call"'), FORWARD),
    Attack("49", "_meta names a safe tool", _params(b'{"name":"write_file","_meta":{"name":"echo","Mcp-Name":"echo"}}'), NF),
    Attack("51", "carriage returns round an inner call",
           b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":\r' + WRITE + b"\r}}", FORWARD),
    *(
        Attack("52", f"{char!a} between messages", call("echo") + char.encode() + WRITE, DROP)
        for char in "\u2028\u2029\x85\x1e\x0b\x0c"
    ),
    *(
        Attack("53", f"{char!a} raw inside a string",
               _params(f'{{"name":"echo","arguments":{{"a":"x{char}y"}}}}'.encode()), FORWARD)
        for char in "\u2028\u2029\x85"
    ),
    Attack("54", "framing as in LSP", b"Content-Length: %d\r\n\r\n" % len(WRITE) + WRITE, NF),
    Attack("58", "blank lines and NUL bytes", b"\n \n\t\r\n\0\0\n", SILENT),
]  # fmt: skip


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


@pytest.mark.parametrize("attack", ATTACKS, ids=[f"{a.row} {a.what}"[:80] for a in ATTACKS])
def test_the_gate_stands(live: Live, attack: Attack) -> None:
    reached, told = _fire(live.get(), attack.raw)
    for line in reached:
        assert not calls_in(line) & set(DENIED), f"a denied call reached the upstream: {line[:300]!r}"
    if attack.verdict == FORWARD:
        assert reached == [attack.raw.replace(b"\r", b" ")]
        assert all(b'"error"' not in line for line in told)
        assert len(told) == (b'"id":' in attack.raw[:30])
        return
    assert reached == []
    if attack.verdict == NF:
        answer = told[-1]
        error = _error(answer)
        assert is_answer_to(answer, attack.token)
        assert error.keys() == {"code", "message"}
        assert error["code"] == -32601
        shown = str(error["message"])
        assert shown.startswith("Tool not found: ")
        assert shown.isprintable()
        assert len(shown) < 160
        told = told[:-1]
    elif attack.verdict == LISTED:
        names = [tool["name"] for tool in json.loads(told[0])["result"]["tools"]]
        assert names == ["echo", "read_file"]
    elif attack.verdict == INVALID:
        assert [_error(line)["code"] for line in told] == [-32602]
        assert is_answer_to(told[0], attack.token)
    elif attack.verdict == UNKNOWN:
        assert [(_error(line)["code"], _error(line)["message"]) for line in told] == [
            (-32601, "Method not found")
        ]
    elif attack.verdict == SILENT:
        assert told == []
    if attack.verdict in (DROP, NF):
        assert all(_error(line)["code"] in (-32700, -32600) for line in told)
        assert attack.verdict == NF or len(told) >= 1
    for line in told:
        assert not any(name.encode() in line for name in DENIED), "an answer names a hidden tool"


_CONTROLS = [
    attack
    for attack in ATTACKS
    if attack.verdict != FORWARD and len(attack.raw) < 1_000 and calls_in(attack.raw) & set(DENIED)
]


@pytest.mark.parametrize("attack", _CONTROLS[::3], ids=[f"{a.row} {a.what}"[:80] for a in _CONTROLS[::3]])
def test_the_recorder_sees_what_would_leak_without_a_gate(tmp_path: Path, attack: Attack) -> None:
    with Gate(tmp_path, direct=True) as gate:
        gate.say(attack.raw)
        assert gate.is_alive()
        assert set().union(*(calls_in(line) for line in gate.reached())) & set(DENIED)


@pytest.mark.parametrize(
    "raw",
    [
        _params(b'{"name":"echo","name":"write_file"}'),
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
        new = '{"tools":[{"name":"echo","inputSchema":{}},{"name":"fresh","inputSchema":{}},{"name":"write_file","inputSchema":{}}]}'
        gate.order("retool", raw=new)
        assert gate.ask("tools/list")["result"] == before
        reached, told = _fire(gate, call("fresh", b'"t"'))
        assert reached == []
        assert _error(told[-1])["code"] == -32601


def test_97_a_description_changed_after_the_start_is_not_shown(tmp_path: Path) -> None:
    with Gate(tmp_path, *DENY) as gate:
        gate.handshake()
        before = gate.ask("tools/list")["result"]
        gate.order("retool", raw='{"tools":[{"name":"echo","description":"evil","inputSchema":{}}]}')
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


UPSTREAM_NOISE = [
    ("50 two messages on one line", b'{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","method":"b"}\n'),
    ("50 CR between messages", b'{"jsonrpc":"2.0","method":"a"}\r{"jsonrpc":"2.0","method":"b"}\n'),
    ("50 CR inside a message", b'{"jsonrpc":"2.0",\r"method":"a"}\n'),
    ("59 a debug print", b"starting up, listening on stdio\n"),
    ("59 partial JSON", b'{"jsonrpc":"2.0","meth\n'),
    ("59 binary", bytes(range(256)).replace(b"\n", b"") + b"\n"),
    ("59 a JSON text that is no message", b'"hello"\n5\nnull\n'),
    ("59 an object that is no message", b'{"level":"info","msg":"hello"}\n'),
    ("59 NaN", b'{"jsonrpc":"2.0","method":"a","params":{"x":NaN}}\n'),
    ("59 blank lines", b"\n\n   \n"),
    ("93 a response nobody asked for", b'{"jsonrpc":"2.0","id":77,"result":{"tools":[{"name":"write_file"}]}}\n'),
    ("93 a response with a foreign id", b'{"jsonrpc":"2.0","id":"penstock-0","result":{"tools":[{"name":"write_file"}]}}\n'),
    ("93 a notification with a tool list", b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed",'
     b'"params":{"tools":[{"name":"write_file","inputSchema":{}}]}}\n'),
    ("93 a log with a tool list", b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":'
     b'{"result":{"tools":[{"name":"delete_file","inputSchema":{}},7]}}}}\n'),
    ("93 a tool list in escapes", b'{"jsonrpc":"2.0","method":"x","params":{"\\u0074ools":[{"name":"\\u0077rite_file"}]}}\n'),
    ("93 a batch", b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":{}}]\n'),
    ("104 two results", b'{"jsonrpc":"2.0","id":1,"result":{},"result":{}}\n'),
]  # fmt: skip


@pytest.mark.parametrize(("what", "raw"), UPSTREAM_NOISE, ids=[what for what, _ in UPSTREAM_NOISE])
def test_what_an_upstream_must_not_say_is_skipped_and_the_stream_goes_on(
    live: Live, what: str, raw: bytes
) -> None:
    gate = live.get()
    assert gate.order("say", raw=raw.decode("latin-1"))["result"] == {"said": True}
    assert gate.is_alive()
    assert gate.unasked == []
    assert "59 blank" in what or "warning: " in gate.stderr


def test_93_a_tool_list_before_the_catalog_is_there_is_not_shown(tmp_path: Path) -> None:
    early = '{"jsonrpc":"2.0","method":"notifications/x","params":{"tools":[{"name":"write_file"}]}}\n'
    with Gate(tmp_path, *DENY, upstream=["--after-initialize", early, "--list-delay", "0.2"]) as gate:
        gate.handshake()
        assert gate.is_alive()
        assert gate.unasked == []


@pytest.mark.parametrize(
    ("what", "reply"),
    [
        ("50 CR inside", b'{"jsonrpc":"2.0","id":<id>,\r"result":{}}'),
        ("50 two messages", b'{"jsonrpc":"2.0","id":<id>,"result":{}}{"jsonrpc":"2.0","method":"b"}'),
        ("104 NaN", b'{"jsonrpc":"2.0","id":<id>,"result":{"x":NaN}}'),
        ("104 result and error", b'{"jsonrpc":"2.0","id":<id>,"result":{},"error":{"code":1,"message":""}}'),
        ("104 neither", b'{"jsonrpc":"2.0","id":<id>}'),
        ("104 two results", b'{"jsonrpc":"2.0","id":<id>,"result":1,"result":2}'),
        ("104 jsonrpc 1.0", b'{"jsonrpc":"1.0","id":<id>,"result":{}}'),
        ("104 invalid UTF-8", b'{"jsonrpc":"2.0","id":<id>,"result":"\xff"}'),
        ("104 129 levels", b'{"jsonrpc":"2.0","id":<id>,"result":' + b"[" * 128 + b"]" * 128 + b"}"),
        ("104 129 levels, id last", b'{"result":' + b"[" * 128 + b"]" * 128 + b',"jsonrpc":"2.0","id":<id>}'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_who_waits_for_an_answer_that_cannot_be_passed_on_hears_an_error(
    live: Live, what: str, reply: bytes
) -> None:
    gate = live.get()
    answer = gate.order("say", raw=reply.decode("latin-1") + "\n", mute=True)
    assert answer["error"]["code"] == -32603
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
    assert str(size) in gate.stderr or size > 20 * 1024 * 1024


def test_95_escaped_and_decomposed_names_are_filtered(tmp_path: Path) -> None:
    accented = unicodedata.normalize("NFD", "supprimé").encode()
    pages = [
        b'{"tools":[{"name":"\\u0077rite_file","inputSchema":{}},{"n\\u0061me":"delete\\u005ffile","inputSchema":{}},'
        b'{"name":"%b","inputSchema":{}},{"name":"echo","inputSchema":{}}]}' % accented
    ]
    with Gate(tmp_path, *DENY, "--deny", unicodedata.normalize("NFC", "^supprimé$"), pages=pages) as gate:
        gate.handshake()
        assert [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]] == ["echo"]
        for name in (*DENIED, accented.decode(), unicodedata.normalize("NFC", accented.decode())):
            assert _error(_fire(gate, call(name, b'"t"'))[1][-1])["code"] == -32601


def test_96_double_and_unspeakable_names_are_left_out_aloud(tmp_path: Path) -> None:
    tools = [
        b'{"name":"echo","description":"first","inputSchema":{}}',
        b'{"name":"echo","description":"second","inputSchema":{}}',
        b'{"name":"a b","inputSchema":{}}',
        b'{"name":"a\\u001b[31m","inputSchema":{}}',
        b'{"name":"' + b"x" * 1_000_000 + b'","inputSchema":{}}',
        b'{"name":"","inputSchema":{}}',
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
    tool = b'{"name":"echo","inputSchema":{"$ref":"http://127.0.0.1:9/x","x-mcp-header":"a\\r\\nb"}}'
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
