"""--upstream, --header and --on-upstream-loss: what they mean, and what makes no sense."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.cli import make_config, proxy_parser
from penstock.config.model import ProxyConfig, UrlUpstream, make_headers
from penstock.errors import ConfigError, UsageError


def config(*words: str) -> ProxyConfig:
    return make_config(proxy_parser().parse_args(list(words)))


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("Name: value", (b"Name", b"value")),
        ("Name:value", (b"Name", b"value")),
        ("X-Key:  a:b ", (b"X-Key", b"a:b")),
        ("Empty:", (b"Empty", b"")),
        ("N: é", (b"N", "é".encode())),
    ],
)
def test_a_header_is_split_at_its_first_colon(text: str, header: tuple[bytes, bytes]):
    assert make_headers([text]) == (header,)


def test_variables_in_a_header_expand(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOKEN", "s3cret")
    assert make_headers(["Authorization: Bearer ${TOKEN}"]) == ((b"Authorization", b"Bearer s3cret"),)
    assert make_headers(["A: ${UNSET_VARIABLE:-x}"]) == ((b"A", b"x"),)
    with pytest.raises(ConfigError, match="UNSET_VARIABLE"):
        make_headers(["A: ${UNSET_VARIABLE}"])


@pytest.mark.parametrize(
    "text",
    ["no colon s3cret", ": s3cret", "Bad Name: s3cret", "A: s3cret\r\nB: c", "A: s3cret\n", "A: s3cret\0"],
)
def test_a_header_that_is_none_is_refused_without_showing_it(text: str):
    with pytest.raises(ConfigError) as refusal:
        make_headers([text])
    assert "s3cret" not in str(refusal.value)


def test_a_variable_cannot_smuggle_a_second_header_in(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOKEN", "x\r\nEvil: 1")
    with pytest.raises(ConfigError):
        make_headers(["A: ${TOKEN}"])


@pytest.mark.parametrize("name", ["Host", "content-length", "Mcp-Session-Id", "Accept", "Transfer-Encoding"])
def test_headers_that_are_the_transports_own_are_refused(name: str):
    with pytest.raises(ConfigError, match=name):
        make_headers([f"{name}: x"])


def test_a_url_makes_an_upstream():
    upstream = config("--upstream", "http://h:8/mcp?k=1", "--header", "A: b").upstream
    assert isinstance(upstream, UrlUpstream)
    assert (upstream.url.origin, upstream.url.target) == ("http://h:8", b"/mcp?k=1")
    assert upstream.headers == ((b"A", b"b"),)
    assert not upstream.reconnect
    other = config("--upstream", "http://h/", "--on-upstream-loss", "reconnect").upstream
    assert isinstance(other, UrlUpstream)
    assert other.reconnect


@pytest.mark.parametrize(
    "words",
    [
        ["--upstream", "http://h/", "--upstream-cmd", "x"],
        ["--upstream", "http://h/", "x"],
        ["--upstream-cmd", "x", "x"],
        [],
        ["--upstream", "http://h/", "--env", "A=b"],
        ["--upstream", "http://h/", "--cwd", "/"],
        ["--header", "A: b", "x"],
    ],
)
def test_options_that_contradict_each_other_are_a_usage_error(words: list[str]):
    with pytest.raises(UsageError):
        config(*words)


@pytest.mark.parametrize("url", ["ftp://h/", "h:80", "http://u:s3cret@h/", "http://", "http://h:99999/"])
def test_a_url_that_is_none_is_refused_without_its_password(url: str):
    with pytest.raises(ConfigError) as refusal:
        config("--upstream", url)
    assert "s3cret" not in str(refusal.value)


def test_plain_http_loads_no_tls():
    program = (
        "import sys\n"
        "from penstock import app, cli\n"
        "cli.main(['--upstream', 'http://127.0.0.1:1/mcp'])\n"
        "assert 'ssl' not in sys.modules, 'ssl was loaded'\n"
        "assert 'penstock.upstream.detect_transport' in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
