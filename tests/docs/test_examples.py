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
