"""What a path reaches is told as it is."""

from __future__ import annotations

import pytest
from scenes import loaded, rule

from penstock.policy.rules.path_words import reach_of, wide_paths
from penstock.policy.rules.paths import parse_path


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("arguments.path", None),
        ("content.0.text", None),
        ("arguments.*", 'every member or element in "arguments"'),
        ("content.*.text", '"text" of every member or element in "content"'),
        (
            "arguments.**",
            'every value in "arguments" at any depth that is neither an object nor an array',
        ),
        ("**", "every value there at any depth that is neither an object nor an array"),
        ("arguments.**.path", 'every "path" in "arguments", however deep it lies'),
        ("**.path", 'every "path", however deep it lies'),
        ("**.files.*.content", '"content" of every member or element of every "files", however deep it lies'),
    ],
)
def test_a_path_is_told_in_words(path: str, words: str | None) -> None:
    said = reach_of(parse_path(path))
    assert said == (None if words is None else f"{path}: {words}")


def test_every_wide_path_of_the_rules_is_told_once() -> None:
    rules = loaded(
        {
            "rules": [
                rule(
                    {"replace": {"field": "content.*.text", "pattern": "a", "with": "b"}},
                    when=[{"any": [{"param_exists": "arguments.*"}, {"param_exists": "arguments.x"}]}],
                ),
                {**rule({"truncate": {"field": "content.*.text", "bytes": 1}}), "id": "s"},
                {
                    **rule({"block": "x"}, when=[{"path_outside": {"fields": ["**.path"], "roots": "/a"}}]),
                    "id": "t",
                },
            ]
        }
    ).rules
    assert [said.split(":")[0] for said in wide_paths(rules)] == ["arguments.*", "content.*.text", "**.path"]
