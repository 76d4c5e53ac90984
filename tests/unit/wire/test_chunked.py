"""Chunked bodies: same body however cut, exact end, and nothing lenient."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import MalformedHttp
from penstock.wire.chunked import ChunkedReader


def read(*feeds: bytes) -> tuple[bytes, bool, bytes]:
    """The body, whether it is complete, and what was left over."""
    reader, pieces, rest = ChunkedReader(), [], b""
    for feed in feeds:
        if reader.is_done:
            rest += feed
            continue
        stop = reader.feed(feed, 0, pieces)
        rest += feed[stop:]
    return b"".join(pieces), reader.is_done, rest


def one_by_one(raw: bytes) -> list[bytes]:
    return [raw[i : i + 1] for i in range(len(raw))]


PARTS = st.lists(st.binary(min_size=1, max_size=40), max_size=5)
EXTENSIONS = st.sampled_from([b"", b";a", b";a=b", b' ; a="b c"', b";\xe9"])


@given(PARTS, EXTENSIONS, st.sampled_from([b"", b"X: y\r\n", b"Content-Length: 3\r\nA:\r\n"]), st.data())
def test_the_body_does_not_depend_on_how_the_bytes_arrive(parts, extension, trailers, data):
    raw = (
        b"".join(b"%X%b\r\n%b\r\n" % (len(p), extension, p) for p in parts) + b"000\r\n" + trailers + b"\r\n"
    )
    expected = (b"".join(parts), True, b"NEXT")
    assert read(raw + b"NEXT") == expected
    assert read(*one_by_one(raw + b"NEXT")) == expected
    cut = data.draw(st.integers(0, len(raw)))
    assert read(raw[:cut], raw[cut:] + b"NEXT") == expected


@given(PARTS)
def test_h11_writes_what_we_read(parts):
    peer = h11.Connection(h11.CLIENT)
    peer.send(
        h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Transfer-Encoding", "chunked")])
    )
    raw = b"".join(peer.send(h11.Data(data=part)) for part in parts) + peer.send(h11.EndOfMessage())
    assert read(raw) == (b"".join(parts), True, b"")


@pytest.mark.parametrize(
    "raw",
    [
        b"\r\n",
        b"x\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"+3\r\nabc\r\n",
        b"-1\r\n",
        b" 3\r\nabc\r\n",
        b"3 \r\nabc\r\n",
        b"3\nabc\r\n",
        b"3;a\nb\r\nabc\r\n",
        b"3;\0\r\nabc\r\n",
        b"3 a\r\nabc\r\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n",
        b"3\r\nabc\rX",
        b"3\r\nabc0\r\n\r\n",
        b"1" * 16 + b"\r\n",
        b"0\r\nno colon\r\n\r\n",
        b"0\r\nX: a\n\r\n",
        b"0\r\n X: a\r\n\r\n",
        b"0\n\n",
        b"3;" + b"a" * limits.CHUNK_LINE_BYTES + b"\r\n",
        b"0\r\n" + b"X: y\r\n" * limits.HTTP_HEAD_BYTES,
    ],
)
def test_malformed_chunks_are_refused(raw):
    with pytest.raises(MalformedHttp):
        read(raw)
    with pytest.raises(MalformedHttp):
        read(*one_by_one(raw))


def test_a_body_cut_off_is_not_done():
    for raw in (b"", b"3", b"3\r\n", b"3\r\nab", b"3\r\nabc\r\n", b"0\r\n", b"0\r\nX: y\r\n"):
        assert read(raw)[1] is False


def test_reading_starts_where_it_is_told():
    pieces: list[bytes] = []
    reader = ChunkedReader()
    data = b"HEAD3\r\nabc\r\n0\r\n\r\nNEXT"
    assert data[reader.feed(data, 4, pieces) :] == b"NEXT"
    assert pieces == [b"abc"]
