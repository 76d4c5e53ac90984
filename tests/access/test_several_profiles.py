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
from gate import ROOT
from guarded import Guarded, row, tools_of

MEMBER = str(ROOT / "tests" / "upstreams" / "member.py")
READER, WRITER, ADMIN = "canary-reader", "canary-writer", "canary-admin"


def entry(name: str, *tools: str, record: Path | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": name, "tools": list(tools)}
    if record is not None:
        spec["record"] = str(record)
    return {"command": sys.executable, "args": ["-S", MEMBER, json.dumps(spec)]}


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


def test_one_profile_over_stdio(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    # Only what the profile shows is asked for its tools here: who wants the same names says always.
    config = {**config_of(tmp_path), "names": {"prefix": "always"}}
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    words = [sys.executable, "-m", "penstock", "--config", str(file), "--profile", "shopper", "--stdio"]
    with (tmp_path / "stderr").open("wb") as errors, StdioDoor(words, "legacy", errors) as door:
        door.begin()
        assert tools_of(door) == ["shop__find"]
        assert door.call("docs__find")["error"]["code"] == -32601


@pytest.mark.parametrize(("name", "said"), [("nobody", "No profile is called"), ("", "No profile is called")])
def test_a_profile_that_is_not_there(name: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(yaml.safe_dump(config_of(tmp_path)))
    words = [sys.executable, "-m", "penstock", "--config", str(file), "--profile", name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert said in done.stderr
