"""The recording, format 1: JSON lines whose last member is the message verbatim, after its length.

Every line passes `jq`, and the bytes of every message can be had back exactly. JSON without line breaks
stands in `msg` as it came, other text in `text` (a JSON string), anything else in `b64`. What was sent
instead of a changed message stands before it in `out`, `outtext` or `outb64`, after its length `nout`.
"""

from __future__ import annotations

import base64

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.observe.record import Record, Session, Why, is_answered
from penstock.wire.json.ambiguity import readable

FORMAT = 1
KINDS = ("request", "notification", "response", "batch", "line", "http", "lost")
VERDICTS = ("pass", "change", "answer", "deny", "block", "drop", "refuse", "skip")

_encode = msgspec.json.Encoder().encode
_check = msgspec.json.Decoder(Raw).decode


class Header(Struct):
    """The first line of every run."""

    penstock: str
    v: int
    run: str = ""
    t: float = 0.0
    version: str = ""
    rules: str = ""
    masked: bool = False


class Lost(Struct):
    """How many records are missing, and which."""

    count: int
    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")


class Line(Struct):
    """One line of a recording, as it is read. Members that we do not know are ignored."""

    i: int = 0
    t: float = 0.0
    s: str = ""
    sender: str = msgspec.field(name="from", default="")
    kind: str = ""
    verdict: str = "pass"
    by: str = ""
    applied: list[str] | str = msgspec.field(name="rules", default="")
    why: str = ""
    code: int = 0
    us: int = 0
    re: int = 0
    batch: int = msgspec.field(name="in", default=0)
    status: int = 0
    era: str = ""
    client: str = ""
    variant: str = ""
    at: str = ""
    link: str = ""
    asked: str = ""
    headers: dict[str, str] = {}
    trace: str = ""
    nout: int = -1
    out: Raw | UnsetType = UNSET
    outtext: str | UnsetType = UNSET
    outb64: str | UnsetType = UNSET
    lost: Lost | None = None
    n: int = -1
    msg: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    b64: str | UnsetType = UNSET
    penstock: str = ""  # set in the header of a run only
    v: int = 0
    masked: bool = False
    run: str = ""

    @property
    def rules(self) -> list[str]:
        """The rules whose conditions held; in the header of a run their hash stands under the same name."""
        return self.applied if isinstance(self.applied, list) else []

    @property
    def raw(self) -> bytes:
        """The message, byte for byte as it came."""
        return _bytes_of(self.msg, self.text, self.b64)

    @property
    def sent(self) -> bytes | None:
        """What was sent instead of it, where it was changed."""
        return None if self.nout < 0 else _bytes_of(self.out, self.outtext, self.outb64)

    @property
    def is_whole(self) -> bool:
        """Whether the lengths are those of the bytes."""
        if self.penstock or self.kind == "lost":
            return self.b64 is UNSET  # they have no message
        if self.n != len(self.raw):
            return False
        return self.nout < 0 or self.nout == len(self.sent or b"")


def _bytes_of(value: Raw | UnsetType, text: str | UnsetType, b64: str | UnsetType) -> bytes:
    if value is not UNSET:
        return bytes(value)
    if text is not UNSET:
        return text.encode("utf-8", "surrogatepass")
    return base64.b64decode(b64) if b64 is not UNSET else b""


decode_line = msgspec.json.Decoder(Line).decode


def header_line(header: Header) -> bytes:
    """The line with which a run begins."""
    return _encode(header) + b"\n"


def lost_line(index: int, time: float, count: int, first: int, last: int) -> bytes:
    """The line that stands for records which could not be kept."""
    return b'{"i":%d,"t":%b,"from":"penstock","kind":"lost","lost":{"count":%d,"from":%d,"to":%d}}\n' % (
        index,
        _time(time),
        count,
        first,
        last,
    )


def encode_record(record: Record) -> list[bytes]:
    """The pieces of the record's line; the message is one of them, so that large ones are not copied."""
    kind, raw, sent = record.kind, record.raw, record.sent
    head = (
        f'{{"i":{record.index},"t":{record.received:.6f},"s":"{record.session.id}","from":"{record.sender}",'
        f'"kind":"{kind if kind != "other" else kind_of(record)}","verdict":"{record.verdict}"'
    )
    if record.why is not None:
        head += _reasons(record.why)
    if record.request is not None:
        head += f',"re":{record.request.index}'
    if record.batch is not None:
        head += f',"in":{record.batch.index}'
    if record.status:
        head += f',"status":{record.status}'
    session = record.session
    about = _known.get(session.id)
    if (
        about is None
        or about[0] is not session.era
        or about[1] is not session.client_name
        or about[3] is not session.variant
    ):
        about = _about(session)
    head += about[2]
    if record.headers:
        kept = kept_headers(record)
        head += f',"headers":{_encode(kept).decode()}' if kept else ""
    if record.trace:
        head += f',"trace":"{record.trace}"'
    is_plain = sent is None and kind != "other" and raw[:1] == b"{" and raw[-1:] == b"}"
    if is_plain and b"\n" not in raw and b"\r" not in raw and b"\\u" not in raw:  # nearly every message
        return [f'{head},"us":{record.micros},"n":{len(raw)},"msg":'.encode("utf-8", "replace"), raw, b"}\n"]
    pieces = [f'{head},"us":{record.micros}'.encode("utf-8", "replace")]
    if sent is not None and not is_answered(record):
        pieces.append(b',"nout":%d,' % len(sent))
        pieces += member_of(sent, b"out", False)
    pieces.append(b',"n":%d,' % len(raw))
    pieces += member_of(raw, b"", kind != "other")
    pieces.append(b"}\n")
    return pieces


def _reasons(why: Why) -> str:
    out = f',"by":{_text(why.rule)}' if why.rule else ""
    if why.rules:
        out += f',"rules":{_encode(why.rules).decode()}'
    if why.reason:
        out += f',"why":{_text(why.reason)}'
    return out + (f',"code":{why.code}' if why.code else "")


_About = tuple[object, str | None, str, str]
_known: dict[str, _About] = {}
_MOST_KNOWN = 100


def _about(session: Session) -> _About:
    """What a line says of its session, remembered with what it was made of."""
    out = f',"era":"{session.era.value}"' if session.era is not None else ""
    if session.client_name:
        out += f',"client":{_text(session.client_name)}'
    if session.variant:
        out += f',"variant":{_text(session.variant)}'
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    about = _known[session.id] = session.era, session.client_name, out, session.variant
    return about


KEPT_HEADERS = frozenset((b"content-type", b"mcp-protocol-version", b"mcp-method", b"mcp-name"))
"""Of an HTTP request, nothing else is ever kept: neither credentials nor cookies nor session ids."""


def kept_headers(record: Record) -> dict[str, str]:
    """The headers that may be kept of the request that brought a message."""
    return {
        name.decode("latin-1").lower(): value.decode("latin-1")
        for name, value in record.headers
        if name.lower() in KEPT_HEADERS
    }


def kind_of(record: Record) -> str:
    """What the message is, in the recording's words."""
    if record.kind != "other":
        return record.kind
    if record.raw.lstrip()[:1] == b"[":
        return "batch"
    return "line" if record.status is None else "http"  # a body that is no message


def member_of(raw: bytes, prefix: bytes, is_sound: bool) -> list[bytes]:
    """`raw` as the value of the member that can hold it."""
    is_one_value = raw[:1] not in _EDGES and raw[-1:] not in _EDGES and b"\n" not in raw and b"\r" not in raw
    if is_one_value and (_is_json(raw) if not is_sound else not _has_lone_half(raw)):
        return [b'"%b":' % (prefix or b"msg"), raw]
    try:
        return [b'"%btext":' % prefix, _encode(raw.decode())]
    except UnicodeDecodeError:
        return [b'"%bb64":"%b"' % (prefix, base64.b64encode(raw))]


def _has_lone_half(raw: bytes) -> bool:
    """Whether an escape in a message is half of a surrogate pair, which some readers of JSON refuse."""
    return b"\\u" in raw and readable(raw) is not raw


def _is_json(raw: bytes) -> bool:
    """Whether any reader of JSON takes `raw` for one value."""
    try:
        raw.decode()
        _check(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return raw.count(b"[") + raw.count(b"{") <= _SHALLOW or _depth(raw) <= _SHALLOW


_EDGES = (b"", b" ", b"\t")  # blanks round a value are no part of it to a reader of JSON
_SHALLOW = 250  # levels that every reader of JSON takes; jq ends at 256


def _depth(raw: bytes) -> int:
    """At least how deep `raw` may be nested, brackets in texts included."""
    depth = deepest = 0
    for byte in raw:
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _text(value: str) -> str:
    return _encode(value.encode("utf-8", "replace").decode()).decode()


def _time(value: float) -> bytes:
    return f"{value:.6f}".encode()
