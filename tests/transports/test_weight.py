"""The contract under weight: big messages, many sessions, and readers that do not read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_http import Line, Request, ScriptedHttp

from doors import LegacyDoor, StdioDoor
from gate import META, peak_memory, request, wait_until
from pairs import CELLS, DENY, PAIRS, Halls, Proxy, Upstream

Connect = Callable[..., Any]
every_cell = pytest.mark.parametrize(
    ("client", "upstream", "era"), CELLS, ids=[f"{c}-to-{u}-{e}" for c, u, e in CELLS]
)
every_pair = pytest.mark.parametrize(("client", "upstream"), PAIRS, ids=[f"{c}-to-{u}" for c, u in PAIRS])
MIB = 1024 * 1024
LIMIT = 10 * MIB


@every_cell
def test_a_result_of_ten_megabytes_arrives_whole(client: str, upstream: str, era: str, connect: Connect):
    door = connect(client, upstream, era)
    # Room for the longer id where one link serves many.
    door.begin_order("big", b"71", bytes=LIMIT - 100)
    raw = door.answer(b"71", within=60)
    head, tail = b'{"jsonrpc":"2.0","id":71,"result":{"text":"', b'"}}'
    assert raw.startswith(head)
    assert raw.endswith(tail)
    assert set(raw[len(head) : -len(tail)]) == {ord("x")}
    assert abs(len(raw) - (LIMIT - 100)) < 20
    door.heard.clear()


@every_pair
def test_a_result_over_the_limit_is_an_error_under_its_id(client: str, upstream: str, connect: Connect):
    door = connect(client, upstream, "legacy")
    answer = door.order("big", bytes=LIMIT + 1000, within=60)
    assert answer["error"]["code"] == -32603
    assert "the limit is 10 MiB, and --max-message raises it" in answer["error"]["message"]
    assert door.is_alive()


@every_cell
def test_arguments_of_a_megabyte_arrive_whole(
    client: str, upstream: str, era: str, connect: Connect, halls: Halls
):
    door = connect(client, upstream, era)
    there = halls.upstream(upstream)
    at = there.record.stat().st_size
    text = b"\\u65e5y" * (MIB // 7)
    meta = META + b"," if era == "modern" else b""
    raw = (
        b'{"jsonrpc":"2.0","id":72,"method":"tools/call","params":{%b"name":"echo","arguments":{"t":"%b"}}}'
        % (
            meta,
            text,
        )
    )
    door.say(raw)
    assert json.loads(door.answer(b"72"))["result"]["called"] == "echo"
    with there.record.open("rb") as record:
        record.seek(at)
        arrived = [line for line in record.read().split(b"\n") if text[:1000] in line]
    assert [line.partition(b'"method"')[2] for line in arrived] == [raw.partition(b'"method"')[2]]


@every_cell
def test_many_sessions_at_once_each_hear_their_own(client: str, upstream: str, era: str, halls: Halls):
    # A client over stdio is a proxy of its own, so a few tell as much as many.
    count = 3 if client == "stdio" else 50
    if upstream == "stdio" and (client, era) != ("streamable", "legacy"):
        count = min(count, 10)  # each is a process
    doors = [halls.connect(client, upstream, era, fresh=True) for _ in range(count)]
    try:
        for number, door in enumerate(doors):
            note = (
                b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"for-%d."}}\n' % number
            )
            door.begin_order(
                "say",
                b"7",
                raw=note.decode() + f'{{"jsonrpc":"2.0","id":<id>,"result":{{"n":{number}}}}}\n',
                mute=1,
            )
        for number, door in enumerate(doors):
            assert json.loads(door.answer(b"7", within=60))["result"] == {"n": number}
            notes = [heard.raw for heard in door.heard if b"for-" in heard.raw]
            if era == "legacy" or client != "streamable" or upstream == "streamable":
                assert notes == [
                    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"for-%d."}}' % number
                ]
            else:
                # One link serves all: what names no request cannot be anybody's while several wait.
                assert all(b"for-%d." % number in note for note in notes)
    finally:
        for door in doors:
            door.close()


FLOOD = 40
"""Megabytes sent to a client that does not read: far above what may be held for it."""


@pytest.mark.parametrize(
    ("client", "upstream", "era"),
    # Over stdio and SSE, the eras differ in nothing that matters here.
    [cell for cell in CELLS if cell[2] == "legacy" or cell[0] == "streamable"],
    ids=lambda word: word,
)
def test_a_reader_that_does_not_read_hurts_only_itself(client: str, upstream: str, era: str, tmp_path: Path):
    with Upstream(upstream, tmp_path) as there:
        if client == "stdio":
            words = [sys.executable, "-m", "penstock", "--stdio", "--deny", DENY, *there.words()]
            with (tmp_path / "errors").open("wb") as errors:
                slow = StdioDoor(words, era, errors)
            slow.begin()
            before = peak_memory(slow.process.pid)
            slow.begin_order("flood", b"9", count=FLOOD, bytes=MIB)
            assert wait_until(lambda: any(b"x/flood" in line for line in there.reached()))
            slow.say(b'{"jsonrpc":"2.0","method":"notifications/mark"}')  # it still takes what it is told
            slow.answer(b"9", within=60)
            assert sum(b"notifications/message" in heard.raw[:60] for heard in slow.heard) == FLOOD
            assert peak_memory(slow.process.pid) - before < 24 * MIB
            slow.close()
            return
        with Proxy(tmp_path, there.words(), "--deny", DENY) as proxy:
            slow, quick = proxy.connect(client, era), proxy.connect(client, era)
            slow.begin()
            quick.begin()
            assert quick.is_alive()
            before = peak_memory(proxy.process.pid)
            params = b'{"count":%d,"bytes":%d}' % (FLOOD, MIB)
            if era == "modern":
                meta = META[:-1] + b',"progressToken":"slow"}'
                slow.say(request(b"9", "x/flood", b"{%b,%b" % (meta, params[1:])))
            else:
                slow.request(b"9", "x/flood", params)
            assert wait_until(lambda: any(b"x/flood" in line for line in there.reached()))
            for _ in range(20):
                assert quick.is_alive()
            assert peak_memory(proxy.process.pid) - before < 32 * MIB
            quick.close()
            if era == "modern" and upstream != "streamable":
                # One link serves both, so the one that did not read has been hung up on.
                slow.until(lambda: slow.posts[b"9"].is_over)
                assert slow.posts[b"9"].was_cut
                assert "Hung up on a client that does not read" in proxy.stderr
            else:
                slow.answer(b"9", within=60)
                assert sum(b"notifications/" in heard.raw[:60] for heard in slow.heard) == FLOOD
            slow.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("client", "era"), [("sse", "legacy"), ("streamable", "legacy"), ("streamable", "modern")]
)
def test_138_what_clients_post_to_an_upstream_that_stops_reading_does_not_pile_up(
    client: str, era: str, tmp_path: Path
):
    """Each post is accepted at once, so that nothing but a refusal slows its client down."""
    note = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"d":"%b"}}' % (b"x" * MIB)
    with Upstream("stdio", tmp_path) as there, Proxy(tmp_path, there.words(), "--deny", DENY) as proxy:
        door, other = proxy.connect(client, era), proxy.connect(client, "legacy")
        door.begin()
        other.begin()
        before = peak_memory(proxy.process.pid)
        door.order("deaf")
        statuses = []
        for _ in range(100):
            door.say(note)
            statuses.append(door.last.status)
        assert statuses == sorted(statuses)
        assert set(statuses) == {202, 503}
        assert statuses.count(202) < 50
        assert peak_memory(proxy.process.pid) - before < 70 * MIB
        assert other.is_alive()
        door.close()
        other.close()


def test_small_messages_of_many_sessions_have_one_bound_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Here it is two megabytes, and no session alone comes near to its own."""
    probe = tmp_path / "probe"
    probe.mkdir()
    bounds = "limits.BACKLOG_BYTES, limits.PIPE_BYTES = 2 << 20, 64 << 10"
    (probe / "sitecustomize.py").write_text(f"from penstock import limits\n{bounds}\n")
    monkeypatch.setenv("PYTHONPATH", str(probe), prepend=os.pathsep)
    note = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"d":"%b"}}' % (b"x" * 3_500)
    with Upstream("stdio", tmp_path) as there, Proxy(tmp_path, there.words(), "--deny", DENY) as proxy:
        first, second, third = (proxy.connect("sse", "legacy") for _ in range(3))
        for door in (first, second, third):
            door.begin()
        statuses: dict[int, list[int]] = {}
        for number, door in enumerate((first, second)):
            door.order("deaf")
            statuses[number] = []
            for _ in range(400):
                door.say(note)
                statuses[number].append(door.last.status)
        assert set(statuses[0]) == {202}
        assert statuses[1] == sorted(statuses[1])
        assert set(statuses[1]) == {202, 503}
        assert "bytes of all sessions are not taken or not answered yet" in proxy.stderr
        assert third.is_alive()
        first.close()
        assert wait_until(lambda: third.is_alive() and (second.say(note), second.last.status)[1] == 202)


def test_session_ids_of_any_length_take_no_room(tmp_path: Path):
    """An upstream may name a new one with every answer, as long as a head may be."""

    def script(asked: Request, line: Line) -> None:
        if "id" not in asked.message:
            line.accepted()
            return
        line.json(asked.result(b'{"tools":[]}'), f"Mcp-Session-Id: {asked.number:060000}")

    with (
        ScriptedHttp(script) as there,
        Proxy(tmp_path, ["--upstream", there.url], "--deny", DENY) as proxy,
        proxy.connect("streamable", "legacy", listens=False) as door,
    ):
        for number in range(400):
            if number == 40:
                before = peak_memory(proxy.process.pid)
            raw = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number
            assert door.whole("POST", "/mcp", door.headers(raw), raw).status == 200
        assert peak_memory(proxy.process.pid) - before < 10 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_138_who_hangs_up_while_it_waits_for_the_list_leaves_nothing_behind(era: str, tmp_path: Path):
    with (
        Upstream("streamable", tmp_path, "--bearer", "ann", "--mute", "list") as there,
        Proxy(tmp_path, there.words(), "--deny", DENY, "--tools-timeout", "60s") as proxy,
        LegacyDoor(proxy.port, era, {"Authorization": "Bearer ann"}) as door,
    ):
        door.begin()
        before = peak_memory(proxy.process.pid)
        asked = sum(b"tools/list" in line for line in there.reached())
        for number in range(30):
            token = b"%d" % (100 + number)
            door.request(token, "tools/call", b'{"name":"echo","arguments":{"d":"%b"}}' % (b"x" * 4 * MIB))
            if number == 0:  # from here on there is something to wait for
                assert wait_until(lambda: sum(b"tools/list" in line for line in there.reached()) == asked + 1)
            door.hang_up(token)
        assert wait_until(lambda: door.whole("GET", "/healthz").status == 200)
        assert peak_memory(proxy.process.pid) - before < 40 * MIB
