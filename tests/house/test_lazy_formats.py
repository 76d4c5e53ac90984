"""A plain filter loads no reader of files: neither YAML, nor TOML, nor rules."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROBE = """
import sys
from penstock import cli
options = cli.parse_words(cli.proxy_parser(), {words!r})
file = cli.load_config(options)
cli.choose_door(options, cli.make_config(options, file), file)
print(*sys.modules)
"""


def modules(words: list[str]) -> set[str]:
    probe = PROBE.format(words=words)
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_plain_filter_reads_no_file_formats() -> None:
    loaded = modules(["--deny", "^x", "--", "server"])
    assert "penstock.policy.patterns.patterns" in loaded
    for name in ("yaml", "tomllib", "penstock.config.file", "penstock.policy.rules.interceptor_config"):
        assert name not in loaded


@pytest.mark.parametrize(
    ("name", "text", "reader"),
    [
        ("c.yaml", "upstream: {command: [a]}", "yaml"),
        ("c.json", '{"upstream": {"command": ["a"]}}', "json"),
        ("c.toml", "upstream.command = ['a']", "tomllib"),
    ],
)
def test_only_the_reader_that_is_needed_is_loaded(tmp_path, name: str, text: str, reader: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    loaded = modules(["--config", str(path)])
    assert reader in loaded
    assert not {"yaml", "tomllib"} - {reader} & loaded
    assert "penstock.policy.rules.interceptor_config" not in loaded
