"""Every key about several servers, in a file that `penstock check` takes and in a run that obeys it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from doors import DEADLINE, StdioDoor
from several import PENSTOCK, Several, names, over_http, says, wait_until

CHANGED = b"notifications/tools/list_changed"


def checked(several: Several) -> str:
    """What `penstock check` says of the file, which it must take."""
    done = subprocess.run(
        [*PENSTOCK, "check", str(several.write())], capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_names_of_all_and_of_one(tmp_path: Path) -> None:
    several = Several(tmp_path, names={"prefix": "always", "separator": "-", "known_as": "k" * 30})
    several.add("one", {"prefix": "first", "rename": {"echo": "speak"}}, tools=["echo", "other"])
    several.add("two", tools=["echo", "x" * 40])
    checked(several)
    with several.stdio() as client:
        found = names(client)
        assert found[:3] == ["speak", "first-other", "two-echo"]
        assert len(found[3]) == 64 - len(f"mcp__{'k' * 30}__")
        assert [says(client.call(name)) for name in found[:3]] == ["one:echo", "one:other", "two:echo"]
        assert says(client.call(found[3])) == f"two:{'x' * 40}"
        assert client.call("echo")["error"]["code"] == -32601


def test_without_prefixes_the_later_of_two_is_left_out_aloud(tmp_path: Path) -> None:
    several = Several(tmp_path, names={"prefix": "never"}).add("one", tools=["echo"])
    several.add("two", tools=["echo", "y" * 60])
    checked(several)
    with several.stdio() as client:
        assert names(client) == ["echo", "y" * 60]
        assert says(client.call("echo")) == "one:echo"
    assert "echo" in several.errors.read_text()
    assert several.calls("two") == []


@pytest.mark.parametrize(
    ("said", "wanted"), [("merge", "[one] of one\n\n[two] of two"), ("none", None), ("Be kind.", "Be kind.")]
)
def test_what_clients_are_told_of_us(tmp_path: Path, said: str, wanted: str | None) -> None:
    several = Several(tmp_path, server={"name": "gate", "instructions": said})
    for name in ("one", "two"):
        several.add(name, tools=[name], instructions=f"of {name}")
    checked(several)
    with several.stdio() as client:
        result = json.loads(client.heard[0].raw)["result"]
        assert result["serverInfo"]["name"] == "gate"
        assert result.get("instructions") == wanted


CHOICES: list[tuple[dict[str, Any], list[str]]] = [
    ({"tools": {"allow": ["^a"]}}, ["a1", "a2"]),
    ({"tools": {"deny": ["^a"]}}, ["b1"]),
    ({"tools": {"read_only": True}}, ["a2"]),
    ({"enabledTools": ["a1", "b1"]}, ["a1", "b1"]),
    ({"disabledTools": ["a1"]}, ["a2", "b1"]),
    ({"tools": {"allow": ["^a"]}, "disabledTools": ["a1"]}, ["a2"]),
]


@pytest.mark.parametrize(("entry", "left"), CHOICES)
def test_which_tools_of_a_server_count(tmp_path: Path, entry: dict[str, Any], left: list[str]) -> None:
    reads = json.dumps(
        {"name": "a2", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    )
    several = Several(tmp_path).add("one", entry, tools=["a1", reads, "b1"]).add("two", tools=["c"])
    checked(several)
    with several.stdio() as client:
        assert names(client) == [*left, "c"]
        for name in ("a1", "a2", "b1"):
            assert ("result" in client.call(name)) == (name in left)
    assert set(several.calls("one")) == set(left)


def test_a_uri_that_an_entry_owns_goes_there_before_anybody(tmp_path: Path) -> None:
    both = [{"uri": "file:///a/b", "name": "b"}]
    several = Several(tmp_path).add("one", resources=both, tools=["a"])
    several.add("two", {"uris": ["^file:///a/"]}, resources=both, tools=["b"])
    checked(several)
    with several.stdio() as client:
        for uri in ("file:///a/b", "file:///a/not-listed"):
            answer = client.ask("resources/read", json.dumps({"uri": uri}).encode())
            assert answer["result"]["contents"][0]["text"] == "two"
    assert not any(one["method"] == "resources/read" for one in several.heard("one"))


def test_a_server_that_is_lost_can_be_hidden(tmp_path: Path) -> None:
    fails = tmp_path / "fails"
    several = Several(tmp_path, lists={"when_down": "hide", "debounce": "20ms"})
    several.add("one", tools=["a"]).add("two", tools=["b", "die"], fails_if=str(fails))
    checked(several)
    with several.stdio() as client:
        assert names(client) == ["a", "b", "die"]
        fails.touch()
        assert "error" in client.call("die")
        client.message(lambda raw: CHANGED in raw)
        assert names(client) == ["a"]
        client.heard.clear()
        fails.unlink()
        client.message(lambda raw: CHANGED in raw)
        assert names(client) == ["a", "b", "die"]


def test_who_may_not_be_lost_ends_us_with_it(tmp_path: Path) -> None:
    several = Several(tmp_path).add("one", tools=["a"]).add("two", {"on_loss": "exit"}, tools=["b"])
    checked(several)
    with several.errors.open("ab") as errors:
        client = StdioDoor(several.words("--stdio"), "legacy", errors)
    client.begin()
    assert says(client.call("b")) == "two:b"
    os.kill(several.starts("two")[0], signal.SIGKILL)
    assert client.process.wait(DEADLINE) == 1
    client.close()


def test_a_server_may_be_given_all_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREIGN_TOKEN", "secret")
    several = Several(tmp_path).add("one", {"inherit_env": True}, tools=["env"]).add("two", tools=["b"])
    checked(several)
    with several.stdio() as client:
        assert client.call("env")["result"]["env"]["FOREIGN_TOKEN"] == "secret"


def test_how_long_a_server_is_waited_for(tmp_path: Path) -> None:
    times = {"connect": "5s", "start": "20s", "list": "5s", "call": "300ms"}
    several = Several(tmp_path).add("one", {"timeouts": times}, tools=["hang"]).add("two", tools=["b"])
    checked(several)
    with several.stdio() as client:
        assert client.call("hang")["error"]["code"] in (-32603, -32001)
        assert says(client.call("b")) == "two:b"
        wait_until(
            lambda: any(one["method"] == "notifications/cancelled" for one in several.heard("one")),
        )


@pytest.mark.parametrize("refresh", ["never", "on-change"])
def test_lists_of_tools_change_only_where_they_may(tmp_path: Path, refresh: str) -> None:
    several = Several(tmp_path, tools={"refresh": refresh}).add("one", tools=["change"])
    several.add("two", tools=["b"])
    checked(several)
    with several.stdio() as client:
        assert names(client) == ["change", "b"]
        client.call("change", b'{"add":["new"]}')
        if refresh == "on-change":
            client.message(lambda raw: CHANGED in raw)
            assert names(client) == ["change", "new", "b"]
        else:
            assert client.call("new")["error"]["code"] == -32601
            assert names(client) == ["change", "b"]


def test_some_of_them_or_one_as_it_is(tmp_path: Path) -> None:
    several = Several(tmp_path, server={"name": "gate"})
    for name in ("one", "two", "three"):
        several.add(name, tools=["echo"])
    with several.stdio("--only", "two,three") as client:
        assert names(client) == ["echo", "three__echo"]
        assert says(client.call("echo")) == "two:echo"
    assert several.starts("one") == []
    with several.stdio("--server", "three") as client:
        assert names(client) == ["echo"]
        assert json.loads(client.heard[0].raw)["result"]["serverInfo"]["name"] == "three"
    assert several.starts("one") == []
    for words in (("--only", "four"), ("--server", "four")):
        done = subprocess.run(
            several.words("--stdio", *words), capture_output=True, text=True, timeout=DEADLINE
        )
        assert done.returncode == 1
        assert 'no server is called "four"' in done.stderr


def status(port: int, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [*PENSTOCK, "status", f"http://127.0.0.1:{port}", *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    return done.returncode, done.stdout


def test_the_codes_of_status(tmp_path: Path) -> None:
    fails = [tmp_path / f"{name}-fails" for name in ("one", "two")]
    several = Several(tmp_path).add("one", tools=["a", "die"], fails_if=str(fails[0]))
    several.add("two", tools=["b", "die"], fails_if=str(fails[1]))
    with several.listening() as port, over_http(port) as client:
        assert names(client) == ["a", "die", "b", "two__die"]
        assert status(port)[0] == 0
        rows = json.loads(status(port, "--format", "json")[1])
        assert [(row["name"], row["state"] in ("ready", "idle")) for row in rows] == [
            ("one", True),
            ("two", True),
        ]
        for number, (code, name) in enumerate(((3, "two__die"), (4, "die"))):
            fails[1 - number].touch()
            assert "error" in client.call(name)
            wait_until(lambda code=code: status(port)[0] == code)
        for path in fails:
            path.unlink()
        wait_until(lambda: status(port)[0] == 0)
    assert status(port)[0] == 1
