"""Bytes in are bytes out, both ways, for everything that Penstock does not answer itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate import Gate, request

ODD = [
    b' { "jsonrpc" :\t"2.0" , "id" : %d , "method" : "x/odd" , "params" : { "b" : 1.0 , "a" : [ ] } } ',
    b'{"method":"x/odd","params":{"t":"\\u65e5\\/\\u0000\\ud83d\\ude00"},"id":%d,"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":%d,"method":"x/odd","params":{"n":[1.0,1e400,-0,1E+2,0.10,' + b"9" * 40 + b"]}}",
    b'{"jsonrpc":"2.0","id":%d,"method":"x/odd","unknown":{"z":null},"params":{"a":{"k":1,"k":2}}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"x/odd","params":[1,2,3]}',
    b'{"jsonrpc":"2.0","id":%d,"method":"x/odd","params":{"half":"\\ud800","low":"\\udc00 x"}}',
    '{"jsonrpc":"2.0","id":%d,"method":"x/odd","params":{"t":"日本\u2028\u2029\x85é😀"}}'.encode(),
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"arguments":{"a":1,"a":2},"name":"e\\u0063ho"}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"prompts/get","params":{"name":"write_file"}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"resources/read","params":{"uri":"file:///%%20"}}',
]
NOTIFICATIONS = [
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.0,"progress":0.50}}',
    b'{ "method":"notifications/cancelled", "jsonrpc":"2.0","params":{"requestId":"never \\u0073een"}}',
    b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}',
    b'{"jsonrpc":"2.0","method":"vendor/thing","x":[]}',
]
IDS = [
    b"1.0",
    b"-0",
    b"1e3",
    b"12345678901234567890123456789012345678901",
    b'"s"',
    b'"\\u0061\\n"',
    b'""',
    b'"1"',
]
REPLIES = [
    b'{"jsonrpc":"2.0","id":<id>,"result":{"n":[1.0,1e400,-0,1E+2,'
    + b"9" * 40
    + b'],"t":"\\u65e5\\/","x":{}}}',
    b' { "result" : { } , "id" : <id> , "jsonrpc" : "2.0" , "unknown" : 1.50 } ',
    b'{"jsonrpc":"2.0","id":<id>,"error":{"code":-32000.0,"message":"\\u65e5","data":{"a":1,"a":2}}}',
    b'{"jsonrpc":"2.0","id":<id>,"result":"\\ud800"}',
    '{"jsonrpc":"2.0","id":<id>,"result":"日本\u2028\x85"}'.encode(),
    b'{"jsonrpc":"2.0","id":<id>,"result":null}',
]
FROM_UPSTREAM = [
    b'{"jsonrpc":"2.0","id":"s\\u0031","method":"sampling/createMessage","params":{ "maxTokens":1.0,'
    b'"tools":[{"name":"write_file","inputSchema":{"type":"object"}}]}}',
    b'{"jsonrpc":"2.0","id":7.0,"method":"elicitation/create","params":{"message":"\\u65e5"}}',
    b'{"id":' + b"8" * 40 + b',"jsonrpc":"2.0","method":"roots/list"}',
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info" , "data":1e400}}',
    b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
    b'{"jsonrpc":"2.0","method":"notifications/vendor","params":[1.0]}',
    b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"},"id":null}',
]


@pytest.fixture(scope="module", params=[("--deny", "^(write|delete)_"), ()], ids=["filtering", "no filter"])
def gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    with Gate(tmp_path_factory.mktemp("gate"), *request.param) as gate:
        gate.handshake()
        assert gate.is_alive()
        yield gate


def _spread(gate: Gate, data: bytes, how: str, seed: int = 0) -> None:
    if how == "whole":
        gate.send(data)
    elif how == "byte by byte":
        for i in range(len(data)):
            gate.send(data[i : i + 1])
    else:
        dice = Random(seed)
        while data:
            size = dice.randint(1, 40)
            gate.send(data[:size])
            data = data[size:]


def _reaches(gate: Gate, lines: list[bytes], how: str, end: bytes = b"\n", seed: int = 0) -> list[bytes]:
    """What of `lines` reaches the upstream."""
    before = len(gate.reached())
    _spread(gate, b"".join(line + end for line in lines), how, seed)
    assert gate.is_alive()
    return gate.reached()[before:-1]


@pytest.mark.parametrize("how", ["whole", "byte by byte", "in random pieces"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_what_the_client_says_reaches_the_upstream_to_the_byte(gate: Gate, how: str, end: bytes) -> None:
    lines = [line % (5000 + i) if b"%d" in line else line for i, line in enumerate(ODD)] + NOTIFICATIONS
    assert _reaches(gate, lines, how, end) == lines
    answered = {json.loads(line)["id"] for line in gate.unasked if b'"result"' in line}
    assert {5000 + i for i in range(len(ODD))} <= answered


@pytest.mark.parametrize("token", IDS, ids=[token.decode() for token in IDS])
def test_ids_pass_both_ways_as_written(gate: Gate, token: bytes) -> None:
    assert _reaches(gate, [request(token, "x/nothing")], "whole") == [request(token, "x/nothing")]
    assert b'{"jsonrpc":"2.0","id":%b,"result":{"heard":"a vendor method"}}' % token in gate.unasked


@pytest.mark.parametrize("how", ["whole", "in random pieces"])
def test_answers_reach_the_client_to_the_byte(gate: Gate, how: str) -> None:
    for number, reply in enumerate(REPLIES):
        token = b"%d" % (6000 + number)
        raw = (reply + b"\n").decode("latin-1")
        gate.unasked.clear()
        line = request(token, "x/say", json.dumps({"raw": raw, "mute": True}).encode())
        _reaches(gate, [line], how)
        assert gate.unasked == [reply.replace(b"<id>", token)]


def test_what_the_upstream_says_unasked_reaches_the_client_and_the_answers_go_back(gate: Gate) -> None:
    gate.unasked.clear()
    gate.order("say", raw=b"".join(line + b"\n" for line in FROM_UPSTREAM).decode("latin-1"))
    assert gate.unasked == FROM_UPSTREAM
    answers = [
        b'{ "jsonrpc":"2.0","id":"s\\u0031","result":{"role":"assistant", "x":1.0}}',
        b'{"jsonrpc":"2.0","id":7.0,"error":{"code":-1,"message":"\\u65e5"}}',
        b'{"result":{"roots":[]},"id":' + b"8" * 40 + b',"jsonrpc":"2.0"}',
    ]
    assert _reaches(gate, answers, "whole") == answers


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=15,
)


@given(st.lists(st.tuples(_JSON, st.booleans()), min_size=1, max_size=6), st.integers(0, 2**32))
@settings(max_examples=12)
def test_whatever_is_said_in_whatever_pieces_arrives_unchanged(
    gate: Gate, contents: list[tuple[Any, bool]], seed: int
) -> None:
    lines = []
    for content, is_ascii in contents:
        arguments = json.dumps(content, ensure_ascii=is_ascii, separators=None if seed % 2 else (",", ":"))
        gate._next_id += 1
        params = b'{"name":"echo","arguments":{"a":%b}}' % arguments.encode()
        lines.append(request(b"%d" % gate._next_id, "tools/call", params))
    assert _reaches(gate, lines, "in random pieces", seed=seed) == lines


@given(_JSON, st.booleans())
@settings(max_examples=12)
def test_whatever_is_answered_arrives_unchanged(gate: Gate, content: Any, is_ascii: bool) -> None:
    gate._next_id += 1
    token = b"%d" % gate._next_id
    result = json.dumps(content, ensure_ascii=is_ascii).encode()
    reply = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (token, result)
    order = json.dumps({"raw": (reply + b"\n").decode("latin-1"), "mute": True}).encode()
    gate.say(request(token, "x/say", order))
    assert gate.answer(token) == reply


def test_a_line_break_inside_a_message_becomes_a_blank_and_nothing_else_changes(tmp_path: Path) -> None:
    with Gate(tmp_path, "--deny", "write") as gate:
        gate.handshake()
        assert gate.is_alive()
        raw = b'{"jsonrpc":"2.0","id":1,\r"method":"ping"\r}'
        assert _reaches(gate, [raw], "whole") == [raw.replace(b"\r", b" ")]


def test_kept_tools_are_the_upstreams_own_bytes(tmp_path: Path) -> None:
    tool = b'{ "name":"%b", "inputSchema":{"type":"object","x":[1.0,1e400]}, "title":"\\u65e5", "icons":[]}'
    names = [b"write_a", b"b", b"c", b"write_d", b"e"]
    pages = [
        b'{ "tools" : [ %b , %b ] , "nextCursor":"", "ttlMs":1.0 }' % (tool % names[0], tool % names[1]),
        b'{"tools":[],"nextCursor":"two"}',
        b'{"tools":[%b,%b,%b]}' % (tool % names[2], tool % names[3], tool % names[4]),
    ]
    with Gate(tmp_path, "--deny", "^write", pages=pages) as gate:
        gate.handshake()
        gate.say(b'{"jsonrpc":"2.0","id":"l\\u0031","method":"tools/list"}')
        assert gate.line() == (
            b'{"jsonrpc":"2.0","id":"l\\u0031","result":{ "tools" : [%b,%b,%b] , "ttlMs":1.0 }}'
            % (tool % names[1], tool % names[2], tool % names[4])
        )
        lists = sum(b"tools/list" in line for line in gate.reached())
        assert gate.ask("tools/list")["result"]["ttlMs"] == 1.0
        assert sum(b"tools/list" in line for line in gate.reached()) == lists == 3
