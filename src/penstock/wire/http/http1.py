"""The heads of HTTP/1.1 messages, read strictly and written safely.

A head that two parsers could read differently is refused: folded lines, bare line feeds, blanks before
a colon, control bytes, two lengths, a length and chunks. What is accepted keeps its case and order.

Written by hand and not on llhttp, for two reasons. One pattern both checks and splits a head, in 4 us for
ten headers; llhttp with its callbacks takes 5, and our checks would come on top. And httptools does not say
where a message ends, but the next request on a connection must not be looked at before this one is done.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.errors import MalformedHttp

Headers = list[tuple[bytes, bytes]]

CHUNKED = -1
"""The body comes in chunks."""
UNTIL_CLOSE = -2
"""The body ends where the connection does."""

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"expect",  # answered by whoever reads the request, so for one hop only
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
"""Headers that speak of one connection only (RFC 9110, 7.6.1) and are never passed on."""

_OURS_IN_RESPONSES = frozenset((b"connection", b"content-length", b"keep-alive", b"transfer-encoding"))
_OURS_IN_REQUESTS = _OURS_IN_RESPONSES | {b"host", b"expect"}

_NAME = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_VALUE = rb"[\t\x20-\x7e\x80-\xff]"
_REQUEST_LINE = re.compile(rb"([A-Z][A-Z\-]{0,31}) ([\x21-\x7e]+) HTTP/1\.([01])\r\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: " + _VALUE + rb"*)?\r\n")
_FIELD = re.compile(
    rb"^(" + _NAME + rb"++):[\t ]*+((?:[\x21-\x7e\x80-\xff]++(?:[\t ]++(?!\r))?+)*+)[\t ]*+\r\n", re.MULTILINE
)
_HOST = re.compile(rb"[0-9A-Za-z._~%!$&'()*+;=:\[\]\-]*")
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?]+)([/?].*)?")


class Memo:
    """What somebody has found out from a head alone, kept with it for the next message that has it."""

    __slots__ = ("meaning",)

    def __init__(self) -> None:
        self.meaning: object = None


class RequestHead(Struct, frozen=True, gc=False):
    """The head of a request; `length` is of the body, or CHUNKED."""

    method: bytes
    target: bytes  # always a path, with its query, or *
    headers: Headers
    fields: dict[bytes, bytes]
    length: int
    is_http11: bool
    is_kept_alive: bool
    memo: Memo = msgspec.field(default_factory=Memo)


class ResponseHead(Struct, frozen=True, gc=False):
    """The head of a response; `length` is of the body, or CHUNKED or UNTIL_CLOSE."""

    status: int
    headers: Headers
    length: int
    is_kept_alive: bool
    memo: Memo = msgspec.field(default_factory=Memo)


CONTINUE = b"100-continue"
"""The one thing that a client may expect: to be told that its body is wanted."""


def read_request_head(block: bytes) -> RequestHead:
    """The request head in `block`, which ends with the empty line; strict."""
    line = _REQUEST_LINE.match(block)
    if line is None:
        raise MalformedHttp(_why_no_request_line(block))
    method, target, minor = line.groups()
    if len(target) > limits.HTTP_TARGET_BYTES:
        raise MalformedHttp("Request target too long", 414)
    is_http11 = minor == b"1"
    headers = _read_fields(block, line.end(), limits.HTTP_HEADERS)
    fields = {name.lower(): value for name, value in headers}
    if len(fields) != len(headers):
        fields = _joined_fields(headers)
        for name in (b"host", b"content-length", b"transfer-encoding"):
            if len(find_all(headers, name)) > 1:
                raise MalformedHttp(f"Repeated {name.decode()}")
    host = fields.get(b"host")
    if host is None:
        if is_http11:
            raise MalformedHttp("Missing host")
    elif _HOST.fullmatch(host) is None:
        raise MalformedHttp("Malformed host")
    if target[0] != 0x2F or b"#" in target:
        target = _reduce_target(method, target, host)
    if is_http11 and fields.get(b"expect", CONTINUE).lower() != CONTINUE:
        raise MalformedHttp("Unknown expectation", 417)
    length = _body_length(fields, is_http11)
    connection = fields.get(b"connection")
    is_kept_alive = is_http11 if connection is None else _is_kept_alive(connection, is_http11, fields)
    return RequestHead(
        method, target, headers, fields, 0 if length is None else length, is_http11, is_kept_alive
    )


def read_response_head(block: bytes, is_head_request: bool = False) -> ResponseHead:
    """The response head in `block`, which ends with the empty line; strict."""
    line = _STATUS_LINE.match(block)
    if line is None:
        raise MalformedHttp("Malformed status line")
    minor, code = line.groups()
    status = int(code)
    is_http11 = minor == b"1"
    headers = _read_fields(block, line.end(), limits.RESPONSE_HEADERS)
    fields = {name.lower(): value for name, value in headers}
    if len(fields) != len(headers):
        fields = _joined_fields(headers)
        for name in (b"content-length", b"transfer-encoding"):
            if len(find_all(headers, name)) > 1:
                raise MalformedHttp(f"Repeated {name.decode()}")
    length = _body_length(fields, is_http11)
    connection = fields.get(b"connection")
    is_kept_alive = is_http11 if connection is None else _is_kept_alive(connection, is_http11, fields)
    if is_head_request or status < 200 or status in (204, 304):
        length = 0
    elif length is None:
        length = UNTIL_CLOSE
        is_kept_alive = False
    return ResponseHead(status, headers, length, is_kept_alive)


def _read_fields(block: bytes, start: int, most: int) -> Headers:
    # Every match is one whole line, from just after a line feed to a CRLF. So when there are as many
    # matches as line feeds, but for the empty line at the end, each line is a well-formed field.
    count = block.count(b"\n", start) - 1
    if count > most:
        raise MalformedHttp("Too many headers", 431)
    headers: Headers = _FIELD.findall(block, start)
    if len(headers) != count or not block.endswith(b"\r\n"):
        raise MalformedHttp("Malformed header line")
    return headers


def _why_no_request_line(block: bytes) -> str:
    if re.match(rb"[A-Z\-]+ [\x21-\x7e]+ HTTP/[0-9]\.[0-9]\r\n", block):
        return "HTTP version not supported"
    return "Malformed request line"


def _joined_fields(headers: Headers) -> dict[bytes, bytes]:
    """Repeated fields as one value, as RFC 9110 5.3 has it: two Origins then match none that is allowed."""
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        key = name.lower()
        fields[key] = fields[key] + b", " + value if key in fields else value
    return fields


def _body_length(fields: dict[bytes, bytes], is_http11: bool) -> int | None:
    coding = fields.get(b"transfer-encoding")
    length = fields.get(b"content-length")
    if coding is not None:
        if length is not None:
            raise MalformedHttp("Both content-length and transfer-encoding")
        if coding.lower() != b"chunked" or not is_http11:
            raise MalformedHttp("Transfer-encoding other than chunked")
        return CHUNKED
    if length is None:
        return None
    if not length.isdigit() or len(length) > 18:
        raise MalformedHttp("Malformed content-length")
    return int(length)


def _reduce_target(method: bytes, target: bytes, host: bytes | None) -> bytes:
    if target == b"*" and method == b"OPTIONS":
        return target
    absolute = _ABSOLUTE.match(target)
    if absolute is None or b"#" in target:
        raise MalformedHttp("Malformed request target")
    authority, rest = absolute.groups()
    if host is not None and authority.lower() != host.lower():
        raise MalformedHttp("Request target and host differ")
    if not rest:
        return b"/"
    path: bytes = rest if rest[0] == 0x2F else b"/" + rest
    return path


def _is_kept_alive(connection: bytes, is_http11: bool, fields: dict[bytes, bytes]) -> bool:
    """Whether the connection lasts; refuses a Connection header that would take others away.

    What it names is not passed on (RFC 9110, 7.6.1). Were that Mcp-Session-Id or Content-Type, we should act
    on a header that the next reader never sees: request smuggling by the field.
    """
    if connection == b"keep-alive":
        return True
    tokens = _tokens(connection)
    for token in tokens:
        if token in fields and token not in HOP_BY_HOP and token != b"close":
            raise MalformedHttp("Connection names a header that is not for one hop only")
    return b"close" not in tokens and (is_http11 or b"keep-alive" in tokens)


def _tokens(value: bytes) -> list[bytes]:
    return [token.strip() for token in value.lower().split(b",")]


def find(headers: Headers, name: bytes) -> bytes | None:
    """The first value of `name` (given in lower case), or None."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return None


def find_all(headers: Headers, name: bytes) -> list[bytes]:
    """Every value of `name` (given in lower case), in order."""
    return [value for key, value in headers if key.lower() == name]


def end_to_end(headers: Headers) -> Headers:
    """`headers` without those meant for one connection only; a head where Connection names any other that it
    has was refused when it was read."""
    return [field for field in headers if field[0].lower() not in HOP_BY_HOP]


_REASONS = """
200 OK
201 Created
202 Accepted
203 Non-Authoritative Information
204 No Content
206 Partial Content
301 Moved Permanently
302 Found
303 See Other
304 Not Modified
307 Temporary Redirect
308 Permanent Redirect
400 Bad Request
401 Unauthorized
402 Payment Required
403 Forbidden
404 Not Found
405 Method Not Allowed
406 Not Acceptable
408 Request Timeout
409 Conflict
410 Gone
411 Length Required
412 Precondition Failed
413 Content Too Large
414 URI Too Long
415 Unsupported Media Type
416 Range Not Satisfiable
417 Expectation Failed
421 Misdirected Request
422 Unprocessable Content
425 Too Early
426 Upgrade Required
428 Precondition Required
429 Too Many Requests
431 Request Header Fields Too Large
451 Unavailable For Legal Reasons
500 Internal Server Error
501 Not Implemented
502 Bad Gateway
503 Service Unavailable
504 Gateway Timeout
505 HTTP Version Not Supported
"""
"""As in IANA's registry. Not from the module `http`, which may have to load when no file can be opened."""

_STATUS_LINES = {int(line[:3]): f"HTTP/1.1 {line}\r\n".encode() for line in _REASONS.split("\n") if line}


def status_line(status: int) -> bytes:
    """The first line of a response, with the usual reason phrase."""
    line = _STATUS_LINES.get(status)
    if line is None:
        if not 100 <= status <= 999:
            raise ValueError(f"not an HTTP status: {status}")
        return b"HTTP/1.1 %d \r\n" % status
    return line


def build_response_head(status: int, headers: Headers, framing: bytes) -> bytes:
    """A response head. What `headers` say of length and connection gives way to `framing`."""
    return response_start(status, headers) + framing + b"\r\n"


def response_start(status: int, headers: Headers) -> bytes:
    """A response head but for its framing and the empty line."""
    return status_line(status) + _field_block(headers, _OURS_IN_RESPONSES)


def build_request_head(method: bytes, target: bytes, host: bytes, headers: Headers, framing: bytes) -> bytes:
    """A request head. What `headers` say of host, length and connection gives way to ours."""
    return request_start(method, target, host, headers) + framing + b"\r\n"


def request_start(method: bytes, target: bytes, host: bytes, headers: Headers) -> bytes:
    """A request head but for its framing and the empty line."""
    line = b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (method, target, host)
    if line.count(b" ") != 3 or line.count(b"\n") != 2 or line.count(b"\r") != 2 or b"\0" in line:
        raise ValueError("a blank or control byte in a request line")
    return line + _field_block(headers, _OURS_IN_REQUESTS)


def field_lines(headers: Headers) -> bytes:
    """More lines for a response that has a start already."""
    return _field_block(headers, _OURS_IN_RESPONSES)


def _field_block(headers: Headers, ours: frozenset[bytes]) -> bytes:
    lines = [name + b": " + value for name, value in headers if name.lower() not in ours]
    if not lines:
        return b""
    lines.append(b"")
    block = b"\r\n".join(lines)
    ends = len(lines) - 1
    if block.count(b"\n") != ends or block.count(b"\r") != ends or b"\0" in block:
        raise ValueError("a control byte in a header")
    return block
