"""Keys of a configuration file that change what a client is told: deny_code, batch, on_crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate import Gate, call, request
from pairs import Proxy, Upstream


def _file(work: Path, **document: object) -> list[str]:
    path = work / "penstock.json"
    path.write_text(json.dumps({"tools": {"deny": ["^delete_"]}, **document}))
    return ["--config", str(path)]


def test_deny_code_is_the_code_of_every_tool_that_is_not_there(tmp_path: Path) -> None:
    with Gate(tmp_path, *_file(tmp_path, tools={"deny": ["^delete_"], "deny_code": -32602})) as gate:
        gate.handshake()
        for name in ("delete_file", "no_such_tool"):
            gate.say(call(name, b"1"))
            error = json.loads(gate.answer(b"1"))["error"]
            assert error == {"code": -32602, "message": f"Tool not found: {name}"}


def test_deny_code_must_be_an_error_code(tmp_path: Path) -> None:
    with Gate(tmp_path, *_file(tmp_path, tools={"deny_code": "no"})) as gate:
        assert gate.process.wait(20) == 1
        assert "tools.deny_code must be an error code" in gate.stderr


BATCH = b"[%b,%b]" % (request(b"1", "ping"), request(b"2", "ping"))


@pytest.mark.parametrize(("word", "is_taken"), [("inspect", True), ("refuse", False)])
def test_batches_are_inspected_or_refused(tmp_path: Path, word: str, is_taken: bool) -> None:
    with Gate(tmp_path, *_file(tmp_path, batch=word)) as gate:
        gate.handshake("2025-03-26")
        gate.say(BATCH)
        answer = json.loads(gate.line())
        assert isinstance(answer, list) is is_taken
        if not is_taken:
            assert answer["error"]["code"] == -32600


def test_batches_are_refused_between_http_and_http_too(tmp_path: Path) -> None:
    with (
        Upstream("streamable", tmp_path) as upstream,
        Proxy(tmp_path, upstream.words(), *_file(tmp_path, batch="refuse")) as proxy,
        proxy.connect("streamable", "legacy") as client,
    ):
        client.begin("2025-03-26")
        response = client.post(BATCH)
        client.until(lambda: response.is_over)
        assert response.status == 400
        assert json.loads(response.body)["error"]["code"] == -32600


@pytest.mark.parametrize(("word", "is_answered"), [("answer", True), ("silent", False)])
def test_who_waits_for_a_lost_upstream_hears_it_or_nothing(
    tmp_path: Path, word: str, is_answered: bool
) -> None:
    with Gate(tmp_path, *_file(tmp_path, on_crash=word)) as gate:
        gate.handshake()
        gate.say(request(b'"waits"', "x/die", b"{}"))
        assert gate.process.wait(20) == 1
        assert any(b'"waits"' in line for line in gate.rest()) is is_answered
