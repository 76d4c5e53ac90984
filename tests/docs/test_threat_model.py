"""What the threat model names is there, and its numbers are the ones in force."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock import limits

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
UNITS = {"KiB": 1024, "MiB": 1024 * 1024}


def test_every_test_that_is_named_exists_and_tests_something() -> None:
    named = set(re.findall(r"`(tests/[\w/.]+)`", PAGE))
    assert len(named) > 25
    for name in sorted(named):
        assert re.search(r"^(async )?def test_", (ROOT / name).read_text(), re.MULTILINE), name


def test_every_limit_that_is_named_exists() -> None:
    named = set(re.findall(r"`([A-Z]+_[A-Z_]+|NESTING|SESSIONS|SCRIPTS)`", PAGE))
    assert len(named) > 25
    for name in sorted(named):
        assert hasattr(limits, name), name


def _rows() -> list[tuple[str, str]]:
    part = PAGE.partition("## How much one may cost us")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| ([^|]+) \|$", part, re.MULTILINE)
    return [(names, values) for names, values in rows if "`" in names]


@pytest.mark.parametrize(("names", "values"), _rows())
def test_every_number_is_the_one_in_force(names: str, values: str) -> None:
    told = [
        int(number.replace(",", "")) * UNITS.get(unit, 1)
        for number, unit in re.findall(r"(\d[\d,]*\d|\d)(?: (KiB|MiB))?", values)
    ]
    for name in re.findall(r"`([A-Z_]+)`", names):
        assert getattr(limits, name) in told, f"{name} is {getattr(limits, name)}, not {values}"


def test_the_table_of_numbers_is_read() -> None:
    assert len(_rows()) > 15


def test_readme_and_security_lead_to_it() -> None:
    for page in ("README.md", "SECURITY.md"):
        assert "docs/threat-model.md" in (ROOT / page).read_text()


def test_the_answers_it_quotes_are_given() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for code in re.findall(r"`(-32\d{3})`", PAGE):
        assert code in source, code
    assert "192 random bits" in source
