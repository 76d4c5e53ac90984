"""The published JSON Schema: current, and of one mind with the reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from penstock.config.file import parse_file
from penstock.config.formats.reading import read_document
from penstock.errors import FaultyFile
from scripts_by_name import load_script

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA: dict[str, Any] = json.loads((ROOT / "schema" / "penstock.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_file_is_up_to_date() -> None:
    module = load_script("make_schema")
    assert module.text() == module.PLACE.read_text(), "run scripts/make_schema.py"


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


GOOD = [
    "",
    "upstream: {command: [a, 1]}",
    "upstream: {command: a b, env: {A: b, C: 1}, cwd: /x}",
    "upstream: {url: http://a, headers: {A: b}, on_loss: reconnect}",
    "mcpServers: {a: {command: x, args: [y], autoApprove: [z], disabled: false}}",
    "listen: 80",
    "listen: 0.0.0.0:80",
    "tools: {deny: x, allow: [a, b], read_only: true}",
    "timeouts: {connect: 5s, tools: 100}",
    "log: {level: warning, format: json}\nvalidate: strict",
    "tools:\nlog:\n",
    "tests: [{message: {id: 1, method: ping}, expect: pass}]",
    "tests: [{messages: [{message: '{}', after: 1s}], expect: {verdict: block, rule: a, changed: false}}]",
    "interceptor: {rules: [{id: a, conditions: [{method_equals: ping}], actions: [{block: no}]}]}",
    "interceptor: {chain: {timeout: 2s}, rules: [{id: a, actions: [allow]}]}",
]

BAD = [
    "upstreem: {}",
    "- a",
    "upstream: {command: [[a]]}",
    "upstream: {url: 7}",
    "upstream: {on_loss: panic, url: http://a}",
    "mcpServers: [a]",
    "mcpServers: {a: {comand: x}}",
    "listen: [80]",
    "listen: 70000",
    "tools: {deny: {a: b}}",
    "tools: {read_only: 'yes'}",
    "timeouts: {connect: soon}",
    "timeouts: {connect: 0}",
    "log: {level: loud}",
    "validate: maybe",
    "tests: {a: b}",
    "tests: [{message: {}, expect: perhaps}]",
    "interceptor: {rulez: []}",
    "interceptor: {rules: [{id: a, conditions: [{method_equal: ping}], actions: [{block: no}]}]}",
    "interceptor: {rules: [{id: a, actions: [{blok: no}]}]}",
    "interceptor: {rules: [{actions: [{block: no}]}]}",
]


@pytest.mark.parametrize("text", GOOD)
def test_what_the_reader_takes_is_valid(text: str) -> None:
    parse_file("x.yaml", text.encode(), {})
    tree = read_document("x.yaml", text.encode()).tree
    assert list(VALIDATOR.iter_errors({} if tree is None else tree)) == []


@pytest.mark.parametrize("text", BAD)
def test_what_the_reader_refuses_is_not_valid(text: str) -> None:
    with pytest.raises(FaultyFile):
        parse_file("x.yaml", text.encode(), {})
    assert list(VALIDATOR.iter_errors(read_document("x.yaml", text.encode()).tree))


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.[yjt]*")), ids=lambda path: path.name)
def test_the_examples_are_valid(path: Path) -> None:
    if path.suffix in (".yaml", ".json", ".toml"):
        assert list(VALIDATOR.iter_errors(read_document(path.name, path.read_bytes()).tree)) == []
