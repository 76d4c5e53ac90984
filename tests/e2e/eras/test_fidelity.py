"""Row 23 of the eras: what stands in arguments, params, results and errors is the sender's own bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from doors import StdioDoor
from gate import META
from pairs import Proxy, Upstream

VALUES = [
    b'{ "b" : 1.0 , "a" : [ ] }',
    b'{"t":"\\u65e5\\/\\u0000\\ud83d\\ude00"}',
    b'{"n":[1.0,1e400,-0,1E+2,0.10,' + b"9" * 40 + b"]}",
    b'{"z":null,"a":{"k":1,"k":2}}',
    b'{"half":"\\ud800","low":"\\udc00 x"}',
    '{"t":"日本\u2028\u2029\x85é😀"}'.encode(),
    b'{"deep":' + b"[" * 60 + b"]" * 60 + b"}",
    b"{}",
]
IDS = [b"1.0", b"1e3", b"12345678901234567890123456789012345678901", b'"\\u0061\\n"', b'""', b'"1"']
CELLS = [
    (client, upstream, era)
    for client, upstream in (("stdio", "stdio"), ("streamable", "stdio"), ("streamable", "streamable"))
    for era in ("legacy", "modern")
]


@pytest.fixture(scope="module", params=CELLS, ids="-".join)
def cell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    client, transport, era = request.param
    work = tmp_path_factory.mktemp("cell")
    only = "--modern-only" if era == "legacy" else "--legacy-only"
    with Upstream(transport, work, only) as upstream:
        options = ["--era", "bridge", "--deny", "^write_"]
        if client == "stdio":
            words = [sys.executable, "-m", "penstock", "--stdio", *options, *upstream.words()]
            with (work / "errors").open("wb") as errors, StdioDoor(words, era, errors) as door:
                door.begin()
                yield door, upstream
        else:
            with Proxy(work, upstream.words(), *options) as proxy, proxy.connect(client, era) as door:
                door.begin()
                yield door, upstream


@pytest.mark.parametrize("value", VALUES)
def test_23_arguments_and_results_are_the_senders_bytes(cell: tuple[Any, Any], value: bytes) -> None:
    door, upstream = cell
    assert door.call("echo", value)["result"]["called"] == "echo"
    assert any(b'"arguments":' + value in line for line in upstream.reached())
    token = door.new_id()
    door.request(token, "v/params", b'{"v":%b}' % value)
    door.answer(token)
    assert any(b'"v":' + value in line for line in upstream.reached())
    token = door.new_id()
    raw = b'{"jsonrpc":"2.0","id":<id>,"result":{"content":[], "v" :%b}}\n' % value
    door.begin_order("say", token, raw=raw.decode("latin-1"), mute=1)
    assert b'"content":[], "v" :' + value in door.answer(token)
    token = door.new_id()
    raw = b'{"jsonrpc":"2.0","id":<id>,"error":{"code":-32000,"message":"\\u65e5", "data" :%b}}\n' % value
    door.begin_order("say", token, raw=raw.decode("latin-1"), mute=1)
    assert b'"message":"\\u65e5", "data" :' + value in door.answer(token)


@pytest.mark.parametrize("token", IDS)
def test_23_ids_come_back_as_they_were_written(cell: tuple[Any, Any], token: bytes) -> None:
    door, _ = cell
    meta = b",%b" % META if door.era == "modern" else b""
    door.say(
        b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"echo","arguments":{}%b}}'
        % (token, meta)
    )
    heard = door.message(lambda raw: b'"called"' in raw and b'"id":' + token + b"," in raw.replace(b" ", b""))
    assert heard.raw
