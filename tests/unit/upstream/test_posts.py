"""Requests under way at an HTTP upstream, found by ids that a double cannot tell apart."""

from __future__ import annotations

from gate_messages import client
from penstock.upstream.post import Post


def post(token: bytes) -> Post:
    message = client(b'{"jsonrpc":"2.0","id":%b,"method":"x"}' % token)
    return Post(message, [], False, False)


def test_large_ids_that_differ_by_one_are_two_requests() -> None:
    first, second = post(b"9007199254740992"), post(b"9007199254740993")
    assert first.key != second.key
    assert first.is_named_by(b"9007199254740992")
    # A server in JavaScript gives both back as the same number, each on the answer to its own request.
    assert second.is_named_by(b"9007199254740992")
    assert not post(b"1").is_named_by(b"2")
    assert not post(b"1").is_named_by(b'"1"')
