"""docs/rules.md is true: every example loads and does what the lines under it say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from scenes import NotedEffects, Outcome, Pass, answer, client, loaded, send, session, upstream

from penstock.policy.rules.actions import ACTIONS
from penstock.policy.rules.conditions import CONDITIONS
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import describe

DOC = Path(__file__).parents[4] / "docs" / "rules.md"
TEXT = DOC.read_text()
_SECTION = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_EXAMPLE = re.compile(r"^```yaml\n(.*?)^```\n\n((?:(?:- |  to: )[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"- (passes|blocked|changed): `(.+)`(?:\n  to: `(.+)`)?")


def _examples() -> list[Any]:
    out = []
    for found in _EXAMPLE.finditer(TEXT):
        heading = _SECTION.findall(TEXT[: found.start()])[-1][1]
        out.append(pytest.param(found[1], found[2], id=heading))
    return out


def _outcome(box: Interceptor, text: str, state: Any) -> tuple[Outcome, bytes]:
    """What becomes of a message; its bytes are cut out of the document as they stand there."""
    tree = json.loads(text)
    params = re.search(r'"params": (.*?)(?:, "(?:result|error)".*)?\}$', text)
    tail = f', "params": {params[1]}' if params else ""
    request = client(f'{{"jsonrpc": "2.0", "id": 1, "method": "{tree["method"]}"{tail}}}'.encode())
    body = re.search(r'"((?:result|error)": .*)\}$', text)
    if body is None:
        return send(box, request, state), request.raw
    response = upstream(f'{{"jsonrpc": "2.0", "id": 1, "{body[1]}}}'.encode())
    return answer(box, response, request, state), response.raw


@pytest.mark.parametrize(("source", "lines"), _examples())
def test_an_example_does_what_is_said(source: str, lines: str) -> None:
    tree = yaml.safe_load(source)
    config = loaded({"rules": tree} if isinstance(tree, list) else tree["interceptor"])
    assert describe(config)
    box, state = Interceptor(config, NotedEffects()), session()
    said = _LINE.findall(lines)
    assert said
    for what, text, after in said:
        outcome, raw = _outcome(box, text, state)
        assert (outcome.blocked_by is not None) is (what == "blocked"), text
        if what == "passes":
            assert outcome.verdict == Pass(raw, False), text
        elif what == "changed":
            assert isinstance(outcome.verdict, Pass)
            assert after.encode() in outcome.verdict.raw, text
            assert outcome.verdict.changed


def test_every_yaml_block_of_the_page_is_an_example() -> None:
    assert TEXT.count("```yaml") == len(_examples())


@pytest.mark.parametrize("name", [*CONDITIONS, *ACTIONS])
def test_every_condition_and_action_has_its_heading_and_an_example_that_uses_it(name: str) -> None:
    parts = re.split(rf"^### {name}$", TEXT, flags=re.MULTILINE)
    assert len(parts) == 2, f"docs/rules.md needs one heading: ### {name}"
    section = re.split(r"^#+ ", parts[1], flags=re.MULTILINE)[0]
    example = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert example is not None
    assert re.search(rf"\b{name}\b", example[1])


def test_the_cookbook_has_enough_in_it() -> None:
    cookbook = TEXT.split("# Cookbook")[1]
    assert len(re.findall(r"^## ", cookbook, re.MULTILINE)) >= 10
