"""docs/config.md knows every key, and what it shows is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.config.file import parse_file
from penstock.config.keys import INTERCEPTOR, SECTIONS
from scripts_by_name import load_script

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "config.md").read_text()


def test_the_tables_are_up_to_date() -> None:
    assert load_script("make_config_docs").filled(PAGE) == PAGE, "run scripts/make_config_docs.py"


@pytest.mark.parametrize("section", [name for name in SECTIONS if name != "tests file"])
def test_every_section_has_its_table(section: str) -> None:
    assert f"<!-- keys: {section or 'file'} -->" in PAGE
    for key in SECTIONS[section]:
        assert f"| `{key.name}` |" in PAGE


def test_the_rules_are_named() -> None:
    assert f"`{INTERCEPTOR}`: see `rules.md`" in PAGE


def test_the_yaml_on_the_page_is_good() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        parse_file("page.yaml", block.encode(), {"HOME": "/home/me"})
