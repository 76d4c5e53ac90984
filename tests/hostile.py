"""Client and upstream bytes that are hostile by construction.

Everything is decided by one row of bytes, so that hypothesis and a coverage-guided fuzzer can both drive it,
and a finding is that row. A zero byte, or none, is always the plain choice: short rows make plain messages.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

ALLOWED = ("echo", "read_file", "tōols")
DENIED = ("write_file", "delete_file")
UNSPOKEN = "delete_vault_7f3a"
"""A denied tool that no client here ever names: where it shows up, the gate itself has told of it."""
DENY = "^(write|delete)_"

_Item = TypeVar("_Item")


class Choices:
    """Decisions, read from a row of bytes."""

    def __init__(self, row: bytes) -> None:
        self._row = row
        self._at = 0
        self.is_wild = False  # whether what comes out may be no JSON at all
        self.depth = 0  # messages within messages so far
        self.is_modern = False  # whether every call should carry what the modern era asks for

    def byte(self) -> int:
        """The next byte, 0 after the last one."""
        self._at += 1
        return self._row[self._at - 1] if self._at <= len(self._row) else 0

    def below(self, count: int) -> int:
        """A number from 0 up to, not including, `count`."""
        return self.byte() % count

    def pick(self, items: Sequence[_Item]) -> _Item:
        """One of `items`; the first is the plain one."""
        return items[self.below(len(items))]

    def rarely(self, one_in: int) -> bool:
        """True about once in `one_in` times."""
        return self.byte() % one_in == one_in - 1

    def blob(self, most: int) -> bytes:
        """Up to `most` bytes as they come."""
        return bytes(self.byte() for _ in range(self.below(most + 1)))

    def wildly(self, one_in: int) -> bool:
        """The same, but never while the bytes should stay JSON."""
        return self.rarely(one_in) and self.is_wild

    def shuffled(self, items: Sequence[_Item]) -> list[_Item]:
        """`items` in another order, sometimes."""
        out = list(items)
        if self.rarely(3):
            random.Random(self.byte()).shuffle(out)
        return out


def row_of(seed: int, length: int = 192) -> bytes:
    """A row that anybody can make again."""
    return random.Random(seed).randbytes(length)


# --- texts --------------------------------------------------------------------------------------------

_LOOK_ALIKES = {
    "s": "ſＳS",
    "k": "\u212aK",
    "n": "ｎN",
    "m": "ᵐM",
    "e": "ｅE",
    "/": "／",
    "t": "ｔT",
    "i": "Iİ",
}
_INSERTS = (
    *(
        "\0",
        " ",
        "\0",
        "\u200b",
        "\u2028",
        "\u2029",
        "\x85",
        "\ufeff",
        "\u00ad",
        "\0",
        " ",
        "\t",
        "\r",
        "\n",
        "\x0b",
        "\x0c",
    ),
    *("\x1c", "\x1e", "\u202e", "\ufe0f", "\u0301", "\x7f", "\ud800", "\udc00", "\U0001f600", "\\", '"', "/"),
)
_RAW_BYTES = (
    b"\xff",
    b"\xc0\xae",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\x80",
    b"\0",
    b"\r",
    b"\n",
    b"\x1f",
    b"\xc3",
)


def text(choose: Choices, plain: str) -> bytes:
    """A JSON string that says `plain`, nearly, or in another spelling."""
    trick = choose.below(24)
    if trick >= 12 or (trick >= 10 and not choose.is_wild):
        return json.dumps(plain, ensure_ascii=trick % 2 == 0).encode()
    if trick < 4:
        return json.dumps(plain).encode()
    if trick == 4:
        return _escaped(choose, plain)
    if trick == 5 and plain:
        place = choose.below(len(plain))
        other = choose.pick(_LOOK_ALIKES.get(plain[place].lower(), plain[place].upper() or "x"))
        plain = plain[:place] + other + plain[place + 1 :]
    elif trick == 6:
        plain = choose.pick([plain.upper(), plain.title(), plain + " ", " " + plain, plain.swapcase()])
    elif trick in (7, 8):
        place = choose.pick([len(plain), 0, choose.below(len(plain) + 1)])
        plain = plain[:place] + choose.pick(_INSERTS) + plain[place:]
    elif trick == 9:
        place = choose.below(len(plain) + 1)
        half = choose.pick([b"\\ud800", b"\\udc00", b"\\uDBFF", b"\\ud83d\\ude00", b"\\ud800\\u0041"])
        return b'"' + plain[:place].encode() + half + plain[place:].encode() + b'"'
    elif trick == 10:
        place = choose.below(len(plain) + 1)
        return b'"' + plain[:place].encode() + choose.pick(_RAW_BYTES) + plain[place:].encode() + b'"'
    elif trick == 11:
        return choose.pick([b"'%b'", b"%b", b'"%b', b'""%b"', b'"%b\\"']) % plain.encode()
    if choose.rarely(2) and (choose.is_wild or plain.isprintable()):
        return b'"' + plain.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "surrogatepass") + b'"'
    return json.dumps(plain).encode()


def _escaped(choose: Choices, plain: str) -> bytes:
    out = b""
    for char in plain:
        if char == "/" and choose.rarely(2):
            out += b"\\/"
        elif ord(char) < 0x10000 and choose.rarely(2):
            out += choose.pick(
                [b"\\u%04x", b"\\u%04X", b"\\U%04x"] if choose.rarely(9) else [b"\\u%04x"]
            ) % ord(char)
        else:
            out += char.encode()
    return b'"' + out + b'"'


# --- values -------------------------------------------------------------------------------------------

_NUMBERS = (
    *(b"1", b"12", b"0", b"-0", b"1.0", b"1e0", b"1E+2", b"-1", b"1e400", b"-1e-400", b"9007199254740993"),
    *(
        b"123456789012345678901234567890",
        b"1.5",
        b"10",
        b"01",
        b"+1",
        b"1.",
        b".5",
        b"0x10",
        b"NaN",
        b"Infinity",
    ),
    *(b"-", b"1_0", b"1e", b"--1", b"\xd9\xa1"),
)
_WORDS = (b"null", b"true", b"false", b"{}", b"[]", b"nul", b"True", b"undefined", b"None", b"")


def number(choose: Choices) -> bytes:
    """A number in some form."""
    return choose.pick(_NUMBERS if choose.is_wild else _NUMBERS[:14])


def value(choose: Choices, depth: int = 0) -> bytes:
    """Any value, for a place where the gate has no business."""
    kind = choose.below(12)
    if kind < 3:
        return text(choose, choose.pick(["x", "", *DENIED, "tools/call", "a\u2028b", "\x85", "line\r\nline"]))
    if kind < 5:
        return number(choose)
    if kind == 5:
        return choose.pick(_WORDS if choose.is_wild else _WORDS[:5])
    if kind in (6, 7):
        if choose.depth == 2:
            return b"1"
        choose.depth += 1
        inner = call(choose, choose.pick(DENIED))  # a message in a message is only content
        choose.depth -= 1
        if kind == 7:
            return json.dumps(inner.decode("utf-8", "replace")).encode()
        edge = choose.pick([b"", b"\r", b"\r\n", b"\n"])  # where some reader ends a line, it stands alone
        return edge + inner + edge
    if kind == 8:
        levels = choose.pick([3, 4, 5, 6, 7, 8, 60, 100, 123, 124, 125, 126, 140, 1000])
        opening, closing = choose.pick([(b"[", b"]"), (b'{"a":', b"}"), (b'[{"":', b"}]")])
        levels //= 2 if len(closing) == 2 else 1
        return opening * levels + b"1" + closing * (levels - choose.wildly(6))
    if depth > 2:
        return b"1"
    if kind < 11:
        return _object(
            choose, [(choose.pick(_DEEP_KEYS), value(choose, depth + 1)) for _ in range(choose.below(4))]
        )
    return b"[" + b",".join(value(choose, depth + 1) for _ in range(choose.below(4))) + b"]"


_DEEP_KEYS = ("a", "name", "method", "params", "progressToken", "__proto__", "tools", "", "a")


# --- objects ------------------------------------------------------------------------------------------

_BLANKS = (b"", b"", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\n\n")
_NOT_BLANKS = (
    b"\x0b",
    b"\x0c",
    b"\0",
    b"\xc2\xa0",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"/**/",
    b"\xef\xbb\xbf",
    b"\x1e",
)

Member = tuple[str, bytes]


def _object(choose: Choices, members: Sequence[Member], trickery: int = 40) -> bytes:
    """An object with these members, in some order and spelling."""
    blank = _blank(choose)
    rows = []
    for name, raw in choose.shuffled(members):
        key = text(choose, name) if choose.rarely(trickery) else json.dumps(name).encode()
        rows.append(key + blank + b":" + blank + raw)
    joint = b"," + blank
    if choose.wildly(20):
        joint = choose.pick([b",,", b";", b"", b":"])
    end = choose.pick([b",", b",}", b"]", b""]) if choose.wildly(20) else b""
    return b"{" + blank + joint.join(rows) + blank + end + b"}"


def _blank(choose: Choices) -> bytes:
    if choose.wildly(12):
        return choose.pick(_NOT_BLANKS)
    return choose.pick(_BLANKS) if choose.rarely(3) else b""


def _with_doubles(choose: Choices, members: list[Member], other: Callable[[str], bytes]) -> list[Member]:
    """`members`, sometimes with one of them twice, the second with another value."""
    while choose.rarely(8):
        name = choose.pick(members)[0]
        place = choose.below(len(members) + 1)
        members.insert(place, (choose.pick([name, name, name.title(), name.upper()]), other(name)))
    return members


# --- what a client sends ------------------------------------------------------------------------------

_METHODS = (
    "tools/call",
    "tools/call",
    "tools/call",
    "tools/list",
    "ping",
    "notifications/x",
    "tasks/get",
    "x/tools",
)
META = (
    b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},'
    b'"io.modelcontextprotocol/clientCapabilities":{}%b}'
)


def call(choose: Choices, tool: str | None = None, method: str = "tools/call") -> bytes:
    """A call, more or less."""
    name = tool if tool is not None else choose.pick([*ALLOWED, *DENIED, *DENIED, "nowhere", ""])

    def other_param(key: str) -> bytes:
        return text(choose, choose.pick([*DENIED, *ALLOWED])) if key == "name" else value(choose)

    members: list[Member] = [("name", text(choose, name))]
    if choose.rarely(25):
        members = [("name", value(choose))]
    members.append(("arguments", _object(choose, [("x", value(choose))]) if choose.below(3) else b"{}"))
    if choose.rarely(3) or choose.is_modern:
        members.append(("_meta", _meta(choose)))
    if choose.rarely(6):
        members.append(("task", choose.pick([b'{"ttl":1}', b"{}", b"null", b'{"name":"write_file"}'])))
    if choose.rarely(8):
        members.append(
            (choose.pick(["extra", "__proto__", "uri", "cursor", "constructor", "tool"]), value(choose))
        )
    params = _object(choose, _with_doubles(choose, members, other_param))
    if choose.rarely(30):
        params = choose.pick(
            [b"null", b"[]", b'["write_file",{}]', b'"write_file"', b"5", b"[" + params + b"]"]
        )

    def other(key: str) -> bytes:
        if key == "params":
            return _object(choose, [("name", text(choose, choose.pick([*DENIED, *ALLOWED])))])
        if key == "method":
            return text(choose, choose.pick(_METHODS))
        return number(choose) if key == "id" else b'"2.0"'

    token = choose.pick(_NUMBERS[:3])
    if choose.rarely(9):
        token = choose.pick([number(choose), b'"i"', b"null", b"true", b"[1]"])
    envelope: list[Member] = [
        ("jsonrpc", b'"2.0"'),
        ("id", token),
        ("method", text(choose, method)),
        ("params", params),
    ]
    if choose.rarely(30):
        envelope[0] = ("jsonrpc", choose.pick([b'"2.0"', b"2.0", b'"1.0"', b'"\\u0032.0"', b"null"]))
    if choose.rarely(20):
        del envelope[choose.below(4)]
    if choose.rarely(12):
        extra = choose.pick(
            ["result", "error", "result", "__proto__", "extra", "name", "arguments", "constructor"]
        )
        envelope.append(
            (
                extra,
                choose.pick([params, b"{}", b"1", b'{"method":"tools/call","params":{"name":"write_file"}}']),
            )
        )
    return _object(choose, _with_doubles(choose, envelope, other) if envelope else envelope)


def _meta(choose: Choices) -> bytes:
    extras: list[Member] = [
        ("progressToken", choose.pick([b"1", b'"t"', b"123456789", b"{}", b'{"a":1}', b'"\\ud800"']))
    ]
    extras += [(choose.pick(_DEEP_KEYS), value(choose, 2)) for _ in range(choose.below(3))]
    if choose.rarely(2):
        extras.append(choose.pick(extras))
    more = _object(choose, choose.shuffled(extras))[1:-1]
    return META % (b"," + more if more.strip() else b"")


def message(choose: Choices) -> bytes:
    """One thing that a client sends: a call, a batch, several things that pose as one, or just bytes."""
    choose.is_wild = choose.rarely(3)
    if choose.wildly(12):
        return choose.blob(80)
    if choose.rarely(30):
        return _heir(choose)
    raw = call(choose, method=choose.pick(_METHODS) if choose.rarely(3) else "tools/call")
    if choose.rarely(8):
        parts = [raw, *(call(choose) for _ in range(choose.below(3)))]
        if choose.rarely(4):
            odd = choose.pick(
                [b"[%b]" % call(choose, choose.pick(DENIED)), b"[%b]" % raw, b"1", b"[]", b"null"]
            )
            parts.insert(choose.below(len(parts) + 1), odd)
        raw = b"[" + _blank(choose) + (b"," + _blank(choose)).join(parts) + b"]"
    if choose.rarely(14):
        joint = choose.pick(
            [
                b"",
                b" ",
                b",",
                b"\r",
                b"\0",
                b"\x1e",
                b"\xc2\x85",
                b"\xe2\x80\xa8",
                b"\r\n",
                b"\x0c",
                b"garbage",
            ]
        )
        second = call(choose, choose.pick(DENIED))
        raw = raw + joint + second if choose.rarely(2) else second + joint + raw
    if choose.rarely(40):
        raw = choose.pick([b"\xef\xbb\xbf", b"\0", b"\x1e", b"\xfe\xff", b")]}',\n", b"data: ", b" \r"]) + raw
    if choose.wildly(12):
        coding = choose.pick(["utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-7", "latin-1"])
        raw = raw.decode("utf-8", "replace").encode(coding, "replace")
    while choose.wildly(5):
        raw = _disturbed(choose, raw)
    return raw


def interference(choose: Choices, number: int) -> bytes:
    """What a client of a shared link might say of `number`, which is somebody else's request there."""
    choose.is_wild = choose.rarely(4)
    aim = choose.pick([b"%d", b'"%d"', b"%d.0", b"%de0", b"[%d]", b'{"requestId":%d}']) % number

    def member(name: str) -> bytes:
        if choose.rarely(8):
            return b'"%b":{"%b":%b}' % (choose.pick([b"__proto__", b"constructor"]), name.encode(), aim)
        return text(choose, choose.pick([name, name, name.lower(), name.upper(), name + " "])) + b":" + aim

    method = choose.pick(
        ["notifications/cancelled", "tools/call", "notifications/progress", "x/y", "tools/call"]
    )
    meta = META % b"".join(b"," + member("progressToken") for _ in range(choose.below(3)))
    inner = [b'"name":"echo"', b'"_meta":' + meta, *(member("requestId") for _ in range(choose.below(3)))]
    params = b"{" + b",".join(choose.shuffled(inner)) + b"}"
    if choose.rarely(8):
        params = choose.pick([b"[%b]", b"[%b,{}]", b"%b"]) % aim
    envelope = [b'"jsonrpc":"2.0"', b'"method":' + text(choose, method), b'"params":' + params]
    if choose.rarely(2):
        envelope.insert(choose.below(4), b'"id":%b' % choose.pick([b"1", b'"i"', b"null"]))
    return b"{" + b",".join(envelope) + b"}"


def _heir(choose: Choices) -> bytes:
    """Something harmless that a careless JavaScript reader takes for a call, by inheritance."""
    inner: list[Member] = [
        ("method", text(choose, "tools/call")),
        ("params", _object(choose, [("name", b'"write_file"')])),
    ]
    members: list[Member] = [("jsonrpc", b'"2.0"'), ("id", b"1")]
    members.append(choose.pick([("result", b"{}"), ("method", text(choose, "ping")), ("error", b"{}")]))
    members.append((choose.pick(["__proto__", "constructor", "prototype"]), _object(choose, inner)))
    return _object(choose, members)


def _disturbed(choose: Choices, raw: bytes) -> bytes:
    """`raw` with a few bytes lost, doubled or changed."""
    if not raw:
        return raw
    place = (choose.byte() * 256 + choose.byte()) % len(raw)
    length = choose.below(6) + 1
    piece = raw[place : place + length]
    return (
        raw[:place]
        + choose.pick([b"", piece * 2, piece[::-1], choose.blob(3), b"\r", b'"'])
        + raw[place + length :]
    )


# --- what an upstream answers --------------------------------------------------------------------------


def tool(choose: Choices) -> bytes:
    """One entry of a tool list, more or less."""
    name = choose.pick([*ALLOWED, *DENIED, "other"])
    members: list[Member] = [("name", text(choose, name)), ("inputSchema", b'{"type":"object"}')]
    if choose.rarely(3):
        members.append(("description", text(choose, choose.pick(["about", "a\u2028b", "write_file"]))))
    if choose.rarely(4):
        members.append(
            ("annotations", _object(choose, [("readOnlyHint", choose.pick([b"true", b"false", b"1"]))]))
        )
    if choose.rarely(6):
        members.append((choose.pick(["_meta", "x", "tools", "__proto__", "title"]), value(choose)))
    if choose.rarely(12):
        del members[choose.below(2)]
    if choose.rarely(20):
        return value(choose)
    return _object(
        choose, _with_doubles(choose, members, lambda key: text(choose, choose.pick([*DENIED, *ALLOWED])))
    )


def tool_page(choose: Choices, cursor: bytes | None = None) -> bytes:
    """The result of tools/list, more or less."""

    def tools() -> bytes:
        return b"[" + b",".join(tool(choose) for _ in range(choose.below(5))) + b"]"

    members: list[Member] = [("tools", tools())]
    if cursor is not None:
        members.append(("nextCursor", cursor))
    if choose.rarely(4):
        members.append((choose.pick(["_meta", "extra", "ttlMs", "__proto__", "result"]), value(choose)))
    return _object(choose, _with_doubles(choose, members, lambda key: tools()))


def answer(choose: Choices, token: bytes, cursor: bytes | None = None) -> bytes:
    """An answer to the request `token` that lists tools, more or less."""
    choose.is_wild = choose.rarely(4)
    result = tool_page(choose, cursor)
    members: list[Member] = [("jsonrpc", b'"2.0"'), ("id", token), ("result", result)]
    return _object(choose, _with_doubles(choose, members, lambda key: tool_page(choose)))


def notification(choose: Choices) -> bytes:
    """A notification that carries a tool list somewhere."""
    choose.is_wild = choose.rarely(4)
    body = tool_page(choose)
    for _ in range(choose.below(3)):
        body = _object(choose, [(choose.pick(["data", "tools", "a"]), body)])
    members: list[Member] = [("jsonrpc", b'"2.0"'), ("method", b'"notifications/x"'), ("params", body)]
    return _object(choose, members)
