"""Flags and a file meet in one configuration, and the flags win."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock import cli
from penstock.config.file import parse_file
from penstock.config.model import CommandUpstream, ProxyConfig, UrlUpstream, make_filter
from penstock.errors import ConfigError, FaultyFile, PatternError, UsageError

FILE = """
upstream: {command: [server, --a], env: {A: "1", B: "2"}, cwd: /one}
tools: {deny: [^rm], allow: [^get]}
listen: 9000
allow_hosts: [one]
validate: schema
timeouts: {connect: 5s}
log: {level: debug}
"""
URL_FILE = "upstream: {url: http://h/mcp, headers: {X-A: a, X-B: b}, on_loss: reconnect}\n"


def configure(tmp_path: Path, text: str, *words: str) -> ProxyConfig:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    options = cli.parse_words(cli.proxy_parser(), ["--config", str(path), *words])
    file = cli.load_config(options)
    return cli.choose_door(options, cli.make_config(options, file), file)[0]


def test_the_file_alone(tmp_path: Path) -> None:
    config = configure(tmp_path, FILE)
    assert config.upstream == CommandUpstream(("server", "--a"), (("A", "1"), ("B", "2")), "/one")
    assert config.listen == ("127.0.0.1", 9000)
    assert (config.connect_seconds, config.tools_seconds) == (5.0, 10.0)
    assert (config.log_level, config.log_format, config.validate) == ("debug", "text", "schema")
    assert config.path == str(tmp_path / "c.yaml")


def test_flags_win(tmp_path: Path) -> None:
    words = "--listen 1 --connect-timeout 7s --tools-timeout 8s --log-level error --log-format json".split()
    config = configure(tmp_path, FILE, *words, "--validate", "strict", "--allow-host", "two")
    assert config.listen == ("127.0.0.1", 1)
    assert (config.connect_seconds, config.tools_seconds) == (7.0, 8.0)
    assert (config.log_level, config.log_format, config.validate) == ("error", "json", "strict")
    assert config.allowed_hosts == ("one", "two")
    assert configure(tmp_path, FILE, "--stdio").listen is None


def test_what_either_denies_is_denied_and_allow_is_replaced(tmp_path: Path) -> None:
    choice = configure(tmp_path, FILE, "--deny", "^mv", "--read-only").choice
    assert [pattern.source for pattern in choice.deny] == ["^rm", "^mv"]
    assert [pattern.source for pattern in choice.allow] == ["^get"]
    assert choice.read_only
    choice = configure(tmp_path, FILE, "--allow", "^put").choice
    assert [pattern.source for pattern in choice.allow] == ["^put"]


def test_an_upstream_on_the_command_line_takes_the_place_of_the_files(tmp_path: Path) -> None:
    assert configure(tmp_path, FILE, "--", "mine").upstream == CommandUpstream(("mine",))
    upstream = configure(tmp_path, FILE, "--upstream", "http://other").upstream
    assert isinstance(upstream, UrlUpstream)


def test_options_add_to_the_files_upstream(tmp_path: Path) -> None:
    upstream = configure(tmp_path, FILE, "--env", "B=3", "--cwd", "/two").upstream
    assert isinstance(upstream, CommandUpstream)
    assert (upstream.environment() or {})["A"] == "1"
    assert (upstream.environment() or {})["B"] == "3"
    assert upstream.cwd == "/two"
    url = configure(tmp_path, URL_FILE, "--header", "x-b: c").upstream
    assert isinstance(url, UrlUpstream)
    assert url.headers == ((b"X-A", b"a"), (b"x-b", b"c"))
    assert url.reconnect
    url = configure(tmp_path, URL_FILE, "--on-upstream-loss", "exit").upstream
    assert isinstance(url, UrlUpstream)
    assert not url.reconnect


def test_options_that_do_not_fit_the_files_upstream(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        configure(tmp_path, FILE, "--header", "A: b")
    with pytest.raises(UsageError):
        configure(tmp_path, URL_FILE, "--cwd", "/x")


def test_nobody_names_an_upstream(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names none"):
        configure(tmp_path, "tools: {deny: [x]}")


def test_the_same_command_line_reads_other_bytes(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    options = cli.parse_words(cli.proxy_parser(), ["--config", str(path), "--deny", "^mv"])
    config = cli.reload_config(options, FILE.encode(), was_piped=True)
    assert [pattern.source for pattern in config.choice.deny] == ["^rm", "^mv"]
    assert config.listen == ("127.0.0.1", 9000)


@pytest.mark.parametrize(
    ("words", "denied"),
    [([""], []), ([","], []), (["a,"], ["a"]), ([",a", " , b ,"], ["a", "b"]), (["", "x"], ["x"])],
)
def test_an_empty_part_of_a_deny_list_denies_nothing(words: list[str], denied: list[str]) -> None:
    assert [pattern.source for pattern in make_filter(words, [], False).deny] == denied
    file = parse_file("gate.json", json.dumps({"tools": {"deny": words}}).encode(), {})
    assert [pattern.source for pattern in file.choice.deny] == denied


@pytest.mark.parametrize("text", ["", ",", " , "])
def test_a_list_of_what_is_allowed_that_names_nothing_does_not_allow_everything(text: str) -> None:
    with pytest.raises(PatternError):
        make_filter([], [text], False)
    with pytest.raises(FaultyFile):
        parse_file("gate.json", json.dumps({"tools": {"allow": [text]}}).encode(), {})
    assert [pattern.source for pattern in make_filter([], ["a,"], False).allow] == ["a"]
