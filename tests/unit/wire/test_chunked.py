"""Chunked bodies: same body however cut, exact end, and nothing lenient."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import MalformedHttp
from penstock.wire.http.chunked import ChunkedReader


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
        b"0" * 15 + b"3\r\nabc\r\n0\r\n\r\n",
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


TOKENS = b"!#$%&'*+-.^_`|~09azAZ"


@pytest.mark.parametrize("byte", [bytes([byte]) for byte in TOKENS])
def test_a_trailer_may_be_called_what_a_header_may(byte: bytes) -> None:
    assert read(b"0\r\n" + byte + b":\t a\xff\r\n\r\n") == (b"", True, b"")


@pytest.mark.parametrize(
    "line", [b":x\r\n", b"a b: x\r\n", b"(: x\r\n", b"a: \x7f\r\n", b"a: \0\r\n", b"a\r\n"]
)
def test_what_is_no_trailer_is_refused(line: bytes) -> None:
    with pytest.raises(MalformedHttp, match=r"^Malformed trailer$"):
        read(b"0\r\n" + line + b"\r\n")


@pytest.mark.parametrize(
    "line", [b"3\t;a", b"3 \t ;", b"3;\ta\xff ~", b"a;", b"3;;=", b"F;x", b"000000000000003"]
)
def test_an_extension_is_checked_for_form_and_ignored(line: bytes) -> None:
    size = int(line.partition(b";")[0].strip(), 16)
    assert read(line + b"\r\n" + b"x" * size + b"\r\n0\r\n\r\n") == (b"x" * size, True, b"")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"3\r\nabcd\r\n", "Malformed end of a chunk"),
        (b"3\r\nabc\r\r", "Malformed end of a chunk"),
        (b"3g\r\n", "Malformed chunk size"),
        (b"3\r\r\n", "Malformed chunk size"),
        (b"3;\x7f\r\n", "Malformed chunk size"),
        (b"1" * 2_000, "Chunk line too long"),
        (b"0\r\nx\r\r\n", "Malformed trailer"),
    ],
)
def test_the_reason_says_what_was_wrong(raw: bytes, reason: str) -> None:
    for feeds in ([raw], one_by_one(raw)):
        with pytest.raises(MalformedHttp) as caught:
            read(*feeds)
        assert caught.value.reason == reason


@pytest.mark.parametrize("before", [b"", b"5\r\nhello\r\n" * 300])
def test_a_line_may_be_so_long_and_no_longer(before: bytes) -> None:
    """Wherever it begins in what was read, and however it is cut."""
    longest = b"3;" + b"a" * (limits.CHUNK_LINE_BYTES - 4) + b"\r\n"
    end = b"abc\r\n0\r\n\r\n"
    body = b"hello" * (len(before) // 10) + b"abc"
    assert read(before + longest + end) == (body, True, b"")
    assert read(*one_by_one(before + longest + end)) == (body, True, b"")
    with pytest.raises(MalformedHttp):
        read(before + b"3;a" + longest[2:] + end)
    with pytest.raises(MalformedHttp):
        read(before + b"3;", b"a" * limits.CHUNK_LINE_BYTES)


def test_trailers_may_be_as_long_as_a_head() -> None:
    line = b"X: " + b"y" * 95 + b"\r\n"
    count = limits.HTTP_HEAD_BYTES // len(line)
    rest = limits.HTTP_HEAD_BYTES - count * len(line)
    exact = line * (count - 1) + b"X: " + b"y" * (95 + rest) + b"\r\n"
    assert len(exact) == limits.HTTP_HEAD_BYTES
    assert read(b"0\r\n" + exact + b"\r\n")[1]
    with pytest.raises(MalformedHttp):
        read(b"0\r\n" + exact.replace(b"X: y", b"X: yy", 1) + b"\r\n")


def test_a_whole_piece_of_a_body_is_passed_on_without_a_copy() -> None:
    reader, pieces = ChunkedReader(), list[bytes]()
    reader.feed(b"10\r\n", 0, pieces)
    piece = b"0123456789abcdef"
    assert reader.feed(piece, 0, pieces) == 16
    assert pieces[0] is piece


def test_nothing_behind_the_last_chunk_is_a_chunk() -> None:
    for feeds in ((b"0\r\n", b"3\r\nabc\r\n\r\n"), (b"0\r\nX: y\r\n", b"3\r\nabc\r\n\r\n")):
        with pytest.raises(MalformedHttp, match="trailer"):
            read(*feeds)


def test_a_chunk_ends_where_its_size_says_and_nowhere_else_that_a_chunk_could_end() -> None:
    """Behind the last chunk's 0 as well: there, too, a line ends."""
    for size in range(1, 100):
        assert read(b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size)) == (b"x" * size, True, b"")
