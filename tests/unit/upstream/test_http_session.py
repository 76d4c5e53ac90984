"""What an answer to initialize tells of the session, whatever else is in it."""

from __future__ import annotations

import pytest

from penstock.upstream.http_session import HttpSession


@pytest.mark.parametrize(
    ("raw", "version"),
    [
        (b'{"result":{"protocolVersion":"2025-06-18"}}', b"2025-06-18"),
        (b'{"result":{"protocolVersion":"2025\\n06"}}', None),
        (b'{"result":{"protocolVersion":""}}', None),
        (b'{"result":{"protocolVersion":5}}', None),
        (b'{"error":{"code":1,"message":"2025-06-18"}}', None),
        (b"2025-06-18", None),
        (b"\xff", None),
        (b'{"x":' + b"[" * 5_000 + b"]" * 5_000 + b',"result":{"protocolVersion":"2025-06-18"}}', None),
    ],
    ids=range(8),
)
def test_the_version_is_read_or_there_is_none(raw: bytes, version: bytes | None) -> None:
    session = HttpSession([])
    session.take_version(raw)
    assert session.version == version
