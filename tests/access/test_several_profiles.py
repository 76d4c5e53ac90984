"""Profiles over several upstreams: each shows its own, under the same names; one profile over stdio."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from doors import StdioDoor
from gate import wait_until
from guarded import Guarded, row, tools_of
from several import member_entry as entry

READER, WRITER, ADMIN = "canary-reader", "canary-writer", "canary-admin"


def config_of(work: Path) -> dict[str, Any]:
    return {
        "mcpServers": {
            "docs": entry("docs", "find", "read", record=work / "docs.record"),
            "shop": entry("shop", "find", "buy", record=work / "shop.record"),
        },
        "profiles": {
            "reader": {"upstreams": ["docs"]},
            "shopper": {"upstreams": ["shop"], "tools": {"deny": ["buy"]}},
        },
    }


def test_27_the_same_names_in_all_profiles(tmp_path: Path) -> None:
    tokens = [
        row("reader", READER, profile="reader"),
        row("shopper", WRITER, profile="shopper"),
        row("admin", ADMIN, profile="all"),
    ]
    config = {**config_of(tmp_path), "auth": {"tokens": tokens}}
    with Guarded(tmp_path, config) as proxy:
        for era in ("legacy", "modern"):
            doors = {token: proxy.door(token, era) for token in (READER, WRITER, ADMIN)}
            if era == "legacy":
                for door in doors.values():
                    door.begin()
            assert tools_of(doors[ADMIN]) == ["find", "read", "shop__find", "buy"]
            assert tools_of(doors[READER]) == ["find", "read"]
            # Without docs, shop's own find keeps the name that it has for everybody.
            assert tools_of(doors[WRITER]) == ["shop__find"]
            assert "result" in doors[WRITER].call("shop__find")
            for hidden in ("find", "read", "buy", "shop__buy"):
                assert doors[WRITER].call(hidden)["error"]["code"] == -32601
            assert doors[READER].call("shop__find")["error"]["code"] == -32601
    assert b'"buy"' not in (tmp_path / "shop.record").read_bytes()
    for name in ("docs", "shop"):
        assert b"canary" not in (tmp_path / f"{name}.record").read_bytes()


def test_status_tells_of_all_servers_whatever_profiles_show(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    config["mcpServers"]["gone"] = {"command": str(tmp_path / "no-such-program")}
    config["auth"] = {"tokens": [row("reader", READER, profile="reader"), row("admin", ADMIN, profile="all")]}
    with Guarded(tmp_path, config) as proxy:
        door = proxy.door(READER)
        door.begin()
        assert tools_of(door) == ["find", "read"]
        url = f"http://127.0.0.1:{proxy.port}"
        asked = [sys.executable, "-m", "penstock", "status", url]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=30)
        states = [line.split()[:2] for line in done.stdout.splitlines()]
        assert states == [["docs", "ready"], ["shop", "ready"], ["gone", "down"]]
        assert done.returncode == 3
        assert "canary" not in done.stdout


def test_one_profile_over_stdio(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    # Only what the profile shows is asked for its tools here: who wants the same names says always.
    config = {**config_of(tmp_path), "names": {"prefix": "always"}, "lists": {"wait": "600s"}}
    config["mcpServers"]["gone"] = {"command": str(tmp_path / "no-such-program"), "required": True}
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    words = [sys.executable, "-m", "penstock", "--config", str(file), "--profile", "shopper", "--stdio"]
    with (tmp_path / "stderr").open("wb") as errors, StdioDoor(words, "legacy", errors) as door:
        door.begin()
        assert tools_of(door) == ["shop__find"]
        assert door.call("docs__find")["error"]["code"] == -32601
    assert "gone" not in (tmp_path / "stderr").read_text()  # who is not met is not waited for, or required


@pytest.mark.parametrize(("name", "said"), [("nobody", "No profile is called"), ("", "No profile is called")])
def test_a_profile_that_is_not_there(name: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(yaml.safe_dump(config_of(tmp_path)))
    words = [sys.executable, "-m", "penstock", "--config", str(file), "--profile", name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert said in done.stderr


def searching(work: Path) -> dict[str, Any]:
    reads = {"annotations": {"readOnlyHint": True}}
    tools = [
        tool("read_note", "Gives the text of a note", **reads),
        tool("write_note", "Replaces the text of a note"),
        tool("drop_note", "Removes a note"),
        tool("call_tool", "Has the name of one of ours"),
    ]
    rule = {
        "id": "not-by-big",
        "conditions": [
            {"method_equals": "tools/call"},
            {"param_in": {"field": "name", "values": ["write_note"]}},
        ],
        "actions": [{"block": "Not in ${profile}"}],
    }
    return {
        "mcpServers": {
            "notes": entry("notes", *tools, record=work / "notes.record"),
            "other": entry("other", "beyond", record=work / "other.record"),
        },
        "profiles": {
            "big": {
                "upstreams": ["notes"],
                "tools": {"deny": ["^drop_"]},
                "search": {"from_tokens": 1, "keep": ["^read_"], "limit": 1},
            },
            "short": {"search": {"from_tokens": 100000}},
            "plain": {},
        },
        "choose": {"default": "plain"},
        "interceptor": {"rules": [rule]},
    }


def tool(name: str, description: str, **more: Any) -> str:
    return json.dumps({"name": name, "description": description, "inputSchema": {"type": "object"}, **more})


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_32_search_in_one_profile_and_not_in_another(era: str, tmp_path: Path) -> None:
    with Guarded(tmp_path, searching(tmp_path)) as proxy:
        big, plain, short = (proxy.door(None, era, path) for path in ("/p/big/mcp", "/mcp", "/p/short/mcp"))
        for door in (big, plain, short):
            if era == "legacy":
                door.begin()
        whole = ["read_note", "write_note", "drop_note", "notes__call_tool", "beyond"]
        assert tools_of(plain) == whole
        assert tools_of(short) == whole  # not enough of them to be worth a search
        assert tools_of(big) == ["find_tools", "call_read_only_tool", "call_tool", "read_note"]
        found = big.call("find_tools", b'{"query":"remove or replace or read a note"}')["result"]
        assert len(found["structuredContent"]["tools"]) == 1
        found = big.call("find_tools", b'{"query":"removes a note, beyond","limit":50}')["result"]
        names = [one["name"] for one in found["structuredContent"]["tools"]]
        assert "write_note" in names
        assert "drop_note" not in names
        assert "beyond" not in names

        def wrapped(name: str, how: str = "call_tool") -> Any:
            return big.call(how, json.dumps({"name": name, "arguments": {}}).encode())

        # What is wrapped is what is direct, to the profile, the gate and the rules.
        for name in ("drop_note", "beyond", "nothing", "write_note"):
            direct = big.call(name)
            assert "error" in direct
            assert {**wrapped(name), "id": 0} == {**direct, "id": 0}
        assert big.call("write_note")["error"]["message"] == "Not in big"
        assert wrapped("notes__call_tool")["result"]["tool"] == "call_tool"
        assert wrapped("write_note", "call_read_only_tool")["error"]["code"] == -32602
        for door in (plain, short):
            assert door.call("find_tools")["error"]["code"] == -32601
            assert door.call("call_tool", b'{"name":"read_note"}')["error"]["code"] == -32601
    assert b'"drop_note"' not in (tmp_path / "notes.record").read_bytes()
    assert b'"write_note"' not in (tmp_path / "notes.record").read_bytes()
    assert b"tools/call" not in (tmp_path / "other.record").read_bytes()


def test_32_a_profile_with_search_over_stdio_and_after_a_reload(tmp_path: Path) -> None:
    config = searching(tmp_path)
    file = tmp_path / "penstock.yaml"
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    words = [sys.executable, "-m", "penstock", "--config", str(file), "--profile", "big", "--stdio"]
    with (tmp_path / "stderr").open("wb") as errors, StdioDoor(words, "legacy", errors) as door:
        door.begin()
        assert tools_of(door)[:3] == ["find_tools", "call_read_only_tool", "call_tool"]
        assert door.call("call_tool", b'{"name":"drop_note"}')["error"]["code"] == -32601
    with Guarded(tmp_path, config) as proxy:
        config["profiles"]["plain"] = {"search": {"from_tokens": 1}}
        proxy.write(config)

        def seen() -> list[str]:
            if proxy.hello().status != 200:  # it is being made anew
                return []
            door = proxy.door()
            door.begin()
            return tools_of(door)

        assert wait_until(lambda: "as the file says now" in proxy.stderr)
        assert wait_until(lambda: seen() == ["find_tools", "call_read_only_tool", "call_tool"])


def test_the_first_search_comes_with_a_restart(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with Guarded(tmp_path, config) as proxy:
        config["profiles"]["reader"]["search"] = {"from_tokens": 1}
        proxy.write(config)
        assert wait_until(lambda: "as the file says now" in proxy.stderr)
        assert "the first search needs a restart" in proxy.stderr
        door = proxy.door(path="/p/reader/mcp")
        door.begin()
        assert tools_of(door) == ["find", "read"]
