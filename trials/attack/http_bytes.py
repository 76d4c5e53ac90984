"""Section D of the threat catalogue: bytes on a connection that two readers of HTTP could take differently.

One table, fired in the name of a live session by `make attack` and by the tests.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator

from trials.attack.raw_http import JSON, Router, chunked
from trials.attack.rows import HttpBytes

MIB = 1024 * 1024
TE = JSON + b"Transfer-Encoding: chunked\r\n"
GATED = frozenset({200, 202})  # judged like any other call, and refused
# A member more for who decodes UTF-7, and the name in it is that of the denied tool.
ALL = 99  # responses: all until the connection ends
ANY = frozenset({400, 403, 404, 405, 406, 415, 501, 505})


def _says(row: str, what: str, more: bytes, *statuses: int) -> HttpBytes:
    """An honest call of the denied tool, but for what it says of itself."""
    return HttpBytes(row, what, lambda front: front.post(front.denied, more), frozenset(statuses))


def _in_utf7(what: str, *kinds: bytes) -> HttpBytes:
    """A call of an allowed tool, and of the denied one for who takes it for UTF-7, where +ACI- is a quote."""

    def build(front: Router) -> bytes:
        hidden = b'"arguments":{},"x":"+ACI-,+ACI-name+ACI-:+ACI-delete_file"'
        base = front.bare + (front.mirrored(b"echo") if front.is_modern else b"")
        more = b"".join(b"Content-Type: %b\r\n" % kind for kind in kinds)
        return front.post(front.allowed.replace(b'"arguments":{}', hidden), more, base=base)

    return HttpBytes("65", what, build, frozenset({415}))


def _packed(row: str, what: str, pack: Callable[[bytes], bytes], more: bytes, status: int) -> HttpBytes:
    return HttpBytes(row, what, lambda front: front.post(pack(front.denied), more), frozenset({status}))


def _mirrored(row: str, what: str, headers: bytes, *statuses: int) -> HttpBytes:
    """Headers that say of the body what it does not say."""
    return HttpBytes(
        row, what, lambda front: front.post(front.denied, JSON + headers, base=front.bare),
        frozenset(statuses), only="streamable",
    )  # fmt: skip


def _framed(row: str, what: str, frame: Callable[[bytes], bytes], *more: int) -> HttpBytes:
    """Framing that is legal, or nearly: the call is judged as in any other."""
    return HttpBytes(row, what, lambda front: front.open(frame(front.denied)), GATED | frozenset(more))


def _with_length(headers: bytes) -> Callable[[bytes], bytes]:
    return lambda body: b"%bContent-Length: %d\r\n\r\n%b" % (JSON + headers, len(body), body)


def _smuggles(row: str, what: str, rest: bytes) -> HttpBytes:
    """A request with another one, of the denied call, hidden behind it: one refusal, then the line is closed."""
    return HttpBytes(
        row, what, lambda front: front.open(rest + front.post(front.denied)),
        frozenset(range(400, 500)) | {501}, ALL,
    )  # fmt: skip


def _body(row: str, what: str, change: Callable[[bytes], bytes]) -> HttpBytes:
    return HttpBytes(row, what, lambda front: front.post(change(front.denied)), frozenset({400}))


def _bytewise(body: bytes) -> Iterator[bytes]:
    return (body[i : i + 1] for i in range(len(body)))


def _method(method: str) -> HttpBytes:
    def build(front: Router) -> bytes:
        # With the session's own id a GET would stream, and a DELETE end it: that is a client's right.
        base = front.base.replace(front.session.encode(), b"nobody") if front.session else front.base
        if method == "HEAD":
            base += b"Connection: close\r\n"
        target = front.target.split(b"?")[0]
        return front.post(front.denied, line=b"%b %b HTTP/1.1" % (method.encode(), target), base=base)

    return HttpBytes("74", f"{method} with a body", build, ANY | {204}, ALL if method == "HEAD" else 1)


def _path(path: str) -> HttpBytes:
    return HttpBytes(
        "75", f"the path {path}",
        lambda front: front.post(front.denied, line=b"POST %b HTTP/1.1" % path.encode()), ANY,
    )  # fmt: skip


def _host(host: str) -> HttpBytes:
    def build(front: Router) -> bytes:
        return front.post(front.denied).replace(
            b"Host: 127.0.0.1:%d" % front.port, b"Host: " + host.encode(), 1
        )

    return HttpBytes("81", f"the host {host or 'of no name'}", build, frozenset({400, 403}))


def _session(what: str, session: bytes | None, *statuses: int) -> HttpBytes:
    def build(front: Router) -> bytes:
        header = b"Mcp-Session-Id: %b\r\n" % front.session.encode()
        other = b"" if session is None else b"Mcp-Session-Id: %b\r\n" % session
        base = front.base.replace(header, other) if header in front.base else front.base + other
        line = None
        if front.client == "sse":
            target = front.target.replace(front.session.encode(), session or b"")
            line = b"POST %b HTTP/1.1" % target.replace(b" ", b"%20")
        return front.post(front.denied, line=line, base=base)

    # The newer era has no sessions: there the header says nothing, and the call is judged.
    return HttpBytes("82", what, build, frozenset(statuses) | GATED)


ATTACKS = [
    _mirrored("62", "headers name another method", b"Mcp-Method: tools/list\r\nMcp-Name: delete_file\r\n", 400),
    _mirrored("62", "headers name another tool", b"Mcp-Method: tools/call\r\nMcp-Name: echo\r\n", 400),
    _mirrored("62", "headers name another tool in base64",
              b"Mcp-Method: tools/call\r\nMcp-Name: =?base64?ZWNobw==?=\r\n", 400),
    _mirrored("62", "headers name two tools",
              b"Mcp-Method: tools/call\r\nMcp-Name: delete_file\r\nMcp-Name: echo\r\n", 400),
    _mirrored("62", "headers name two tools, echo first",
              b"Mcp-Method: tools/call\r\nMcp-Name: echo\r\nMcp-Name: delete_file\r\n", 400),
    _mirrored("62", "headers agree", b"Mcp-Method: tools/call\r\nMcp-Name: delete_file\r\n", 200),
    _mirrored("62", "headers agree in base64",
              b"Mcp-Method: tools/call\r\nMcp-Name: =?base64?ZGVsZXRlX2ZpbGU=?=\r\n", 200),
    *(
        HttpBytes("62", f"headers of a call round {what}",
                  lambda front, body=body: front.post(
                      body, JSON + b"Mcp-Method: tools/call\r\nMcp-Name: delete_file\r\n", base=front.bare),
                  frozenset({400}), only="streamable")
        for what, body in {
            "a response": b'{"jsonrpc":"2.0","id":7,"result":{}}',
            "a batch": b'[{"jsonrpc":"2.0","method":"notifications/x"}]',
        }.items()
    ),
    _mirrored("62", "headers say nothing", b"", 200, 400),
    *(
        _says("64", f"content type {kind or 'missing'}", b"Content-Type: %b\r\n" % kind.encode() if kind else b"", 415)
        for kind in (
            "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "",
            "application/jsonl", "application/json, text/plain",
        )
    ),
    _says("64", "two content types", JSON + b"Content-Type: text/plain\r\n", 400, 415),
    _says("65", "charset utf-16", b"Content-Type: application/json; charset=utf-16\r\n", 415),
    _says("65", "charset utf-7", b'Content-Type: application/json; charset="utf-7"\r\n', 415),
    *(
        _in_utf7("UTF-7, said as " + kind.replace("\t", "TAB"), b"application/json; " + kind.encode())
        for kind in (
            "charset=utf-7", "charset =utf-7", "charset= utf-7", "charset\t=\tutf-7", 'charset = "utf-7"',
            "charset=utf-8; charset=utf-7", "charset=utf-8; charset =utf-7", 'charset="utf-7"', "charset='utf-7'",
            "charset=utf-8 charset=utf-7", "charset*=us-ascii'en'utf-7", "charset*0=utf-; charset*1=7",
            'x="y; charset =utf-7"', 'x="y; charset =utf-7', 'x="\\"; charset =utf-7', "profile=x; charset =utf-7",
        )
    ),
    _in_utf7("UTF-7, in a second header", b"application/json; a=b", b"application/json; charset =utf-7"),
    _packed("66", "gzip", gzip.compress, JSON + b"Content-Encoding: gzip\r\n", 415),
    _packed("66", "deflate", zlib.compress, JSON + b"Content-Encoding: deflate\r\n", 415),
    _packed("66", "gzip twice", lambda body: gzip.compress(gzip.compress(body)),
            JSON + b"Content-Encoding: gzip, gzip\r\n", 415),
    _packed("66", "gzip without saying so", gzip.compress, JSON, 400),
    _packed("67", "a body that opens to 100 MB", lambda body: gzip.compress(body + b" " * (100 * MIB), 1),
            JSON + b"Content-Encoding: gzip\r\n", 415),
    _framed("68", "chunks cut in the name", lambda body: TE + b"\r\n" + chunked(body[:60], body[60:70], body[70:])),
    _framed("68", "chunks of one byte", lambda body: TE + b"\r\n" + chunked(*_bytewise(body))),
    _framed("69", "chunk extension", lambda body: TE + b"\r\n" + chunked(body, extension=b';name="echo"')),
    _framed("69", "trailers restate headers",
            lambda body: TE + b"\r\n" + chunked(body, trailer=b"Mcp-Name: echo\r\nContent-Length: 3\r\n"), 400),
    _smuggles("69", "chunk size in hex notation", TE + b"\r\n0x3\r\nabc\r\n0\r\n\r\n"),
    _smuggles("69", "chunks ended by LF", TE + b"\r\n3\nabc\n0\n\n"),
    _smuggles("69", "chunk of 2^68 bytes", TE + b"\r\nfffffffffffffffff\r\n"),
    _smuggles("69", "bytes after a chunk", TE + b"\r\n3\r\nabcX\r\n0\r\n\r\n"),
    _smuggles("70", "chunked, then a length", TE + b"Content-Length: 5\r\n\r\n0\r\n\r\n"),
    _smuggles("70", "a length, then chunked", b"Content-Length: 4\r\n" + TE + b"\r\n0\r\n\r\n"),
    _smuggles("70", "xchunked", JSON + b"Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
    _smuggles("70", "chunked, identity", JSON + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    _smuggles("70", "chunked twice", TE + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    _smuggles("70", "chunked behind a bare LF",
              JSON + b"X: y\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
    _smuggles("70", "chunked behind a vertical tab",
              JSON + b"Transfer-Encoding:\x0bchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
    _smuggles("71", "two lengths", JSON + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n"),
    _smuggles("71", "a list of lengths", JSON + b"Content-Length: 0, 5\r\n\r\n"),
    _smuggles("71", "length +0", JSON + b"Content-Length: +0\r\n\r\n"),
    _smuggles("71", "length -1", JSON + b"Content-Length: -1\r\n\r\n"),
    _smuggles("71", "length 0x0", JSON + b"Content-Length: 0x0\r\n\r\n"),
    HttpBytes("71", "length 0 with a body: the next request",
              lambda front: front.open(JSON + b"Content-Length: 0\r\n\r\n" + front.post(front.denied)),
              GATED | {400}, 2),
    _smuggles("72", "a folded header", JSON + b"X: a\r\n Content-Length: 5\r\nContent-Length: 0\r\n\r\n"),
    _smuggles("72", "a blank before the colon", JSON + b"Content-Length : 0\r\n\r\n"),
    _smuggles("72", "lines ended by LF", JSON + b"Content-Length: 0\n\n"),
    _smuggles("72", "NUL in a header", JSON + b"X: a\0b\r\nContent-Length: 0\r\n\r\n"),
    _smuggles("72", "CR in a header", JSON + b"X: a\rContent-Length: 9\r\nContent-Length: 0\r\n\r\n"),
    _smuggles("72", "a header without a colon", JSON + b"Content-Length\r\n\r\n"),
    *(
        HttpBytes("72", what, lambda front, raw=raw: raw, ANY, ALL, verdicts=("refused", "dropped"))
        for what, raw in {
            "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
            "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "binary": bytes(range(256)) * 4,
            "one line": b"hello\r\n\r\n",
            "HTTP/9.9": b"POST /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
            "blanks": b"POST  /mcp  HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "no host": b"POST /mcp HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            "two hosts": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nContent-Length: 0\r\n\r\n",
        }.items()
    ),
    HttpBytes("72", "a bare message", lambda front: front.denied + b"\n", ANY, ALL),
    _framed("73", "plain", _with_length(b"")),
    _framed("73", "Expect: 100-continue", _with_length(b"Expect: 100-continue\r\n")),
    HttpBytes("73", "three requests at once",
              lambda front: front.post(front.denied) * 3, GATED, 3),
    HttpBytes("73", "HTTP/1.0",
              lambda front: front.post(front.denied, line=b"POST %b HTTP/1.0" % front.target), GATED | {400}),
    HttpBytes("73", "an absolute target",
              lambda front: front.post(front.denied, line=b"POST http://127.0.0.1%b HTTP/1.1" % front.target),
              GATED | {400}),
    HttpBytes("73", "a query", lambda front: front.post(
                  front.denied, line=b"POST %b%bx=1 HTTP/1.1" % (front.target, b"&" if b"?" in front.target else b"?")),
              GATED | {400, 404}),
    *(_method(method) for method in "PUT PATCH GET DELETE OPTIONS HEAD TRACE CONNECT post".split()),
    _framed("74", "method override", _with_length(b"X-HTTP-Method-Override: GET\r\n")),
    *(
        _path(path)
        for path in (
            "//mcp /mcp/ /MCP /./mcp /x/../mcp /%6dcp /mcp%00 /mcp;x /mcp/../messages /sse /messages /messages/ "
            "/messages?sid=up-1 /message /mcp/message / * /admin /metrics /mcp%2f /.well-known/../mcp /.well-known/%2e%2e/mcp "
            "/.well-known/.%2e/mcp /.well-known/..;/mcp /.well-known/x\\..\\..\\mcp"
        ).split()
    ),
    _says("81", "a foreign origin", JSON + b"Origin: http://evil.example\r\n", 403),
    _says("81", "origin null", JSON + b"Origin: null\r\n", 403),
    _says("81", "two origins", JSON + b"Origin: http://localhost\r\nOrigin: http://evil.example\r\n", 400, 403),
    _says("81", "a look-alike origin", JSON + b"Origin: http://localhost.evil.example\r\n", 403),
    _says("81", "an origin with a user", JSON + b"Origin: http://localhost@evil.example\r\n", 403),
    _framed("81", "an origin of ours", _with_length(b"Origin: http://localhost:3000\r\n")),
    *(
        _host(host)
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "169.254.169.254")
    ),
    *(
        HttpBytes("81", f"{path} under a foreign host",
                  lambda front, path=path: b"GET %b HTTP/1.1\r\nHost: evil.example\r\n\r\n" % path.encode(),
                  frozenset({403}))
        for path in ("/sse", "/mcp", "/healthz", "/.well-known/x")
    ),
    _session("no session", None, 400, 404),
    _session("a session that never was", b"nobody", 404),
    _session("a session by guess", b"00000000000000000000000000000000", 404),
    _session("a session with a blank", b"no body", 400, 404),
    _session("a session beyond ASCII", b"nob\xc3\xb6dy", 400, 404),
    HttpBytes("87", "1,000 headers",
              lambda front: front.post(front.denied, JSON + b"".join(b"X-%d: y\r\n" % n for n in range(1000))),
              frozenset({400, 431}), ALL),
    HttpBytes("87", "a header of 1 MB", lambda front: front.post(front.denied, JSON + b"X: " + b"y" * MIB + b"\r\n"),
              frozenset({431}), ALL),
    HttpBytes("87", "a header name of 1 MB",
              lambda front: front.post(front.denied, JSON + b"y" * MIB + b": x\r\n"), frozenset({431}), ALL),
    HttpBytes("87", "a target of 100 kB", lambda front: front.post(
                  front.denied, line=b"POST %b?%b HTTP/1.1" % (front.target, b"x" * 100_000)),
              frozenset({414}), ALL),
    HttpBytes("21", "a body of 300 MB, announced",
              lambda front: front.open(JSON + b"Content-Length: %d\r\n\r\n" % (300 * MIB) + b" " * MIB),
              frozenset({413}), ALL),
    HttpBytes("21", "a body of 12 MB in chunks",
              lambda front: front.open(TE + b"\r\n" + (b"%x\r\n%b\r\n" % (MIB, b" " * MIB)) * 12),
              frozenset({413}), ALL),
    *(
        _says("62", f"Connection takes {name.decode()} away", JSON + b"X-Key: k\r\nConnection: %b\r\n" % name, 400)
        for name in (b"content-type", b"Host", b"close, content-length", b"keep-alive ,X-Key", b"x, x-key")
    ),
    *(
        _mirrored("62", f"Connection takes {name.decode()} away", b"Connection: %b\r\n" % name, 400)
        for name in (b"mcp-protocol-version", b"accept", b"close, ACCEPT")
    ),
    *(
        HttpBytes("90", f"{path} for an image on a page of another {site}",
                  lambda front, path=path, site=site:
                      b"GET %b HTTP/1.1\r\nHost: localhost\r\nAccept: image/*,*/*;q=0.8\r\n"
                      b"Sec-Fetch-Site: %b-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n\r\n"
                      % (path.encode(), site.encode()),
                  frozenset({403}))
        for path in ("/sse", "/mcp", "/messages", "/healthz", "/.well-known/x")
        for site in ("cross", "same")
    ),
    HttpBytes("90", "/sse for whoever takes anything",
              lambda front: b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n", frozenset({406})),
    HttpBytes("90", "a link on a page of another site",
              lambda front: b"GET /.well-known/x HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nCookie: a=b\r\n"
              b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\r\n", frozenset({403})),
    _says("90", "a simple post of a browser", b"Content-Type: text/plain\r\nOrigin: http://evil.example\r\n", 403),
    HttpBytes("90", "a preflight of a foreign page",
              lambda front: b"OPTIONS %b HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n"
              b"Access-Control-Request-Method: POST\r\n\r\n" % front.target.split(b"?")[0],
              frozenset({403, 405})),
    _body("23", "text that is no JSON", lambda body: b"tools/call delete_file"),
    _body("23", "nothing", lambda body: b""),
]  # fmt: skip
