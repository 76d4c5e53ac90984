"""Several servers in one file: what is read, what is refused, and when they are one whole."""

from __future__ import annotations

import pytest

from penstock.arguments import proxy_parser
from penstock.cli import make_config
from penstock.config.file import parse_file
from penstock.config.model import CommandUpstream, FileConfig, SeveralUpstreams
from penstock.errors import FaultyFile, UsageError

TWO = "mcpServers:\n  one: {command: a}\n  two: {command: b}\n"


def read(text: str, picked: tuple[str, ...] | None = None) -> FileConfig:
    return parse_file("x.yaml", text.encode(), {}, picked)


def whole(text: str) -> SeveralUpstreams:
    found = read(text).upstream
    assert isinstance(found, SeveralUpstreams)
    return found


def fault(text: str) -> str:
    with pytest.raises(FaultyFile) as raised:
        read(text)
    return str(raised.value.detail)


def test_the_order_of_the_file_is_kept() -> None:
    assert [member.terms.slug for member in whole(TWO).members] == ["one", "two"]


def test_one_server_alone_is_passed_on_as_it_is() -> None:
    assert read("mcpServers: {one: {command: a}}").upstream == CommandUpstream(("a",))
    assert read("mcpServers: {one: {command: a, timeouts: {list: 3s}}}").tools_seconds == 3


@pytest.mark.parametrize("key", ["rename: {a: b}", "lazy: true", "ask: [roots]", "uris: ['^x:']"])
def test_what_only_a_whole_can_do_makes_one_of_a_single_server(key: str) -> None:
    whole(f"mcpServers: {{one: {{command: a, {key}}}}}")


def test_a_prefix_for_all_or_a_search_makes_a_whole() -> None:
    whole("mcpServers: {one: {command: a}}\nnames: {prefix: always}")
    whole("mcpServers: {one: {command: a}}\nsearch: {}")


def test_an_own_deny_counts_for_a_single_server_too() -> None:
    choice = read("mcpServers: {one: {command: a, tools: {deny: [^rm]}}}").choice
    assert choice.maybe_denial("rm_rf", True) is not None


def test_no_upstream_gets_the_environment_that_is_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("PATH", "/bin")
    first, second = whole(TWO.replace("command: b", "command: b, inherit_env: true")).members
    assert isinstance(first.upstream, CommandUpstream)
    assert isinstance(second.upstream, CommandUpstream)
    inherited = first.upstream.environment()
    assert inherited is not None
    assert "GITHUB_TOKEN" not in inherited
    assert inherited["PATH"] == "/bin"
    assert second.upstream.environment() is None


def test_some_servers_can_be_picked() -> None:
    three = TWO + "  three: {command: c, disabled: true}\n"
    assert read(three, ("two",)).upstream == CommandUpstream(("b",))
    found = read(three, ("three", "one")).upstream
    assert isinstance(found, SeveralUpstreams)
    assert [member.terms.name for member in found.members] == ["one", "three"]
    with pytest.raises(FaultyFile, match="fault"):
        read(three, ("four",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mcpServers: {a.b: {command: x}, a_b: {command: y}}", "the same prefix a_b"),
        ("mcpServers: {A: {command: x}, a: {command: y}}", "the same prefix"),
        (TWO + "names: {separator: '/'}", "names.separator must have letters"),
        (TWO + f"names: {{known_as: {'k' * 60}}}", "too few"),
        ("mcpServers: {a: {command: x, ask: [sampeling]}, b: {command: y}}", 'did you mean "sampling"?'),
        ("mcpServers: {a: {command: x, rename: {p: q, r: q}}, b: {command: y}}", "renamed to one name"),
        (f"mcpServers: {{a: {{command: x, rename: {{p: {'q' * 50}}}}}, b: {{command: y}}}}", "too long"),
        ("mcpServers: {a: {command: x, uris: ['(']}, b: {command: y}}", "uris"),
        ("mcpServers: {a: {command: x, prefix: 'ä'}, b: {command: y}}", "cannot stand before a name"),
    ],
)
def test_what_cannot_be_meant_is_said(text: str, words: str) -> None:
    assert words in fault(text)


def test_options_for_one_upstream_are_refused_for_several() -> None:
    options = proxy_parser().parse_args(["--config", "x", "--env", "A=b"])
    with pytest.raises(UsageError, match="one upstream"):
        make_config(options, read(TWO))


CLIENT_FILES = {
    ".claude.json": '{"numStartups": 3, "mcpServers": {"a": {"type": "stdio", "command": "x"},'
    ' "b": {"type": "http", "url": "http://h/mcp", "headers": {"K": "v"}}}}',
    "settings.json": '{"theme": "dark", "context_servers": {"a": {"command": "x"}, "b": {"command": "z"}}}',
    "config.toml": 'model = "m"\n[mcp_servers.a]\ncommand = "x"\n[mcp_servers.b]\nurl = "http://h/mcp"\n'
    '[mcp_servers.b.http_headers]\nK = "v"\n',
    "opencode.json": '{"mcp": {"a": {"type": "local", "command": ["x", "y"], "environment": {"E": "1"}},'
    ' "b": {"type": "remote", "url": "http://h/mcp"}}}',
    "config.yaml": "extensions:\n  a: {type: stdio, cmd: x, args: [y], envs: {E: '1'}}\n"
    "  b: {type: sse, uri: 'http://h/sse'}\n  c: {type: builtin}\n",
}


@pytest.mark.parametrize("name", CLIENT_FILES)
def test_a_clients_own_file_loads_as_it_is(name: str) -> None:
    found = parse_file(f"/home/me/{name}", CLIENT_FILES[name].encode(), {}).upstream
    assert isinstance(found, SeveralUpstreams)
    assert [member.terms.name for member in found.members] == ["a", "b"]
    one = parse_file(f"/home/me/{name}", CLIENT_FILES[name].encode(), {}, ("a",)).upstream
    assert isinstance(one, CommandUpstream)
    assert one.command[0] == "x"


@pytest.mark.parametrize("name", ["gate.json", ".mcp.json"])
def test_a_slip_in_our_own_file_is_not_taken_for_a_clients(name: str) -> None:
    text = '{"tols": {"deny": ["^rm"]}, "mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}'
    with pytest.raises(FaultyFile, match="fault"):
        parse_file(name, text.encode(), {})
