"""What an upstream is called where people see several."""

from __future__ import annotations

import pytest

from penstock.cli import make_config, parse_words, proxy_parser
from penstock.short_name import short_name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--", "npx", "-y", "@some/server-files@1.2", "/home"], "server-files"),
        (["--", "python3", "src/my_server.py"], "my_server"),
        (["--dashboard", "auto:files", "--", "npx", "-y", "other"], "files"),
        (["--upstream", "https://docs.example/mcp"], "docs.example"),
        (["--record", "a/", "--", "node"], "node"),
    ],
)
def test_an_upstream_is_called_by_what_runs(words: list[str], name: str) -> None:
    assert short_name(make_config(parse_words(proxy_parser(), words))) == name
