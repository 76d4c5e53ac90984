"""docs/seeing.md, the pages of the formats and the dashboard are true."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from records import answer, record

from doors import StdioDoor
from penstock.arguments import proxy_parser
from penstock.cli import parse_words
from penstock.commands.filtered import parse_with_filter
from penstock.commands.verbs import VERBS, load
from penstock.observe.filter_words import FIELDS, compile_filter
from penstock.observe.metrics import Metrics
from penstock.observe.reader import maybe_line
from penstock.observe.recording import KINDS, VERDICTS, Line
from watched import PENSTOCK, penstock, run

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "seeing.md").read_text()
RECORDING = (ROOT / "docs" / "formats" / "recording.md").read_text()
AUDIT = (ROOT / "docs" / "formats" / "audit.md").read_text()


def commands() -> list[list[str]]:
    lines = [line for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("penstock ")]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_on_the_page_is_one(words: list[str]) -> None:
    if words[0] not in VERBS:
        parse_words(proxy_parser(), words)
        return
    verb, parser = VERBS[words[0]], load(words[0]).parser()
    if verb.takes_filter:
        options = parse_with_filter(parser, words[1:])
        compile_filter(" ".join(word for word in options.words if not word.endswith(".jsonl")))
    elif verb.takes_file:
        parse_words(parser, words[2:])
    else:
        parser.parse_args(words[1:])


def test_every_filter_on_the_page_is_one() -> None:
    section = PAGE.split("## Which messages: the filter")[1].split("\n## ")[0]
    filters = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    assert len(filters) == 6
    for words in filters:
        compile_filter(words)
    for field in FIELDS:
        assert re.search(rf"\b{field}\b", section), field


def test_the_tutorial_goes_as_it_says(tmp_path: Path) -> None:
    recording = tmp_path / "today.jsonl"
    server = [sys.executable, str(ROOT / "examples" / "sample_server.py")]
    words = [*PENSTOCK, "--stdio", "--record", str(recording), "--deny", "^delete_", "--", *server]
    with StdioDoor(words, "legacy", subprocess.DEVNULL) as door:
        door.begin()
        listed = door.ask("tools/list")
        name = next(tool["name"] for tool in listed["result"]["tools"] if "read" in tool["name"])
        first = door.call(name, b'{"path":"notes.txt"}')
        door.call("delete_file", b'{"path":"notes.txt"}')
    assert "delete_file" in penstock("show", str(recording), "verdict:deny,block")
    assert name in penstock("stats", str(recording), "--by", "tool")
    assert "message 4" in penstock("why", str(recording), "4")
    assert run("verify", str(recording), "--calls", "all", "--", *server).returncode == 0
    rules = tmp_path / "new-rules.yaml"
    rules.write_text('tools: {deny: ["^delete_"]}\n')
    assert "0 newly blocked" in penstock("backtest", str(recording), "--config", str(rules))
    with StdioDoor([*PENSTOCK, "replay", str(recording)], "legacy", subprocess.DEVNULL) as door:
        door.begin()
        assert door.call(name, b'{"path":"notes.txt"}')["result"] == first["result"]


def test_the_page_of_the_recording_knows_every_member_and_word() -> None:
    header, message = re.findall(r"^\{.*\}$", RECORDING, re.MULTILINE)
    assert maybe_line(header.encode() + b"\n") is not None
    line = maybe_line(message.encode() + b"\n")
    assert line is not None
    assert line.raw == b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    hidden = {"penstock", "v", "masked", "run", "in", "at", "link", "asked", "http"}
    for name in {field.encode_name for field in __import__("msgspec").structs.fields(Line)} - hidden:
        assert f"`{name}`" in RECORDING, name
    for word in [*KINDS, *VERDICTS]:
        assert word == "http" or f"`{word}`" in RECORDING, word


def test_the_page_of_the_audit_knows_every_kind_and_how_to_check_it(tmp_path: Path) -> None:
    entry = json.loads(re.search(r"^\{.*\}$", AUDIT, re.MULTILINE)[0])  # type: ignore[index]
    assert entry["kind"] == "message"
    for kind in "message done start stop reload lost repair rotate dropped checkpoint".split():
        assert f"`{kind}`" in AUDIT
    path = tmp_path / "audit.jsonl"
    subprocess.run(
        [*PENSTOCK, "--stdio", "--audit", str(path), "--", "cat"], stdin=subprocess.DEVNULL, check=True
    )
    by_hand = re.search(r"^head -1 .*$", AUDIT, re.MULTILINE)
    assert by_hand is not None
    found = subprocess.run(
        ["sh", "-c", by_hand[0]], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()[0]
    assert found == json.loads(path.read_text().splitlines()[0])["hash"]


def test_the_dashboard_asks_for_figures_that_there_are() -> None:
    metrics = Metrics()
    metrics.counters.append(("penstock_lost_records", "x", lambda: [({"sink": "audit"}, 1)]))
    metrics.counters.append(("penstock_custom", "x", lambda: [({"name": "a"}, 1)]))
    metrics.counters.append(("penstock_shadow_differences", "x", lambda: [({"set": "a"}, 1)]))
    metrics.counters.append(("penstock_shadow_judged", "x", lambda: [({}, 1)]))
    asked = record(micros=80)
    asked.session.variant = "a"
    metrics.saw(asked)
    brought = answer(asked, micros=80)
    brought.session.variant = "a"
    metrics.saw(brought)
    text = metrics.text().decode()
    known = set(re.findall(r"^(\w+)[{ ]", text, re.MULTILINE)) | set(re.findall(r"# TYPE (\w+)", text))
    labels = set(re.findall(r"(\w+)=\"", text)) | {"rule"}
    dashboard = json.loads((ROOT / "examples" / "grafana" / "penstock.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) >= 12
    for expression in expressions:
        for name in re.findall(r"\b(?:penstock|mcp)_\w+", re.sub(r"\{.*?\}", "", expression)):
            assert name in known, name
        for group in re.findall(r"by \((.*?)\)", expression):
            assert {label.strip() for label in group.split(",")} <= labels, expression
    section = PAGE.split("## Show it in Grafana")[1].split("\n## ")[0]
    for name in re.findall(r"`((?:penstock|mcp)_\w+)`", section):
        assert name in known, name
