"""What the head of a request means to MCP, whichever door reads it."""

from __future__ import annotations

import pytest

from penstock.downstream.mcp_head import (
    accepts,
    is_session_id,
    maybe_wrong_body,
    peer_of,
    read_head,
    wants_events,
)
from penstock.net.http_exchange import Request
from penstock.wire.mcp.eras import Era

JSON = (b"Content-Type", b"application/json")
BOTH = (b"Accept", b"application/json, text/event-stream")
NOT_ACCEPTABLE = (406, "Not acceptable: the client must accept application/json and text/event-stream")
NOT_JSON = (415, "Unsupported media type: Content-Type must be application/json")
NOT_UTF8 = (415, "Unsupported media type: JSON is UTF-8")
COMPRESSED = (415, "Unsupported media type: a compressed body is not read")


def request(*headers: tuple[bytes, bytes], peer: object = None) -> Request:
    fields = {name.lower(): value for name, value in headers}
    return Request(b"POST", b"/mcp", list(headers), b"", peer, 1, fields)


def test_a_plain_legacy_head() -> None:
    head = read_head(request(JSON, BOTH))
    assert head.era is Era.LEGACY
    assert head.version is None
    assert not head.is_version_repeated
    assert head.session is None
    assert not head.is_session_malformed
    assert head.wrong_body is None
    assert head.wrong_post is None
    assert head.wants_events
    assert not head.is_routed
    assert head.authorization is None
    assert head.principal == b""


def test_a_head_is_read_once_and_then_remembered_with_its_bytes() -> None:
    first = request(JSON)
    head = read_head(first)
    first.fields.clear()
    assert read_head(first) is head


def test_version_session_and_era_are_what_the_headers_say() -> None:
    head = read_head(
        request(JSON, BOTH, (b"MCP-Protocol-Version", b"2026-07-28"), (b"Mcp-Session-Id", b"abc"))
    )
    assert (head.era, head.version, head.session) == (Era.MODERN, "2026-07-28", b"abc")
    assert head.is_routed
    assert not head.is_version_repeated
    assert not head.is_session_malformed
    odd = read_head(request((b"MCP-Protocol-Version", b"2025-03-26,\xff"), (b"Mcp-Session-Id", b"a b")))
    assert odd.is_version_repeated
    assert odd.version == "2025-03-26,\ufffd"
    assert odd.is_session_malformed


@pytest.mark.parametrize("name", [b"Mcp-Method", b"Mcp-Name"])
def test_headers_that_repeat_the_body_are_looked_at_in_either_era(name: bytes) -> None:
    assert read_head(request(JSON, (name, b"x"))).is_routed


def test_whoever_shows_credentials_is_known_by_them_and_they_are_not_kept() -> None:
    shown = (b"Authorization", b"Bearer secret")
    head = read_head(request(shown))
    assert head.authorization == b"Bearer secret"
    assert len(head.principal) == 32
    assert head.principal is head.principal
    assert head.principal == read_head(request(shown, JSON)).principal
    assert head.principal != read_head(request((b"Authorization", b"Bearer other"))).principal


def test_whoever_was_let_in_by_name_is_known_by_it_and_not_by_what_it_shows() -> None:
    head = read_head(request((b"Authorization", b"Bearer secret")))
    head.caller = b"ci"
    other = read_head(request((b"Authorization", b"Bearer fresh")))
    other.caller = b"ci"
    assert head.principal == other.principal


@pytest.mark.parametrize(
    ("accept", "is_taken"),
    [
        (b"application/json, text/event-stream", True),
        (b"text/event-stream;q=0.5 ,APPLICATION/JSON ; q=1", True),
        (b"*/*", True),
        (b"text/*, application/*", True),
        (b"application/json", False),
        (b"text/event-stream", False),
        (b"", False),
    ],
)
def test_a_post_is_taken_from_clients_that_take_both_forms_of_its_answer(
    accept: bytes, is_taken: bool
) -> None:
    head = read_head(request(JSON, (b"Accept", accept)))
    assert head.wrong_post == (None if is_taken else NOT_ACCEPTABLE)
    assert head.wrong_body is None


def test_what_is_wrong_with_the_body_comes_before_what_is_wrong_with_its_answer() -> None:
    head = read_head(request((b"Content-Type", b"text/plain"), (b"Accept", b"image/png")))
    assert head.wrong_body == head.wrong_post == NOT_JSON
    assert read_head(request((b"Content-Type", b"text/plain"), BOTH)).wrong_post == NOT_JSON


@pytest.mark.parametrize(
    "kind",
    [
        b"application/json",
        b"Application/JSON",
        b"application/json;",
        b"application/json\t ;\t charset=utf-8",
        b"application/json; charset=UTF8 \t",
        b'application/json; charset="utf-8"',
        b'application/json; charset="utf8"',
        b"application/json; charset=us-ascii",
        b'application/json; charset="us-ascii"\t',
    ],
)
def test_json_in_utf_8_is_read(kind: bytes) -> None:
    assert maybe_wrong_body({b"content-type": kind}) is None


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (b"text/json", NOT_JSON),
        (b"application/jsonx", NOT_JSON),
        (b"x application/json", NOT_JSON),
        (b"application/json; charset=utf-16", NOT_UTF8),
        (b"application/json; charset=utf-8; charset=utf-7", NOT_UTF8),
        (b"application/json; charset = utf-8", NOT_UTF8),
        (b"application/json; charset*=utf-8", NOT_UTF8),
        (b"application/json; charset='utf-8'", NOT_UTF8),
        (b"application/json; charset=utf-8x", NOT_UTF8),
        (b'application/json; charset="us-ascii"x', NOT_UTF8),
        (b"application/json; boundary=x", NOT_UTF8),
    ],
)
def test_what_another_reader_could_decode_otherwise_is_refused(kind: bytes, why: tuple[int, str]) -> None:
    assert maybe_wrong_body({b"content-type": kind}) == why


def test_a_post_without_a_type_is_no_json() -> None:
    assert maybe_wrong_body({}) == NOT_JSON


@pytest.mark.parametrize(
    ("coding", "why"), [(b"identity", None), (b" Identity ", None), (b"gzip", COMPRESSED), (b"", COMPRESSED)]
)
def test_a_compressed_body_is_not_read(coding: bytes, why: tuple[int, str] | None) -> None:
    assert maybe_wrong_body({b"content-type": b"application/json", b"content-encoding": coding}) == why


def test_who_says_nothing_of_what_it_takes_takes_anything() -> None:
    assert accepts({}, b"text/event-stream")
    assert not accepts({b"accept": b"text"}, b"text/event-stream")
    assert not accepts({b"accept": b"application/*"}, b"text/event-stream")
    assert not accepts({b"accept": b"/*"}, b"text/event-stream")
    assert accepts({b"accept": b"image/png, text/*;q=0.1"}, b"text/event-stream")


@pytest.mark.parametrize(
    ("accept", "is_wanted"),
    [
        (b"text/event-stream", True),
        (b"image/png, Text/Event-Stream ;q=1", True),
        (b"*/*", False),
        (b"text/*", False),
        (b"text/event-stream-x", False),
    ],
)
def test_events_are_wanted_only_by_name(accept: bytes, is_wanted: bool) -> None:
    assert wants_events({b"accept": accept}) is is_wanted
    assert not wants_events({})


def test_a_session_id_is_visible_ascii_of_some_length() -> None:
    for good in (b"a", b"!", b"~", b"!~", b"x" * 1024):
        assert is_session_id(good), good
    for bad in (b"", b" ", b"\x7f", b"a b", b"\x20x", b"x\x7f", b"x" * 1025, b"\xe9"):
        assert not is_session_id(bad), bad


def test_a_peer_is_the_address_that_a_request_comes_from() -> None:
    assert peer_of(request(peer=("10.0.0.1", 4711))) == b"10.0.0.1"
    assert peer_of(request(peer="/run/socket")) == b""
    assert peer_of(request(peer=())) == b""
    assert peer_of(request(peer=None)) == b""
