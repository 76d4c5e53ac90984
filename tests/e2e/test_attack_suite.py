"""The attack suite in its short form: every row of its tables over each client transport, in both eras.

`make attack` is the long form: all pairs, all versions, with rules, with floods, and without a proxy.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import trials.attack.client_bytes as client_bytes
from doors import Seen
from gate import ROOT
from readings import calls_in
from trials.attack.campaign import Plan, cells_of, run
from trials.attack.cell import Cell, alive
from trials.attack.elsewhere import ELSEWHERE
from trials.attack.hostile_upstreams import ATTACKS as ORDERS
from trials.attack.judge import denied_calls, hidden_names, words_of_ours
from trials.attack.messages import attack_with_messages
from trials.attack.orders import attack_with_orders
from trials.attack.reverse_proxies import NAMES, maybe_missing
from trials.attack.rows import DENIED, LEAK, Result

SHORT = cells_of(True, [])
SMALL = [row for row in client_bytes.ATTACKS if len(row.raw) < 2_000]


@pytest.mark.parametrize("plan", SHORT, ids=[plan.name for plan in SHORT])
def test_nothing_gets_past_the_gate_and_nobody_is_hurt(plan: Plan, tmp_path: Path):
    results = run(plan, tmp_path)
    assert len(results) > 200
    assert [result for result in results if result.is_bad] == []


def test_rules_hold_where_the_filter_does(tmp_path: Path):
    plan = Plan("streamable", "stdio", "2025-11-25", ruled=True)
    assert [result for result in run(plan, tmp_path) if result.is_bad] == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_smuggled_through_a_reverse_proxy(name: str, tmp_path: Path):
    if why := maybe_missing(name):
        pytest.skip(why)
    plan = Plan("streamable", "streamable", "2025-11-25", behind=name)
    results = run(plan, tmp_path, {"68", "69", "70", "71", "72", "73"})
    assert len(results) > 40
    assert [result for result in results if result.is_bad] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_reverse_proxy_has_its_clients_share_a_connection(name: str, tmp_path: Path):
    """Else an attack on one of them could not show in the answers to the other."""
    if why := maybe_missing(name):
        pytest.skip(why)
    cell = Cell(tmp_path, "streamable", "stdio", "2026-07-28", behind=name)
    try:
        before = _sockets(cell.pid)
        for _ in range(5):
            alive(cell.attacker)
            alive(cell.bystander)
        assert _sockets(cell.pid) == before
    finally:
        cell.close()


def _sockets(pid: int) -> set[str]:
    """The sockets of a process, each by a name that no other gets."""
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return {link for link in links if link.startswith("socket:")}


def test_without_a_proxy_the_judge_sees_the_calls(tmp_path: Path):
    """That the judge can fail: every row with a denied call for some reader leaks when nobody is there."""
    rows = [row for row in SMALL if calls_in(row.raw) & set(DENIED)]
    assert len(rows) > 90
    assert _not_leaking(tmp_path, "streamable", lambda cell: attack_with_messages(cell, rows)) == []


def test_without_a_proxy_the_judge_sees_the_names(tmp_path: Path):
    rows = [row for row in ORDERS if row.order in ("say", "wire") and denied_names(row.raw)]
    assert len(rows) > 20
    assert _not_leaking(tmp_path, "sse", lambda cell: attack_with_orders(cell, rows)) == []


def _not_leaking(work: Path, transport: str, attack: Callable[[Cell], Iterable[Result]]) -> list[Result]:
    """What the judge finds nothing in, with no proxy between."""
    cell = Cell(work, transport, transport, "2025-11-25", direct=True)
    try:
        return [result for result in attack(cell) if result.verdict != LEAK]
    finally:
        cell.close()


def denied_names(raw: bytes) -> set[str]:
    return hidden_names(raw, [])


@pytest.mark.parametrize(
    "shown",
    [
        b'"name":"delete_file"',
        b'"n\\u0061me":"d\\u0065lete\\u005ffile"',
        b'{"text":"{\\"name\\":\\"\\\\u0064elete_file\\"}"}',
        b'data: {"name":"dele\ndata: te_file"}',
        b"DELETE_FILE",
        "ｄelete_file".encode(),
        b"delete%5Ffile",
        b"Mcp-Name: =?base64?ZGVsZXRlX2ZpbGU=?=",
        "delete_file".encode("utf-16-le"),
    ],
)
def test_a_hidden_name_is_seen_in_any_spelling(shown: bytes):
    assert hidden_names(shown, []) == {"delete_file"}


def test_a_name_that_comes_in_pieces_between_those_of_another_connection_is_seen():
    seen = Seen()
    for piece in (b"del", b"ete_", b"file"):
        seen.add(piece, "stream")
        seen.add(b"HTTP/1.1 202 Accepted\r\n\r\n", "post")
    assert hidden_names(bytes(seen), []) == {"delete_file"}


def test_only_the_plain_refusal_may_name_a_tool():
    refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Tool not found: delete_file"}}'
    assert hidden_names(refusal, [refusal]) == set()
    assert hidden_names(refusal + b"delete_file", [refusal]) == {"delete_file"}
    chatty = refusal.replace(b'delete_file"', b'delete_file","data":{"rule":"delete_file"}')
    assert hidden_names(chatty, [chatty]) == {"delete_file"}


def test_traces_paths_and_rules_are_seen():
    assert words_of_ours(b'Traceback (most recent call last):\n  File "x.py"')
    assert words_of_ours(b"denied by ^(write|delete)_", [b"(write|delete)_"])
    assert not words_of_ours(b'{"jsonrpc":"2.0","id":1,"result":{}}')


def test_a_call_is_seen_in_chunks_and_in_gzip():
    body = client_bytes.WRITE
    chunks = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
        b"1\r\n%b\r\n" % body[i : i + 1] for i in range(len(body))
    )
    assert denied_calls([chunks]) == {"write_file"}
    assert denied_calls([b"POST / HTTP/1.1\r\n\r\n" + gzip.compress(gzip.compress(body))]) == {"write_file"}
    assert denied_calls([b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}']) == set()


def test_what_is_proven_elsewhere_is_there():
    for rows, where in ELSEWHERE:
        for path in where.split("`")[1::2]:
            assert (ROOT / path).exists(), (rows, path)
