"""Suggested rules: found where they are, not where they are not, and tried on what they have not seen."""

from __future__ import annotations

import random
import re
import string
from pathlib import Path

import pytest
import yaml

from sessions import START, RecordingMaker, penstock

KINDS = ("bug", "feature", "question")


def planted(path: Path, odd_kind: bool = False) -> Path:
    """1,000 sessions with an enum, a directory, a range, hosts, a pattern, a rate and free text."""
    chance = random.Random(7)
    with RecordingMaker(path) as made:
        for number in range(1000):
            name, when = f"s{number}", START + number * 100
            kind = "surprise" if odd_kind and number == 950 else chance.choice(KINDS)
            words = " ".join("".join(chance.choices(string.ascii_lowercase, k=5)) for _ in range(6))
            issue = {"kind": kind, "amount": chance.randint(3, 170), "title": words, "api_key": "x" * 20}
            made.call(name, when, "create_issue", issue)
            made.call(
                name, when + 1, "read_file", {"path": f"/data/project/{chance.choice('abc')}/{number}.txt"}
            )
            made.call(
                name, when + 2, "fetch", {"url": f"https://{chance.choice(('a', 'b'))}.example/{number}"}
            )
            made.call(
                name, when + 3, "book", {"day": f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"}
            )
            for more in range(number % 5):
                made.call(name, when + 4 + more, "list", {})
    return path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("suggest")
    planted(work / "r.jsonl")
    said = penstock("suggest", str(work / "r.jsonl"), "--out", str(work / "s.yaml")).stdout
    assert " rules in " in said
    return work


def test_acceptance_28_what_was_planted_is_found_and_refuses_no_held_out_call(found: Path) -> None:
    text = (found / "s.yaml").read_text()
    rules = {rule["id"]: rule for rule in yaml.safe_load(text)["interceptor"]["rules"]}
    assert {"not": {"param_in": {"field": "arguments.kind", "values": sorted(KINDS)}}} in rules[
        "create-issue-kind-enum"
    ]["conditions"]
    outside = {"path_outside": {"fields": "arguments.path", "roots": "/data/project"}}
    assert outside in rules["read-file-path-directory"]["conditions"]
    (limits,) = [part["any"] for part in rules["create-issue-amount-range"]["conditions"] if "any" in part]
    assert [next(iter(one.values()))["value"] for one in limits] == [0, 200]
    assert "a\\.example|b\\.example" in str(rules["fetch-url-hosts"]).replace("\\\\", "\\")
    assert "book-day-pattern" in rules
    assert rules["rate"]["actions"] == [{"rate_limit": {"limit": 16, "window": "60s"}}]
    assert rules["only-used-tools"]["conditions"][1] == {
        "not": {"tool": ["book", "create_issue", "fetch", "list", "read_file"]}
    }
    penstock("check", str(found / "s.yaml"))
    # What the comments say is what a backtest finds.
    comments = re.findall(r"support [\d,]+ calls; held out ([\d,]+) calls, (\d+) refused", text)
    assert len(comments) == len(rules)
    assert {refused for _, refused in comments} == {"0"}
    assert (
        "# create_issue arguments.kind: one of 3 values\n    # support 700 calls; held out 300 calls, 0 "
        in text
    )
    penstock("backtest", str(found / "r.jsonl"), "--config", str(found / "s.yaml"))  # exit 0: nothing differs


def test_what_looks_like_a_secret_is_not_printed(found: Path) -> None:
    text = (found / "s.yaml").read_text()
    assert "x" * 20 not in text
    assert "# - create_issue arguments.api_key: its values may be secrets, which are not printed" in text


def test_acceptance_29_random_values_suggest_no_enum_prefix_or_pattern(tmp_path: Path) -> None:
    chance = random.Random(3)
    with RecordingMaker(tmp_path / "r.jsonl") as made:
        for number in range(300):
            letters = string.ascii_letters + string.digits
            text = "".join(chance.choices(letters, k=chance.randint(1, 30)))
            path = "/" + "/".join("".join(chance.choices(letters, k=6)) for _ in range(3))
            made.call(
                f"s{number}",
                START + number,
                "t",
                {"text": text, "path": path, "few": chance.randint(0, 10**9)},
            )
    text = penstock("suggest", str(tmp_path / "r.jsonl")).stdout
    rules = [rule["id"] for rule in yaml.safe_load(text)["interceptor"]["rules"]]
    assert not [name for name in rules if name.endswith(("enum", "hosts", "directory", "pattern"))]
    assert "t-few-range" in rules


def test_acceptance_30_a_value_seen_only_later_takes_its_rule_away_with_the_count(tmp_path: Path) -> None:
    planted(tmp_path / "r.jsonl", odd_kind=True)
    text = penstock("suggest", str(tmp_path / "r.jsonl")).stdout
    rules = [rule["id"] for rule in yaml.safe_load(text)["interceptor"]["rules"]]
    assert "create-issue-kind-enum" not in rules
    assert "read-file-path-directory" in rules
    assert (
        "# - create_issue arguments.kind: one of 3 values: it would have refused 1 of 300 held-out calls, "
        "the first of them message " in text
    )
    assert "surprise" not in text
    kept = penstock("suggest", str(tmp_path / "r.jsonl"), "--max-refused", "1").stdout
    assert "held out 300 calls, 1 refused" in kept


def test_few_sessions_suggest_nothing(tmp_path: Path) -> None:
    with RecordingMaker(tmp_path / "r.jsonl") as made:
        for number in range(9):
            made.call(f"s{number}", START + number, "t", {})
    done = penstock("suggest", str(tmp_path / "r.jsonl"), code=1)
    assert "There are 9 sessions with calls in the recordings" in done.stderr
