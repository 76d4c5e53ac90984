"""Addresses as people write them."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.wire.http.url import Url, maybe_proxy, parse_listen, parse_url


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "target", "origin"),
    [
        ("http://localhost:3000", "http", "localhost", 3000, b"/", "http://localhost:3000"),
        ("http://a.example/mcp?x=1#frag", "http", "a.example", 80, b"/mcp?x=1", "http://a.example"),
        ("HTTPS://A.Example", "https", "a.example", 443, b"/", "https://a.example"),
        ("https://a:443/x", "https", "a", 443, b"/x", "https://a"),
        ("http://[::1]:8080/m", "http", "::1", 8080, b"/m", "http://[::1]:8080"),
        ("http://a?b", "http", "a", 80, b"/?b", "http://a"),
        ("http://a:/b", "http", "a", 80, b"/b", "http://a"),
        ("http://münchen.de/", "http", "xn--mnchen-3ya.de", 80, b"/", "http://xn--mnchen-3ya.de"),
    ],
)
def test_a_url_is_taken_apart(text, scheme, host, port, target, origin):
    url = parse_url(text)
    assert (url.scheme, url.host, url.port, url.target, url.origin) == (scheme, host, port, target, origin)


@pytest.mark.parametrize(
    "text",
    ["", "localhost:3000", "ftp://a/", "http://", "http:///x", "http://a b/", "http://a:99999/", "http://a:0/",
     "http://a:x/", "http://a/b c", "http://a/\r\nX: y", "http://::1/", "http://a/ü", "http://a\\b/", "http://a\n"],
)  # fmt: skip
def test_what_is_no_url_is_named(text):
    with pytest.raises(ConfigError) as caught:
        parse_url(text)
    assert text in caught.value.headline


def test_credentials_are_refused_and_not_repeated():
    with pytest.raises(ConfigError) as caught:
        parse_url("http://user:hunter2@a/")
    assert "hunter2" not in str(caught.value)
    for text in ("ftp://user:hunter2@a/", "http://user@a/mcp?key=hunter2", "ftp://a?hunter2&a=b?c#d"):
        with pytest.raises(ConfigError) as caught:
            parse_url(text)
        assert "hunter2" not in str(caught.value), text


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", ("127.0.0.1", 8080)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:8080", ("::1", 8080)),
    ],
)
def test_an_address_to_listen_on(text, address):
    assert parse_listen(text) == address


@pytest.mark.parametrize(
    "text", ["", "x", "a:", ":80", "::1:80", "a:70000", "a:-1", "a b:1", "[::1]", "8080/x"]
)
def test_what_is_no_address_to_listen_on_is_named(text):
    with pytest.raises(ConfigError) as caught:
        parse_listen(text)
    assert text in caught.value.headline


PROXIES = {"HTTP_PROXY": "http://user:p%40ss@proxy:3128", "https_proxy": "secure:8443"}


def test_the_environment_names_proxies():
    plain = maybe_proxy(parse_url("http://a.example/"), PROXIES)
    assert (plain.host, plain.port, plain.basic_credentials) == ("proxy", 3128, b"Basic dXNlcjpwQHNz")
    assert plain.origin == "http://proxy:3128"
    assert maybe_proxy(parse_url("https://a.example/"), PROXIES) == Url("http", "secure", 8443, b"/")
    assert maybe_proxy(parse_url("http://a.example/"), {}) is None
    with pytest.raises(ConfigError):
        maybe_proxy(parse_url("http://a.example/"), {"http_proxy": "https://tls-proxy"})


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_this_machine_is_not_behind_a_proxy(host):
    assert maybe_proxy(parse_url(f"http://{host}:3000/"), PROXIES) is None


@pytest.mark.parametrize(
    ("entry", "is_direct"),
    [("*", True), ("example", True), (".example", True), ("a.example", True), ("*.example", True),
     ("A.EXAMPLE", True), ("b, a.example", True), ("a.example:8000", True), ("a.example:81", False),
     ("xample", False), ("b.a.example", False),
     ("", False), (" , ", False)],
)  # fmt: skip
def test_no_proxy_is_heard(entry, is_direct):
    proxy = maybe_proxy(parse_url("http://a.example:8000/"), PROXIES | {"NO_PROXY": entry})
    assert (proxy is None) is is_direct
