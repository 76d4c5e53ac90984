"""What clients hear while a person thinks: progress of their own call, below any that an upstream tells."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gate import META, request
from live import Hub, until
from watched import Watched, raws

RULES = """
interceptor:
  rules:
    - {id: ask, conditions: [{tool: echo}], actions: [{approve: {timeout: 60s, keep_alive: %s}}]}
"""
TOKEN = b'"t\\u002d1"'
CELLS = [
    ("stdio", "stdio", "legacy"),
    ("stdio", "streamable", "modern"),
    ("sse", "stdio", "legacy"),
    ("streamable", "stdio", "legacy"),
    ("streamable", "sse", "legacy"),
    ("streamable", "stdio", "modern"),
]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub() as found:
        yield found


@pytest.fixture
def soon(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The hub, and proxies that tell progress at once and not after 15 seconds."""
    made = tmp_path / "soon"
    made.mkdir()
    words = "from penstock.watch import bounds\nbounds.KEEP_ALIVE_SECONDS = 0.05\n"
    (made / "sitecustomize.py").write_text(words)
    monkeypatch.setenv("PYTHONPATH", str(made))
    hub.since = time.time()
    return hub


def watched(work: Path, client: str, upstream: str, *options: str, keeps: str = "true") -> Watched:
    rules = work / "rules.yaml"
    rules.write_text(RULES % keeps)
    return Watched(work, client, upstream, "--dashboard", "auto", "--config", str(rules), *options)


def call(door: Any, progress_token: bytes | None) -> bytes:
    """Calls the tool that somebody has to approve; the id of the call."""
    own = b"" if progress_token is None else b'"progressToken":%b' % progress_token
    tie = b"," if own else b""
    meta = META[:-1] + tie + own + b"}" if door.era == "modern" else b'"_meta":{%b}' % own
    token: bytes = door.new_id()
    door.say(request(token, "tools/call", b'{"name":"echo","arguments":{"id":%b},%b}' % (token, meta)))
    return token


def told(door: Any, progress_token: bytes) -> list[float]:
    """The progress heard of a call, in order."""
    found = [one.raw for one in door.heard if b"notifications/progress" in one.raw]
    mine = [raw for raw in found if b'"progressToken":%b,' % progress_token in raw]
    return [json.loads(raw)["params"]["progress"] for raw in mine]


def rises_below_zero(values: list[float]) -> bool:
    return all(-1 < value < 0 for value in values) and values == sorted(set(values))


def held_of(hub: Hub, token: bytes) -> dict[str, Any]:
    """What waits of the call with this id."""

    def found() -> dict[str, Any] | None:
        waiting = [one for one in hub.get("held")["held"] if one["since"] >= hub.since]
        return next((one for one in waiting if json.loads(one["text"])["id"] == int(token)), None)

    held: dict[str, Any] = until(found)
    return held


@pytest.mark.parametrize(("client", "upstream", "era"), CELLS)
def test_progress_comes_while_it_waits_then_the_answer_then_nothing(
    soon: Hub, tmp_path: Path, client: str, upstream: str, era: str
) -> None:
    record = tmp_path / "record.jsonl"
    with watched(tmp_path, client, upstream, "--record", str(record)) as proxy:
        door = proxy.connect(era)
        silent = call(door, None)
        token = call(door, TOKEN)
        held = held_of(soon, token)
        door.until(lambda: len(told(door, TOKEN)) >= 3)
        assert not any(b'"id":%b,' % token in line for line in proxy.upstream.reached())
        assert soon.decide(held, "release")[0] == 200
        assert b'"result"' in door.answer(token)
        values = told(door, TOKEN)
        assert rises_below_zero(values), values
        other = call(door, b"7")  # what is told of this one comes after anything that were told of the first
        door.until(lambda: len(told(door, b"7")) >= 3)
        assert told(door, TOKEN) == values
        assert soon.decide(held_of(soon, other), "deny", text="no")[0] == 200
        assert b"-32001" in door.answer(other)
        assert soon.decide(held_of(soon, silent), "release")[0] == 200
        assert b'"result"' in door.answer(silent)
        every = [one for one in door.heard if b"notifications/progress" in one.raw]
        assert len(every) == len(values) + len(told(door, b"7"))
        if client == "streamable":
            assert {one.on for one in every} == {token.decode(), other.decode()}
        proxy.end()
    kept = raws(record, "from:penstock method:notifications/progress")
    assert kept == [one.raw for one in every]


def test_nobody_is_told_anything_where_no_rule_says_so(soon: Hub, tmp_path: Path) -> None:
    with (
        watched(tmp_path, "streamable", "stdio", keeps="false") as plain,
        Watched(tmp_path, "stdio", "stdio", "--dashboard", "auto", *plain.options[4:6]) as other,
    ):
        (tmp_path / "rules.yaml").write_text(RULES % "true")
        quiet, loud = plain.connect(), other.connect()
        loud.ask("ping")  # so that the ids of the two calls differ
        first = call(quiet, TOKEN)
        held = held_of(soon, first)
        second = call(loud, TOKEN)
        loud.until(lambda: len(told(loud, TOKEN)) >= 5)
        assert soon.decide(held, "release")[0] == 200
        assert b'"result"' in quiet.answer(first)
        assert told(quiet, TOKEN) == []
        assert soon.decide(held_of(soon, second), "release")[0] == 200
        assert b'"result"' in loud.answer(second)


def test_what_is_told_rises_also_after_an_edit_and_ends_with_a_cancel(soon: Hub, tmp_path: Path) -> None:
    with watched(tmp_path, "stdio", "stdio") as proxy:
        door = proxy.connect()
        token = call(door, TOKEN)
        held = held_of(soon, token)
        door.until(lambda: len(told(door, TOKEN)) >= 2)
        changed = held["value"].replace('"id":', '"was":')
        assert soon.decide(held, "edit", part="params", value=changed)[0] == 200
        until(lambda: [one for one in soon.get("held")["held"] if one["id"] != held["id"]])
        before = len(told(door, TOKEN))
        door.until(lambda: len(told(door, TOKEN)) >= before + 3)
        assert rises_below_zero(told(door, TOKEN)), told(door, TOKEN)
        door.say(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}' % token)
        door.ask("ping")
        values = told(door, TOKEN)
        other = call(door, b"7")
        door.until(lambda: len(told(door, b"7")) >= 3)
        assert told(door, TOKEN) == values
        assert soon.decide(held_of(soon, other), "release")[0] == 200
        assert b'"result"' in door.answer(other)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_who_hangs_up_hears_no_more_and_others_hear_nothing_of_it(
    soon: Hub, tmp_path: Path, era: str
) -> None:
    """In the modern era that is a cancel; in the older one the question stays, and has no stream."""
    with watched(tmp_path, "streamable", "stdio") as proxy:
        door = proxy.connect(era)
        token = call(door, TOKEN)
        held = held_of(soon, token)
        door.until(lambda: told(door, TOKEN))
        door.hang_up(token)
        values = told(door, TOKEN)
        if era == "modern":
            until(lambda: soon.get("held")["held"] == [])
            assert soon.decide(held, "release")[0] == 409
        other = call(door, b"7")
        door.until(lambda: len(told(door, b"7")) >= 3)
        assert told(door, TOKEN) == values
        assert soon.decide(held_of(soon, other), "release")[0] == 200
        assert b'"result"' in door.answer(other)
        if era == "legacy":
            assert soon.decide(held, "release")[0] == 200
        proxy.end()


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_from_http_to_http_nothing_is_told_and_the_log_says_so_once(
    soon: Hub, tmp_path: Path, era: str
) -> None:
    with watched(tmp_path, "streamable", "streamable") as proxy:
        door = proxy.connect(era)
        tokens = [call(door, TOKEN), call(door, b"7")]
        for token in tokens:
            assert soon.decide(held_of(soon, token), "release")[0] == 200
            assert b'"result"' in door.answer(token)
        assert not any(b"notifications/progress" in one.raw for one in door.heard)
        assert proxy.stderr.count("Rule ask says keep_alive") == 1, proxy.stderr
        proxy.end()


@pytest.mark.parametrize("token", [b"null", b"{}", b"[1]", b"true", b'"%b"' % (b"x" * 2000)])
def test_what_is_no_token_or_too_long_a_one_is_not_said_back(soon: Hub, tmp_path: Path, token: bytes) -> None:
    with watched(tmp_path, "stdio", "stdio") as proxy:
        door = proxy.connect()
        first, second = call(door, token), call(door, b"7")
        door.until(lambda: len(told(door, b"7")) >= 3)
        for one in (first, second):
            assert soon.decide(held_of(soon, one), "release")[0] == 200
            door.answer(one)
        found = [one for one in door.heard if b"notifications/progress" in one.raw]
        assert len(found) == len(told(door, b"7"))
