"""Heads of HTTP messages: what is strict, what is kept, and what h11 and llhttp make of the same bytes."""

from __future__ import annotations

import h11
import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import MalformedHttp
from penstock.wire.http.http1 import (
    CHUNKED,
    UNTIL_CLOSE,
    build_request_head,
    build_response_head,
    end_to_end,
    find,
    find_all,
    read_request_head,
    read_response_head,
    status_line,
)

HEAD = b"POST /mcp?a=b HTTP/1.1\r\nHost: x:1\r\ncOnTent-tyPe:  application/json \t\r\nX: a\r\nX: b\r\n\r\n"


def request(*lines: bytes, first: bytes = b"POST / HTTP/1.1", host: bytes = b"Host: x") -> bytes:
    return b"\r\n".join([first, *([host] if host else []), *lines, b"", b""])


def test_a_head_keeps_case_and_order():
    head = read_request_head(HEAD)
    assert (head.method, head.target, head.length) == (b"POST", b"/mcp?a=b", 0)
    assert head.headers == [
        (b"Host", b"x:1"),
        (b"cOnTent-tyPe", b"application/json"),
        (b"X", b"a"),
        (b"X", b"b"),
    ]
    assert head.fields[b"content-type"] == b"application/json"
    assert head.fields[b"x"] == b"a, b"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([b"Content-Length: 1", b"Transfer-Encoding: chunked"], id="length-and-chunks"),
        pytest.param([b"Transfer-Encoding: chunked", b"Content-Length: 1"], id="chunks-and-length"),
        pytest.param([b"Transfer-Encoding: xchunked"], id="xchunked"),
        pytest.param([b"Transfer-Encoding: chunked, identity"], id="chunked-identity"),
        pytest.param([b"Transfer-Encoding: identity, chunked"], id="identity-chunked"),
        pytest.param([b"Transfer-Encoding: gzip, chunked"], id="gzip-chunked"),
        pytest.param([b"Transfer-Encoding: identity"], id="identity"),
        pytest.param([b"Transfer-Encoding:"], id="empty-coding"),
        pytest.param([b'Transfer-Encoding: "chunked"'], id="quoted"),
        pytest.param([b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"], id="chunked-twice"),
        pytest.param([b"Transfer-Encoding: chunked", b"transfer-encoding: x"], id="two-codings"),
        pytest.param([b"Transfer-Encoding: \x0bchunked"], id="vertical-tab"),
        pytest.param([b"Transfer-Encoding : chunked"], id="blank-before-colon"),
        pytest.param([b"Transfer-Encoding\t: chunked"], id="tab-before-colon"),
        pytest.param([b"X: y\nTransfer-Encoding: chunked"], id="behind-bare-lf"),
        pytest.param([b"X: y\rTransfer-Encoding: chunked"], id="behind-bare-cr"),
        pytest.param([b"Content-Length: 1", b"Content-Length: 1"], id="same-length-twice"),
        pytest.param([b"Content-Length: 1", b"content-length: 2"], id="two-lengths"),
        pytest.param([b"Content-Length: 1, 1"], id="list-of-lengths"),
        pytest.param([b"Content-Length: +1"], id="plus"),
        pytest.param([b"Content-Length: -1"], id="minus"),
        pytest.param([b"Content-Length: 0x1"], id="hex"),
        pytest.param([b"Content-Length: 1_0"], id="underscore"),
        pytest.param([b"Content-Length: 1 0"], id="blank-inside"),
        pytest.param([b"Content-Length:"], id="empty-length"),
        pytest.param(["Content-Length: ١".encode()], id="other-digits"),
        pytest.param([b"Content-Length: 99999999999999999999"], id="overflow"),
        pytest.param([b"X: a", b" folded"], id="obs-fold"),
        pytest.param([b"X: a", b"\tfolded: b"], id="obs-fold-tab"),
        pytest.param([b" X: a"], id="blank-first"),
        pytest.param([b"X: a\0b"], id="nul"),
        pytest.param([b"X: a\x01b"], id="control"),
        pytest.param([b"X: a\x7fb"], id="delete"),
        pytest.param([b"X\0: a"], id="nul-in-name"),
        pytest.param([b"X(y): a"], id="no-token"),
        pytest.param(["Ä: a".encode()], id="non-ascii-name"),
        pytest.param([b": a"], id="no-name"),
        pytest.param([b"no colon"], id="no-colon"),
        pytest.param([b"Ho st: a"], id="blank-in-name"),
        pytest.param([b"Host: y"], id="two-hosts"),
        pytest.param([b"host: x"], id="same-host-twice"),
    ],
)
def test_an_ambiguous_head_is_refused(lines):
    with pytest.raises(MalformedHttp) as caught:
        read_request_head(request(*lines))
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("first", "host"),
    [
        (b"POST / HTTP/1.1", b""),
        (b"POST / HTTP/1.1", b"Host: a b"),
        (b"POST / HTTP/1.1", b"Host: a, b"),
        (b"POST / HTTP/1.1", b"Host: user@a"),
        (b"POST / HTTP/1.1", b"Host: a/b"),
        (b"POST  / HTTP/1.1", b"Host: x"),
        (b"POST  HTTP/1.1", b"Host: x"),
        (b"POST / HTTP/1.1 ", b"Host: x"),
        (b"POST /a b HTTP/1.1", b"Host: x"),
        (b"POST /\t HTTP/1.1", b"Host: x"),
        (b"POST /\x80 HTTP/1.1", b"Host: x"),
        (b"POST / http/1.1", b"Host: x"),
        (b"POST / HTTP/1.2", b"Host: x"),
        (b"POST / HTTP/2.0", b"Host: x"),
        (b"POST / HTTP/01.1", b"Host: x"),
        (b"POST /", b"Host: x"),
        (b"post / HTTP/1.1", b"Host: x"),
        (b"P\0ST / HTTP/1.1", b"Host: x"),
        (b"POST mcp HTTP/1.1", b"Host: x"),
        (b"POST /a#b HTTP/1.1", b"Host: x"),
        (b"POST * HTTP/1.1", b"Host: x"),
        (b"POST ftp://x/ HTTP/1.1", b"Host: x"),
        (b"POST http://other/ HTTP/1.1", b"Host: x"),
        (b"POST ahttp://x/ HTTP/1.1", b"Host: x"),
        (b"POST http:///a HTTP/1.1", b"Host:"),
        (b"POST http://?a HTTP/1.0", b""),
        (b"OPTIONS mcp HTTP/1.1", b"Host: x"),
        (b"A" * 33 + b" / HTTP/1.1", b"Host: x"),
        (b"CONNECT x:443 HTTP/1.1", b"Host: x:443"),
        (b"\r\nPOST / HTTP/1.1", b"Host: x"),
    ],
)
def test_a_malformed_request_line_or_host_is_refused(first, host):
    with pytest.raises(MalformedHttp) as caught:
        read_request_head(request(first=first, host=host))
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"http://x", b"/"),
        (b"http://x/", b"/"),
        (b"HTTPS://X/a/b?c=d", b"/a/b?c=d"),
        (b"http://x?c", b"/?c"),
        (b"http://x?", b"/?"),
        (b"//x/y", b"//x/y"),
    ],
)
def test_an_absolute_target_is_reduced_to_its_path(target, path):
    assert read_request_head(request(first=b"GET " + target + b" HTTP/1.1")).target == path


def test_a_star_is_for_options_only():
    assert read_request_head(request(first=b"OPTIONS * HTTP/1.1")).target == b"*"
    assert read_request_head(request(first=b"OPTIONS http://x/a HTTP/1.1")).target == b"/a"


@pytest.mark.parametrize(
    "lines",
    [
        [b"Expect: 200-ok"],
        [b"Expect:"],
        [b"eXPECT: 100-continue, more"],
        [b"Expect: 100-continue", b"Expect: 100-continue"],
    ],
)
def test_only_one_thing_may_be_expected(lines: list[bytes]):
    with pytest.raises(MalformedHttp) as caught:
        read_request_head(request(*lines))
    assert (caught.value.reason, caught.value.status) == ("Unknown expectation", 417)


def test_what_http10_expects_is_ignored():
    head = read_request_head(request(b"Expect: 200-ok", first=b"POST / HTTP/1.0"))
    assert head.fields[b"expect"] == b"200-ok"
    assert read_request_head(request(b"Expect: 100-Continue")).fields[b"expect"] == b"100-Continue"


@pytest.mark.parametrize(
    ("version", "lines", "is_kept"),
    [
        (b"1.1", [], True),
        (b"1.1", [b"Connection: close"], False),
        (b"1.1", [b"Connection: Keep-Alive, CLOSE"], False),
        (b"1.1", [b"Connection: keep-alive", b"Connection: close"], False),
        (b"1.1", [b"Connection: upgrade"], True),
        (b"1.0", [], False),
        (b"1.0", [b"Connection: keep-alive"], True),
        (b"1.0", [b"Connection: Keep-Alive"], True),
        (b"1.0", [b"Connection: upgrade"], False),
    ],
)
def test_keep_alive_follows_version_and_connection(version, lines, is_kept):
    assert read_request_head(request(*lines, first=b"GET / HTTP/" + version)).is_kept_alive is is_kept


def test_http10_needs_no_host_and_has_no_chunks():
    assert read_request_head(request(first=b"GET / HTTP/1.0", host=b"")).is_http11 is False
    with pytest.raises(MalformedHttp):
        read_request_head(request(b"Transfer-Encoding: chunked", first=b"POST / HTTP/1.0"))


def test_lengths_are_read():
    assert read_request_head(request(b"Content-Length: 007")).length == 7
    assert read_request_head(request(b"Transfer-Encoding: Chunked")).length == CHUNKED


def test_what_stands_for_no_length_is_no_length():
    assert CHUNKED < 0
    assert UNTIL_CLOSE < 0
    assert CHUNKED != UNTIL_CLOSE


def test_too_many_headers_or_too_long_a_target():
    read_request_head(request(*[b"X: y"] * (limits.HTTP_HEADERS - 1)))
    with pytest.raises(MalformedHttp) as caught:
        read_request_head(request(*[b"X: y"] * limits.HTTP_HEADERS))
    assert caught.value.status == 431
    read_request_head(request(first=b"GET /" + b"a" * (limits.HTTP_TARGET_BYTES - 1) + b" HTTP/1.1"))
    with pytest.raises(MalformedHttp) as caught:
        read_request_head(request(first=b"GET /" + b"a" * limits.HTTP_TARGET_BYTES + b" HTTP/1.1"))
    assert caught.value.status == 414


NAMES = st.text("!#$%&'*+-.^_`|~09AZaz", min_size=1, max_size=8).map(str.encode)
VALUES = st.binary(max_size=12).map(lambda raw: bytes(b for b in raw if b >= 0x20 and b != 0x7F).strip(b" "))
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=6)


@given(FIELDS)
def test_what_we_write_h11_reads(fields):
    ours = {b"host", b"expect", b"connection", b"content-length", b"keep-alive", b"transfer-encoding"}
    fields = [(n, v) for n, v in fields if n.lower() not in ours]
    peer = h11.Connection(h11.SERVER)
    peer.receive_data(build_request_head(b"POST", b"/mcp", b"h:1", fields, b"Content-Length: 0\r\n"))
    event = peer.next_event()
    assert event.headers.raw_items() == [(b"Host", b"h:1"), *fields, (b"Content-Length", b"0")]


@given(FIELDS)
def test_what_we_write_we_read(fields):
    ours = {b"host", b"expect", b"connection", b"content-length", b"keep-alive", b"transfer-encoding"}
    fields = [(n, v) for n, v in fields if n.lower() not in ours]
    assert read_request_head(build_request_head(b"GET", b"/", b"h", fields, b"")).headers[1:] == fields
    head = read_response_head(build_response_head(200, fields, b"Content-Length: 3\r\n"))
    assert head.headers[:-1] == fields
    assert head.length == 3


class LlhttpRequest:
    """What llhttp reads: refused, or headers and whether a body is expected."""

    def __init__(self, raw: bytes) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False
        self.is_refused = False
        try:
            httptools.HttpRequestParser(self).feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError:
            self.is_refused = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value.strip(b" \t")))

    def on_message_complete(self) -> None:
        self.is_complete = True


PIECES = st.sampled_from(
    [b"Content-Length", b"Transfer-Encoding", b"X", b":", b": ", b" ", b"\t", b"\r\n", b"\n", b"\r", b"\0",
     b"0", b"5", b"chunked", b"identity", b",", b"+", b"\x80", b"Host", b"x", b"\r\n\r\n"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=14).map(b"".join))
def test_whatever_we_accept_llhttp_reads_the_same(block):
    raw = b"POST / HTTP/1.1\r\nHost: x\r\n" + block + b"\r\n\r\n"
    raw = raw[: raw.index(b"\r\n\r\n") + 4]
    try:
        head = read_request_head(raw)
    except MalformedHttp:
        return
    llhttp = LlhttpRequest(raw)
    assert not llhttp.is_refused
    assert llhttp.headers == head.headers
    assert llhttp.is_complete is (head.length == 0)


@given(st.lists(PIECES, max_size=14).map(b"".join))
def test_whatever_we_accept_h11_reads_the_same(block):
    raw = b"POST / HTTP/1.1\r\nHost: x\r\n" + block + b"\r\n\r\n"
    raw = raw[: raw.index(b"\r\n\r\n") + 4]
    try:
        head = read_request_head(raw)
    except MalformedHttp:
        return
    peer = h11.Connection(h11.SERVER)
    peer.receive_data(raw)
    assert peer.next_event().headers.raw_items() == head.headers


@pytest.mark.parametrize(
    ("lines", "is_head", "length"),
    [
        ([b"HTTP/1.1 200 OK", b"Content-Length: 5"], False, 5),
        ([b"HTTP/1.1 200", b"Content-Length: 5"], False, 5),
        ([b"HTTP/1.1 200 ", b"Content-Length: 5"], False, 5),
        ([b"HTTP/1.1 200 Tr\xc3\xa8s\tbien", b"Content-Length: 5"], False, 5),
        ([b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked"], False, CHUNKED),
        ([b"HTTP/1.1 200 OK"], False, UNTIL_CLOSE),
        ([b"HTTP/1.0 200 OK"], False, UNTIL_CLOSE),
        ([b"HTTP/1.1 204 No Content"], False, 0),
        ([b"HTTP/1.1 304 Not Modified", b"Content-Length: 5"], False, 0),
        ([b"HTTP/1.1 200 OK", b"Content-Length: 5"], True, 0),
        ([b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked"], True, 0),
        ([b"HTTP/1.1 100 Continue"], False, 0),
    ],
)
def test_the_length_of_a_response(lines, is_head, length):
    assert read_response_head(b"\r\n".join([*lines, b"", b""]), is_head).length == length


@pytest.mark.parametrize(
    "lines",
    [
        [b"HTTP/1.1 200 OK", b"Content-Length: 5", b"Transfer-Encoding: chunked"],
        [b"HTTP/1.1 200 OK", b"Content-Length: 5", b"Content-Length: 5"],
        [b"HTTP/1.1 200 OK", b"Content-Length: x"],
        [b"HTTP/1.1 200 OK", b"Transfer-Encoding: gzip"],
        [b"HTTP/1.1 200 OK", b"X: a", b" folded"],
        [b"HTTP/1.1 200 OK", b"X: a\nY: b"],
        [b"HTTP/1.0 200 OK", b"Transfer-Encoding: chunked"],
        [b"HTTP/1.1 20 OK"],
        [b"HTTP/1.1 099 OK"],
        [b"HTTP/2 200 OK"],
        [b"ICY 200 OK"],
        [b"HTTP/1.1 200 O\0K"],
    ],
)
def test_a_malformed_response_is_refused(lines):
    with pytest.raises(MalformedHttp):
        read_response_head(b"\r\n".join([*lines, b"", b""]))


def test_hop_by_hop_headers_are_not_passed_on():
    headers = [
        (b"Connection", b"close, X-Private"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Upgrade", b"h2c"),
        (b"TE", b"trailers"),
        (b"Proxy-Authorization", b"Basic eA=="),
        (b"Transfer-Encoding", b"chunked"),
        (b"Trailer", b"X"),
        (b"Mcp-Session-Id", b"s"),
        (b"Authorization", b"Bearer t"),
        (b"connection", b"other"),
    ]
    assert end_to_end(headers) == [(b"Mcp-Session-Id", b"s"), (b"Authorization", b"Bearer t")]


def test_headers_are_found_whatever_their_case():
    headers = [(b"A", b"1"), (b"B", b"2"), (b"a", b"3")]
    assert (find(headers, b"a"), find(headers, b"c")) == (b"1", None)
    assert find_all(headers, b"a") == [b"1", b"3"]


@pytest.mark.parametrize(
    "field",
    [(b"a\nb", b"c"), (b"a", b"b\r\nc: d"), (b"a", b"b\r"), (b"a", b"b\n"), (b"a", b"\0"), (b"\0", b"")],
)
def test_a_header_cannot_smuggle_a_line(field):
    with pytest.raises(ValueError):
        build_response_head(200, [field], b"")
    with pytest.raises(ValueError):
        build_request_head(b"GET", b"/", b"h", [field], b"")


@pytest.mark.parametrize("target", [b"/ x", b"/\r\nX: y", b"/\n", b"/\0"])
def test_a_target_cannot_smuggle_a_line(target):
    with pytest.raises(ValueError):
        build_request_head(b"GET", target, b"h", [], b"")


def test_the_framing_of_another_hop_gives_way_to_ours():
    theirs = [
        (b"content-LENGTH", b"9"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Connection", b"x"),
        (b"A", b"1"),
    ]
    assert build_response_head(200, theirs, b"Content-Length: 0\r\n") == (
        b"HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 0\r\n\r\n"
    )
    request_head = build_request_head(b"GET", b"/", b"h", [(b"hOST", b"evil"), *theirs], b"")
    assert request_head == b"GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\n\r\n"


def test_status_lines_have_the_usual_phrase():
    assert status_line(404) == b"HTTP/1.1 404 Not Found\r\n"
    assert status_line(599) == b"HTTP/1.1 599 \r\n"
    with pytest.raises(ValueError):
        status_line(42)


TOKENS = b"!#$%&'*+-.^_`|~09azAZ"


@pytest.mark.parametrize("byte", [bytes([byte]) for byte in TOKENS])
def test_every_character_of_a_token_may_name_a_header(byte: bytes) -> None:
    assert read_request_head(request(byte + b": x")).headers[-1] == (byte, b"x")


@pytest.mark.parametrize("byte", [bytes([byte]) for byte in b'"(),/;<=>?@[\\]{}\x7f\x80\xff \t\0'])
def test_no_other_character_may(byte: bytes) -> None:
    with pytest.raises(MalformedHttp, match=r"^Malformed header line$"):
        read_request_head(request(b"a" + byte + b"b: x"))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (b"", b""),
        (b" ", b""),
        (b"\t x \ty\t ", b"x \ty"),
        (b"\x80\xff~!", b"\x80\xff~!"),
        (b"a", b"a"),
        (b" :", b":"),
    ],
)
def test_blanks_around_a_value_are_no_part_of_it(written: bytes, value: bytes) -> None:
    assert read_request_head(request(b"A:" + written)).headers[-1] == (b"A", value)


@pytest.mark.parametrize("byte", [b"\0", b"\x01", b"\x1f", b"\x7f", b"\x0b", b"\r"])
def test_control_bytes_in_a_value_are_refused(byte: bytes) -> None:
    for value in (b"a" + byte, byte + b"a", b"a" + byte + b"a"):
        with pytest.raises(MalformedHttp, match=r"^Malformed header line$"):
            read_request_head(request(b"A: " + value))


@pytest.mark.parametrize(
    ("block", "reason", "status"),
    [
        (request(first=b"POST / HTTP/2.0"), "HTTP version not supported", 400),
        (request(first=b"POST / HTTP/1.2"), "HTTP version not supported", 400),
        (request(first=b"POST / HTTP/0.9"), "HTTP version not supported", 400),
        (request(first=b"M-SEARCH / HTTP/2.0"), "HTTP version not supported", 400),
        (request(first=b" / HTTP/2.0"), "Malformed request line", 400),
        (request(first=b"POST  HTTP/2.0"), "Malformed request line", 400),
        (request(first=b"\0POST / HTTP/2.0"), "Malformed request line", 400),
        (request(first=b"POST / HTTP/11.1"), "Malformed request line", 400),
        (request(first=b"POST / HTTP/1.1 "), "Malformed request line", 400),
        (request(first=b"POST  / HTTP/1.1"), "Malformed request line", 400),
        (request(first=b"post / HTTP/1.1"), "Malformed request line", 400),
        (request(first=b"POST /\x7f HTTP/1.1"), "Malformed request line", 400),
        (request(first=b"POST / HTTP/2.0\n"), "Malformed request line", 400),
        (
            request(first=b"POST /" + b"x" * limits.HTTP_TARGET_BYTES + b" HTTP/1.1"),
            "Request target too long",
            414,
        ),
        (request(*[b"A: b"] * limits.HTTP_HEADERS), "Too many headers", 431),
        (request(host=b""), "Missing host", 400),
        (request(host=b"Host: a b"), "Malformed host", 400),
        (request(host=b"Host: a/b"), "Malformed host", 400),
        (request(b"Host: y"), "Repeated host", 400),
        (request(b"Content-Length: 1", b"content-length: 1"), "Repeated content-length", 400),
        (request(b"Transfer-Encoding: chunked", b"Transfer-Encoding: x"), "Repeated transfer-encoding", 400),
        (
            request(b"Content-Length: 1", b"Transfer-Encoding: chunked"),
            "Both content-length and transfer-encoding",
            400,
        ),
        (request(b"Transfer-Encoding: gzip"), "Transfer-encoding other than chunked", 400),
        (request(b"Content-Length: 1x"), "Malformed content-length", 400),
        (request(b"Content-Length: " + b"1" * 19), "Malformed content-length", 400),
        (request(first=b"GET * HTTP/1.1"), "Malformed request target", 400),
        (request(first=b"GET /a#b HTTP/1.1"), "Malformed request target", 400),
        (request(first=b"GET ftp://x/ HTTP/1.1"), "Malformed request target", 400),
        (request(first=b"GET http://x/#b HTTP/1.1"), "Malformed request target", 400),
        (request(first=b"GET http://y/ HTTP/1.1"), "Request target and host differ", 400),
    ],
)
def test_a_refused_request_is_told_why(block: bytes, reason: str, status: int) -> None:
    with pytest.raises(MalformedHttp) as caught:
        read_request_head(block)
    assert (caught.value.reason, caught.value.status) == (reason, status)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([b"HTTP/1.1 200OK"], "Malformed status line"),
        ([b"xHTTP/1.1 200 OK"], "Malformed status line"),
        ([b"HTTP/1.2 200 OK"], "Malformed status line"),
        ([b"HTTP/1.1 2000 OK"], "Malformed status line"),
        ([b"HTTP/1.1 200 OK", b"Content-Length: 1", b"Content-Length: 1"], "Repeated content-length"),
        (
            [b"HTTP/1.1 200 OK", b"Transfer-Encoding: a", b"transfer-encoding: b"],
            "Repeated transfer-encoding",
        ),
        ([b"HTTP/1.1 200 OK", *[b"A: b"] * (limits.RESPONSE_HEADERS + 1)], "Too many headers"),
    ],
)
def test_a_refused_response_is_told_why(lines: list[bytes], reason: str) -> None:
    with pytest.raises(MalformedHttp) as caught:
        read_response_head(b"\r\n".join([*lines, b"", b""]))
    assert caught.value.reason == reason


def test_limits_on_heads_are_exact() -> None:
    assert (
        len(read_request_head(request(*[b"A: b"] * (limits.HTTP_HEADERS - 1))).headers) == limits.HTTP_HEADERS
    )
    target = b"/" + b"x" * (limits.HTTP_TARGET_BYTES - 1)
    assert read_request_head(request(first=b"GET %b HTTP/1.1" % target)).target == target
    block = b"\r\n".join([b"HTTP/1.1 200 OK", *[b"A: b"] * limits.RESPONSE_HEADERS, b"", b""])
    assert len(read_response_head(block).headers) == limits.RESPONSE_HEADERS
    assert read_request_head(request(b"Content-Length: " + b"1" * 18)).length == int(b"1" * 18)
    assert read_request_head(request(first=b"A" * 32 + b" / HTTP/1.1")).method == b"A" * 32
    assert read_request_head(request(first=b"A / HTTP/1.1")).method == b"A"
    assert read_request_head(request(first=b"M-SEARCH / HTTP/1.1")).method == b"M-SEARCH"


@pytest.mark.parametrize("host", [b"x", b"X-1.y_z:80", b"[::1]:8080", b"a~%20!$&'()*+;=", b"", b"09azAZ"])
def test_a_host_may_have_every_character_of_an_authority(host: bytes) -> None:
    assert read_request_head(request(host=b"Host: " + host)).fields[b"host"] == host


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"HTTP://X", b"/"),
        (b"https://x?q=1", b"/?q=1"),
        (b"http://x/a?b", b"/a?b"),
        (b"http://x/", b"/"),
        (b"hTTpS://x//a", b"//a"),
    ],
)
def test_an_absolute_target_gives_its_path(target: bytes, path: bytes) -> None:
    assert read_request_head(request(first=b"GET %b HTTP/1.1" % target)).target == path


def test_without_a_host_an_absolute_target_names_its_own() -> None:
    assert read_request_head(request(first=b"GET http://any/a HTTP/1.0", host=b"")).target == b"/a"


@pytest.mark.parametrize("name", [name.title() for name in (
    b"connection", b"expect", b"http2-settings", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
    b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
)])  # fmt: skip
def test_each_header_of_one_hop_stays_there(name: bytes) -> None:
    assert end_to_end([(b"A", b"1"), (name, b"x"), (b"B", b"2")]) == [(b"A", b"1"), (b"B", b"2")]


@pytest.mark.parametrize(
    "connection",
    [
        b"mcp-protocol-version",
        b"close, Mcp-Protocol-Version",
        b"keep-alive ,\tMCP-PROTOCOL-VERSION , x",
        b"host",
        b"close\r\nConnection: mcp-protocol-version",
    ],
)
def test_connection_takes_no_header_away_that_others_would_act_on(connection: bytes) -> None:
    lines = (b"MCP-Protocol-Version: 2026-07-28", b"Connection: " + connection)
    with pytest.raises(MalformedHttp, match="Connection names"):
        read_request_head(request(*lines))
    if b"host" not in connection:
        with pytest.raises(MalformedHttp, match="Connection names"):
            read_response_head(b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", b""]))


@pytest.mark.parametrize(
    "connection", [b"close", b"keep-alive", b"TE, close", b"upgrade, HTTP2-Settings", b"x"]
)
def test_connection_may_name_what_is_for_one_hop_and_what_is_not_there(connection: bytes) -> None:
    lines = (
        b"TE: trailers",
        b"Upgrade: h2c",
        b"HTTP2-Settings: A",
        b"Close: 1",
        b"Connection: " + connection,
    )
    assert end_to_end(read_request_head(request(*lines)).headers) == [(b"Host", b"x"), (b"Close", b"1")]


@pytest.mark.parametrize("name", [b"Connection", b"Content-Length", b"Keep-Alive", b"Transfer-Encoding"])
def test_what_we_say_of_the_connection_is_said_once(name: bytes) -> None:
    assert build_response_head(200, [(name, b"x")], b"F: 1\r\n") == b"HTTP/1.1 200 OK\r\nF: 1\r\n\r\n"
    wanted = b"GET / HTTP/1.1\r\nHost: h\r\nF: 1\r\n\r\n"
    for ours in (name, b"Host", b"Expect"):
        assert build_request_head(b"GET", b"/", b"h", [(ours, b"x")], b"F: 1\r\n") == wanted
    kept = build_response_head(200, [(b"Host", b"x"), (b"Expect", b"y")], b"")
    assert kept == b"HTTP/1.1 200 OK\r\nHost: x\r\nExpect: y\r\n\r\n"


@pytest.mark.parametrize("status", [100, 599, 999])
def test_any_status_of_three_digits_has_a_line(status: int) -> None:
    assert status_line(status).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize("status", [99, 1000, 0])
def test_no_other_number_is_a_status(status: int) -> None:
    with pytest.raises(ValueError, match=f"^not an HTTP status: {status}$"):
        status_line(status)


def test_what_cannot_be_written_is_said() -> None:
    with pytest.raises(ValueError, match=r"^a control byte in a header$"):
        build_response_head(200, [(b"A", b"b\r\nC: d")], b"")
    for method, target, host in (
        (b"GET X", b"/", b"h"),
        (b"GET", b"/", b"h\r\nA: b"),
        (b"GET", b"/\r", b"h"),
    ):
        with pytest.raises(ValueError, match=r"^a blank or control byte in a request line$"):
            build_request_head(method, target, host, [], b"")


def test_a_block_must_end_where_a_head_ends() -> None:
    for block in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\n",
        b"GET / HTTP/1.1\r\nHost: x\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
    ):
        with pytest.raises(MalformedHttp):
            read_request_head(block)


@pytest.mark.parametrize(
    ("lines", "is_kept"),
    [
        ([b"HTTP/1.1 200 OK", b"Content-Length: 1"], True),
        ([b"HTTP/1.1 200 OK", b"Content-Length: 1", b"Connection: close"], False),
        ([b"HTTP/1.1 200 OK"], False),
        ([b"HTTP/1.0 200 OK", b"Content-Length: 1"], False),
        ([b"HTTP/1.0 200 OK", b"Content-Length: 1", b"Connection: keep-alive"], True),
        ([b"HTTP/1.0 200 OK", b"Content-Length: 1", b"Connection: x, Keep-Alive"], True),
        ([b"HTTP/1.1 200 OK", b"Content-Length: 1", b"Connection: keep-alive, close"], False),
        ([b"HTTP/1.1 204 No Content"], True),
    ],
)
def test_a_connection_is_kept_when_its_end_is_not_the_bodys(lines: list[bytes], is_kept: bool) -> None:
    assert read_response_head(b"\r\n".join([*lines, b"", b""])).is_kept_alive is is_kept


@pytest.mark.parametrize("status", [100, 101, 199, 204, 304])
def test_some_answers_never_have_a_body(status: int) -> None:
    block = b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n" % status
    assert read_response_head(block).length == 0


@pytest.mark.parametrize("status", [200, 205, 303, 305])
def test_others_do(status: int) -> None:
    assert read_response_head(b"HTTP/1.1 %d X\r\nContent-Length: 5\r\n\r\n" % status).length == 5
