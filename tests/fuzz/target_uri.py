"""URIs: one form for each, never an allowed place in one reading and another place in the next."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote, urlsplit

from penstock.errors import ConfigError
from penstock.policy.rules.resource_uris import Location, OddUri, locate, locate_path
from penstock.wire.http.url import maybe_proxy, parse_listen, parse_url

_ALLOWED = locate_path("/workspace/open")


def check(data: bytes) -> None:
    """The bytes as a text: as a resource's URI, as an address to connect to, and as one to listen on."""
    text = data.decode("utf-8", "replace")
    for uri in (text, "file://" + text, "file:///workspace/open/" + text):
        try:
            found = locate(uri)
        except OddUri:
            continue
        _check_location(uri, found)
    for address in (text, "http://" + text):
        _check_url(address)
    try:
        host, port = parse_listen(text)
        assert host
        assert 0 <= port < 65536
    except ConfigError:
        pass


def _check_location(uri: str, found: Location) -> None:
    assert not {"", ".", ".."} & set(found.segments), (uri, found)
    assert "/" not in "".join(found.segments), (uri, found)
    try:
        split = urlsplit(uri)
    except ValueError:
        return  # nobody is misled who refuses it
    assert split.scheme == found.scheme, (uri, found)
    if found.scheme != "file":
        assert split.netloc.lower() == found.host, (uri, found)
    # Whoever decodes once and resolves the dots comes to the same place; decoding again changes nothing.
    path = unquote(split.path, errors="strict")
    assert posixpath.normpath("/" + path.lstrip("/")) == found.path, (uri, found)
    assert unquote(path) == path or "%" in path, (uri, found)
    # Whoever resolves the dots before decoding may come to another place, but never out of an allowed one.
    if found.scheme == "file" and found.is_within(_ALLOWED):
        early = unquote(posixpath.normpath("/" + split.path.lstrip("/")))
        for reading in (early, posixpath.normpath(early), path):
            resolved = posixpath.normpath("/" + reading.lstrip("/"))
            assert resolved == "/workspace/open" or resolved.startswith("/workspace/open/"), (uri, reading)
    # The form is its own form.
    if found.scheme == "file" and "%" not in found.path and "?" not in found.path and "#" not in found.path:
        try:
            again = locate("file://" + found.path)
            assert (again.scheme, again.host, again.segments) == ("file", "", found.segments), (uri, found)
        except OddUri:
            assert " " in found.path, (uri, found)


def _check_url(text: str) -> None:
    try:
        url = parse_url(text)
    except ConfigError:
        return
    assert url.target.startswith(b"/"), text
    assert not set(url.target) & set(b" \r\n\t\0"), text
    assert not set(url.authority) & set(" \r\n\t\0/@?#"), text
    try:
        split = urlsplit(text)
        host, port = split.hostname, split.port
    except ValueError:
        return
    assert split.scheme == url.scheme, (text, url)
    if host is not None and host.isascii():
        assert host == url.host.lower(), (text, url, host)
    assert port is None or port == url.port, (text, url, port)
    try:
        maybe_proxy(url, {"http_proxy": text, "no_proxy": text})
    except ConfigError:
        pass
