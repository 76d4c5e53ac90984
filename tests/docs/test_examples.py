"""Every example is a good configuration, and its tests pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.file import ConfigReading

EXAMPLES = sorted(
    path
    for path in (Path(__file__).resolve().parent.parent.parent / "examples").iterdir()
    if path.suffix in (".yaml", ".toml", ".json") and not path.name.endswith(".tests.yaml")
)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_right(path: Path) -> None:
    reading = ConfigReading(path.name, path.read_bytes(), {})
    reading.raise_faults()
    assert reading.config.upstream is not None


@pytest.mark.parametrize("path", [p for p in EXAMPLES if "\ntests:" in p.read_text()], ids=lambda p: p.name)
def test_the_tests_of_an_example_hold(path: Path) -> None:
    from penstock.commands.rule_fixtures import read_tests

    reading = ConfigReading(str(path), path.read_bytes(), {})
    assert reading.config.interceptor is not None
    for test in read_tests(reading):
        assert test.run(reading.config.interceptor) == [], test.name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("developer", ["Live view: for penstock watch.", "Recording: agent.jsonl", "let a person decide"]),
        ("team", ["Upstreams: 2", "token alice, profile writer", "Metrics: at 127.0.0.1:9464"]),
        (
            "platform",
            ["Workers: one process a core", "Shared through Redis, as platform", "limits: what needs it is"],
        ),
    ],
)
def test_check_says_all_of_it(name: str, words: list[str]) -> None:
    from penstock.commands.check import summarize

    path = EXAMPLES[0].parent / f"{name}.yaml"
    said = "\n".join(summarize(ConfigReading(path.name, path.read_bytes(), {}).config))
    for word in words:
        assert word in said, said
    assert "32 bytes" not in said, "the secret of the fleet"
