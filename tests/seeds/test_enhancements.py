"""What the specification of an interceptor wished for later: learning, several rule sets, a live view."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from seed_rows import row

from gate import SAMPLE, Gate, call
from live import Hub
from pairs import Proxy, Upstream
from sessions import START, RecordingMaker, penstock


def recorded(path: Path, count: int, arguments: Callable[[int], dict[str, Any]], tool: str = "file") -> str:
    """A recording of so many sessions of three calls each."""
    with RecordingMaker(path) as made:
        for number in range(count):
            for step in range(3):
                made.call(f"s{number}", START + number * 60 + step, tool, arguments(number + step))
    return str(path)


@row("O192")
def test_what_is_unusual_is_found_and_explained(tmp_path: Path) -> None:
    usual = recorded(tmp_path / "usual.jsonl", 600, lambda number: {"kind": "bug"})
    odd = recorded(tmp_path / "odd.jsonl", 1, lambda number: {"all": True}, "drop_database")
    penstock("baseline", usual, "--out", str(tmp_path / "b"))
    done = penstock("anomalies", odd, "--baseline", str(tmp_path / "b"), "--budget", "1/20 sessions", code=3)
    assert "tool drop_database, never in" in done.stdout


@row("O192")
def test_rules_are_suggested_from_traffic(tmp_path: Path) -> None:
    kinds = ["bug", "feature", "question"]
    traffic = recorded(tmp_path / "r.jsonl", 300, lambda number: {"kind": kinds[number % 3]})
    penstock("suggest", traffic, "--out", str(tmp_path / "s.yaml"))
    rules = yaml.safe_load((tmp_path / "s.yaml").read_text())["interceptor"]["rules"]
    wanted = {"not": {"param_in": {"field": "arguments.kind", "values": kinds}}}
    assert any(wanted in rule["conditions"] for rule in rules)


@row("O192")
def test_sessions_are_dealt_out_to_several_rule_sets(tmp_path: Path) -> None:
    strict = {"id": "strict", "conditions": [{"tool": "write_file"}], "actions": [{"block": "no"}]}
    (tmp_path / "strict.json").write_text(json.dumps({"interceptor": {"rules": [strict]}}))
    sets = [{"name": "now", "share": 50}, {"name": "strict", "file": "strict.json", "share": 50}]
    config = tmp_path / "c.json"
    config.write_text(
        json.dumps({"interceptor": {"rules": []}, "variants": {"salt": "x", "sets": sets}}),
    )
    with (
        Upstream("streamable", tmp_path) as server,
        Proxy(tmp_path, ["--config", str(config), *server.words()]) as proxy,
    ):
        seen = set()
        for _ in range(40):
            with proxy.connect("streamable", "legacy") as door:
                door.begin()
                seen.add("error" in door.call("write_file"))
            if len(seen) == 2:
                break
        assert seen == {True, False}


@row("O192")
def test_messages_are_seen_while_they_pass(tmp_path: Path) -> None:
    with Hub() as hub, Gate(tmp_path, "--dashboard", "auto", command=["python3", str(SAMPLE)]) as gate:
        gate.handshake()
        hub.instances()
        gate.say(call("echo", b'"seen"'))
        gate.answer(b'"seen"')
        assert hub.rows("method:tools/call")
