"""What is recorded is what was sent, on every transport and in both eras."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doors import is_answer
from gate import request
from pairs import CELLS
from watched import Watched, raws, rows

MESSAGES = 14  # of each kind, in each of 18 cells: with their answers, a thousand in all


@pytest.mark.parametrize(("client", "upstream", "era"), CELLS, ids=[f"{c}-{u}-{e}" for c, u, e in CELLS])
def test_every_message_is_there_byte_for_byte(tmp_path: Path, client: str, upstream: str, era: str) -> None:
    path = tmp_path / "r.jsonl"
    sent, heard = [], []
    with Watched(tmp_path, client, upstream, "--record", str(path)) as watched:
        door = watched.connect(era)
        for number in range(MESSAGES):
            token = b'"odd-%d"' % number
            params = door.params(b'{ "name":"echo" , "arguments":{"n":1e400,"t":"\\u65e5 %d"}}' % number)
            calls = [request(token, "tools/call", params)]
            denied = door.params(b'{"name":"write_file","arguments":{}}')
            calls.append(request(b"%d" % (number + 5000), "tools/call", denied))
            for raw in calls:
                door.say(raw)
                sent.append(raw)
            heard += [door.answer(token), door.answer(b"%d" % (number + 5000))]
        watched.end()
    assert raws(path, "from:client", "method:tools/call", "kind:request") == sent
    found = rows(path)
    assert [row["i"] for row in found] == list(range(1, len(found) + 1))
    assert [row["t"] for row in found] == sorted(row["t"] for row in found)
    assert {
        row["verdict"] for row in found if row.get("tool") == "write_file" and row["kind"] == "request"
    } == {"deny"}
    answers = raws(path, "kind:response", "method:tools/call", "from:upstream")
    assert len(answers) == MESSAGES
    refusals = raws(path, "kind:response", "method:tools/call", "from:penstock")
    assert len(refusals) == MESSAGES
    for raw in heard:
        assert raw in answers or raw in refusals or _is_renumbered(raw, answers)
    by_number = {row["i"]: row for row in found}
    for row in found:
        if row["kind"] == "response" and row["method"] == "tools/call":
            assert by_number[row["re"]]["kind"] == "request"
    assert {row["from"] for row in found if row["kind"] == "request" and row["method"] == "tools/list"}


def _is_renumbered(raw: bytes, answers: list[bytes]) -> bool:
    """Where one link serves many clients, the upstream answers under another id."""
    result = json.loads(raw).get("result")
    return any(json.loads(answer).get("result") == result for answer in answers) and not is_answer(
        answers[0], b"nothing"
    )
