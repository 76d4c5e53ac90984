"""Configuration files: what they may say, and what is said about their faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.config.file import load_file, parse_file
from penstock.config.model import CommandUpstream, FileConfig, SeveralUpstreams, UrlUpstream
from penstock.errors import ConfigError, FaultyFile

ENVIRON = {"HOME_DIR": "/home/me", "TOKEN": "s3cret", "EMPTY": ""}


def read(text: str, name: str = "x.yaml") -> FileConfig:
    return parse_file(name, text.encode(), ENVIRON)


def faults(text: str, name: str = "x.yaml") -> list[tuple[int, str]]:
    with pytest.raises(FaultyFile) as caught:
        read(text, name)
    return caught.value.faults


def test_an_empty_file_asks_for_nothing() -> None:
    for text in ("", "# nothing\n", "{}", "tools:\nlog:\nupstream:\n"):
        config = read(text)
        assert config.upstream is None
        assert not config.choice.is_active
        assert config.listen is config.interceptor is config.log_level is None


def test_everything_that_a_file_can_say() -> None:
    config = read("""
$schema: ../schema/penstock.schema.json
upstream:
  command: [npx, -y, server, "${HOME_DIR}/data"]
  env: {PORT: 8080, A: "${NONE:-b}"}
  cwd: "${HOME_DIR}"
tools: {deny: ["^admin_", "a,b{1,3}"], allow: ^get_, read_only: true}
listen: 0.0.0.0:9000
allow_hosts: gate.example
allow_origins: [https://a.example, https://b.example]
validate: strict
timeouts: {connect: 5s, tools: 1500}
log: {level: debug, format: json}
""")
    assert config.upstream == CommandUpstream(
        ("npx", "-y", "server", "/home/me/data"), (("PORT", "8080"), ("A", "b")), "/home/me"
    )
    assert [pattern.source for pattern in config.choice.deny] == ["^admin_", "a", "b{1,3}"]
    assert [pattern.source for pattern in config.choice.allow] == ["^get_"]
    assert config.choice.read_only
    assert config.listen == ("0.0.0.0", 9000)
    assert config.allowed_hosts == ("gate.example",)
    assert config.allowed_origins == ("https://a.example", "https://b.example")
    assert config.validate == "strict"
    assert (config.connect_seconds, config.tools_seconds) == (5.0, 1.5)
    assert (config.log_level, config.log_format) == ("debug", "json")


def test_the_same_in_three_formats() -> None:
    tree = {
        "upstream": {"url": "http://h:1/mcp", "headers": {"X-A": "b"}},
        "tools": {"deny": ["x"]},
        "listen": 0,
    }
    toml = "listen = 0\n[upstream]\nurl = 'http://h:1/mcp'\nheaders.X-A = 'b'\n[tools]\ndeny = ['x']\n"
    yaml = "upstream:\n  url: http://h:1/mcp\n  headers: {X-A: b}\ntools: {deny: [x]}\nlisten: 0\n"
    configs = [
        read(json.dumps(tree), "x.json"),
        read(toml, "x.toml"),
        read(yaml),
        read(toml, "x"),
        read(yaml, "x"),
    ]
    for config in configs:
        assert isinstance(config.upstream, UrlUpstream)
        assert config.upstream.url.origin == "http://h:1"
        assert config.upstream.headers == ((b"X-A", b"b"),)
        assert config.listen == ("127.0.0.1", 0)
        assert [pattern.source for pattern in config.choice.deny] == ["x"]


def test_all_faults_are_told_at_once_each_with_its_line() -> None:
    found = faults("""\
upstreem: {}
tools:
  deny: ["^[a-z", ok, (a+)+]
  read_only: yes
  alow: [x]
listen: host:99999
timeouts:
  connect: soon
  tools: 0
log: {level: warn, format: 7}
validate: [x]
listen: 1
""")
    assert [line for line, _ in found] == [1, 3, 3, 4, 5, 6, 8, 9, 10, 10, 11, 12]
    text = "\n".join(text for _, text in found)
    assert 'unknown key "upstreem" in the file; did you mean "upstream"?' in text
    assert 'Invalid regex pattern in tools.deny: "^[a-z"; pattern must be a valid' in text
    assert 'Unsafe regex pattern detected: "(a+)+"' in text
    assert 'tools.read_only must be true or false, not "yes"' in text
    assert 'unknown key "alow" in tools; did you mean "allow"?' in text
    assert 'Invalid address to listen on: "host:99999"' in text
    assert 'timeouts.connect: invalid duration "soon"; it must be a duration like 30s' in text
    assert 'timeouts.tools: invalid duration "0"; it must be positive' in text
    assert 'log.level must be one of debug, info, warning, error, not "warn"; did you mean "warning"?' in text
    assert "log.format must be one of text, json, not 7" in text
    assert "validate must be one of off, schema, strict, not a list" in text
    assert '"listen" is here twice; the first is on line 6' in text


def test_what_people_read() -> None:
    with pytest.raises(FaultyFile) as caught:
        read("tols: 1\nx: 2\n")
    assert str(caught.value) == (
        "The configuration has 2 faults\n"
        'x.yaml:1: unknown key "tols" in the file; did you mean "tools"?\n'
        'x.yaml:2: unknown key "x" in the file'
    )
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("- a", 1, "the file must be a section with keys, not a list"),
        ("tools: [a]", 1, "tools must be a section with keys, not a list"),
        ("upstream: {command: []}", 1, "The upstream command is empty"),
        ("upstream: {command: ''}", 1, "The upstream command is empty"),
        ("upstream: {command: 'a \"b'}", 1, "Invalid upstream command"),
        ("upstream: {args: [a]}", 1, "upstream needs a command or a url"),
        ("upstream:\n  command: a\n  headers: {A: b}", 3, "headers is not for an upstream that is a command"),
        ("upstream:\n  url: http://a\n  cwd: b", 3, "cwd is not for an upstream that is a url"),
        ("upstream:\n  url: ftp://a", 2, 'Invalid URL: "ftp://a"'),
        ("upstream:\n  url: http://u:p@a/", 2, "Credentials in a URL"),
        ("upstream:\n  url: http://a\n  headers:\n    Host: x", 4, "Invalid headers: Host; this header is"),
        ("upstream:\n  url: http://a\n  headers:\n    'a:b': x", 4, "no header can have this name"),
        ("upstream:\n  url: http://a\n  headers:\n    A: ${NOPE}", 4, "Environment variable NOPE is not set"),
        (
            "upstream:\n  url: http://a\n  headers:\n    A: ${input:key}",
            4,
            "${input:key} would have to be asked",
        ),
        ("upstream:\n  command: [a]\n  env:\n    A: ${NOPE}", 4, "upstream.env.A uses ${NOPE}"),
        ("upstream:\n  command: [a]\n  env:\n    A: true", 4, "upstream.env.A must be a text, not true"),
        ("upstream:\n  command: [a]\n  env:\n    'A=B': c", 4, 'no variable can be called "A=B"'),
        ("upstream:\n  command: [a, [b]]", 2, "upstream.command[1] must be a text, not a list"),
        ("upstream:\n  command: [a, [b]]\n  args: [c]", 2, "upstream.command[1] must be a text, not a list"),
        ("upstream: {server: x}", 1, 'no server is called "x"; there is no mcpServers'),
        ("upstream: {on_loss: panic, url: http://a}", 1, "upstream.on_loss must be one of exit, reconnect"),
        ("listen: 1\nstdio: true", 2, "stdio and listen are both here"),
        ("a: [1,", 1, "not YAML"),
        ("\n\nx: \x1b[31m", 3, "a control character"),
        ("tests: [{name: a, mesage: {}}]", 1, 'unknown key "mesage" in tests[0]; did you mean "message"?'),
    ],
)
def test_a_fault(text: str, line: int, words: str) -> None:
    found = faults(text)
    assert [number for number, _ in found] == [line], found
    assert words in found[0][1]


def test_no_fault_shows_a_secret() -> None:
    text = 'upstream:\n  url: http://a\n  headers: {Authorization: "Bearer ${TOKEN}\\x01"}\n'
    assert "s3cret" not in str(faults(text))


# --- files of AI clients ------------------------------------------------------------------------------------

CLAUDE = """{"mcpServers": {
  "files": {"command": "npx", "args": ["-y", "server", "${HOME_DIR}"], "env": {"A": "b"}}
}}"""
VS_CODE = """{
  // of this workspace
  "inputs": [{"id": "key", "type": "promptString"}],
  "servers": {
    "web": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}}
  }
}"""
CODEX = '[mcp_servers.files]\ncommand = "npx"\nargs = ["-y", "server"]\nenabled = true\n'


def test_an_ai_clients_file_loads_as_it_is() -> None:
    assert read(CLAUDE, "mcp.json").upstream == CommandUpstream(
        ("npx", "-y", "server", "/home/me"), (("A", "b"),), None
    )
    upstream = read(VS_CODE, "mcp.json").upstream
    assert isinstance(upstream, UrlUpstream)
    assert upstream.headers == ((b"Authorization", b"Bearer s3cret"),)
    assert read(CODEX, "config.toml").upstream == CommandUpstream(("npx", "-y", "server"))


def test_a_command_of_an_ai_clients_file_is_one_word() -> None:
    config = read('{"mcpServers": {"a": {"command": "/opt/my server", "args": []}}}', "x.json")
    assert config.upstream == CommandUpstream(("/opt/my server",))


def test_the_tools_that_an_ai_clients_file_names_are_names() -> None:
    text = "mcpServers: {a: {command: x, disabledTools: [rm.rf], enabled_tools: [get, 'l{s}']}}"
    choice = read(text).choice
    assert choice.maybe_denial("rm.rf", True) is not None
    assert choice.deny[0].found_in("rm.rf")
    assert not choice.deny[0].found_in("rm-rf")
    assert choice.maybe_denial("get", True) is None
    assert choice.maybe_denial("l{s}", True) is None
    assert choice.maybe_denial("get_more", True) is not None


def test_one_of_several_servers_can_be_picked() -> None:
    several = "mcpServers:\n  one: {command: a}\n  two: {command: b}\n"
    whole = read(several).upstream
    assert isinstance(whole, SeveralUpstreams)
    assert [member.terms.name for member in whole.members] == ["one", "two"]
    assert read(several + "upstream: {server: two}").upstream == CommandUpstream(("b",))
    assert 'did you mean "two"?' in faults(several + "upstream: {server: twoo}")[0][1]
    assert "the upstream is here twice" in faults(several + "upstream: {command: c}")[0][1]


def test_a_disabled_server_does_not_count() -> None:
    text = "mcpServers: {a: {command: x, disabled: true}, b: {command: y}, c: {command: z, enabled: false}}"
    assert read(text).upstream == CommandUpstream(("y",))
    assert "every server here is disabled" in faults("mcpServers: {a: {command: x, disabled: true}}")[0][1]


def test_a_fault_in_a_server_has_its_line() -> None:
    found = faults("mcpServers:\n  a:\n    comand: x\n    url: http://a\n")
    assert found == [(3, 'unknown key "comand" in mcpServers.a; did you mean "command"?')]


# --- the file itself ----------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_file(str(tmp_path / "nothing.yaml"))
    assert "nothing.yaml" in caught.value.headline
    with pytest.raises(ConfigError):
        load_file(str(tmp_path))


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    path.write_bytes(b"#" * 3_000_000)
    with pytest.raises(FaultyFile) as caught:
        load_file(str(path))
    assert "too large" in str(caught.value)


def test_what_a_file_says_cannot_write_to_the_terminal() -> None:
    found = faults('"\\e[2J": 1\n')
    assert "\x1b" not in found[0][1]
