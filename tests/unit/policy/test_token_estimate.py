"""The token estimate against counts of the o200k vocabulary.

`published` has, for tools of published servers, how many words, runs of marks, marks past the third and
groups of digits their definition has, and its count; `own` has definitions of our own in many languages.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from penstock.policy.tools import token_estimate
from penstock.policy.tools.token_estimate import estimate_tokens, tool_tokens
from penstock.wire.json.ambiguity import members

COUNTS = json.loads((Path(__file__).parents[2] / "data" / "token_counts.json").read_text())
WEIGHTS = (
    token_estimate._WORD_WEIGHT,
    token_estimate._MARKS_WEIGHT,
    token_estimate._MARK_PAST_THREE_WEIGHT,
    token_estimate._DIGITS_WEIGHT,
)
CLOSE = {"Polish": 0.30, "Vietnamese": 0.20}  # the furthest off; every other language within 15 %


def test_the_weights_fit_published_definitions() -> None:
    errors, total, real = [], 0, 0
    for *features, count in COUNTS["published"]:
        estimate = round(sum(weight * number for weight, number in zip(WEIGHTS, features, strict=True)))
        errors.append((estimate - count) / count)
        total, real = total + estimate, real + count
    assert len(errors) > 200
    assert statistics.mean(map(abs, errors)) <= 0.04
    assert max(map(abs, errors)) <= 0.15
    assert abs(total / real - 1) <= 0.03


@pytest.mark.parametrize("row", COUNTS["own"], ids=lambda row: row["language"])
def test_other_scripts_are_estimated_too(row: dict[str, object]) -> None:
    text, count = str(row["text"]), int(str(row["o200k"]))
    assert abs(estimate_tokens(text) / count - 1) <= CLOSE.get(str(row["language"]), 0.15)


@pytest.mark.parametrize("row", COUNTS["own"], ids=lambda row: row["language"])
def test_indentation_and_escapes_change_nothing(row: dict[str, object]) -> None:
    tool = json.loads(str(row["text"]))
    tool["inputSchema"] = tool.pop("input_schema")
    spellings = [
        json.dumps(tool, ensure_ascii=False, separators=(",", ":")),
        json.dumps(tool, ensure_ascii=False, indent=8),
        json.dumps(tool, ensure_ascii=True, indent="\t"),
        json.dumps(tool).replace("/", "\\/"),
    ]
    found = {tool_tokens(members(text.encode())) for text in spellings}
    assert found == {estimate_tokens(str(row["text"]))}


def test_what_models_are_not_shown_costs_nothing() -> None:
    plain = b'{"name":"a","inputSchema":{"type":"object"}}'
    more = (
        b'{"name":"a","title":"A long title","inputSchema":{"type":"object"},"outputSchema":{"a":"object"}}'
    )
    assert tool_tokens(members(plain)) == tool_tokens(members(more))


def test_a_number_that_no_decoder_holds_is_no_obstacle() -> None:
    raw = b'{"name":"a","inputSchema":{"type":"object","maximum":1e400, "minimum": 1' + b"0" * 400 + b"}}"
    assert tool_tokens(members(raw)) > 10
