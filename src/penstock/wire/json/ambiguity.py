"""Refusing what two parsers could read differently.

We forward the bytes we received, and somebody else's parser reads them again. So a message passes only
when its strict reading (RFC 8259, UTF-8, one value) is the only one: no member name that repeats, in the
envelope or in `params`, also not after the foldings that lax readers apply. Names deeper down belong to
the tool that is called, and pass.
"""

from __future__ import annotations

import codecs
import re

import msgspec
from msgspec import Raw

from penstock import limits
from penstock.wire.json.nesting import SHALLOW_BYTES, nests_deeper

Members = dict[str, Raw]

RESERVED = frozenset("jsonrpc id method params result error name uri arguments cursor task _meta".split())
"""Member names that decide what a message does. Nothing may merely look like one of them."""

INHERITED = frozenset({"__proto__", "constructor", "prototype"})
"""Member names through which a careless JavaScript reader inherits members that are not there."""

# Names that are common beside the reserved ones and fold apart from all of them: a message that has only
# these needs no folding at all.
_KNOWN = RESERVED | frozenset(
    "argument capabilities clientInfo content context data inputResponses level logger maxTokens message "
    "messages notifications progress progressToken reason ref requestId requestState roots total "
    "protocolVersion".split()
)

# Above this size, comparing with a re-encoded copy would cost the copy; walking the names costs nothing.
_COPY_BYTES = 16 * 1024

_decode_members = msgspec.json.Decoder(Members).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode

_MEMBER = re.compile(rb'[ \t\r\n]*("(?:[^"\\]|\\.)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_OPENING = re.compile(rb"[ \t\r\n]*\{")
_SEPARATOR = re.compile(rb"[ \t\r\n]*,")
_CLOSING = re.compile(rb"[ \t\r\n]*\}")
_BLANKS = re.compile(rb"[ \t\r\n]*")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# Where no backslash is escaped: a half is alone when the other half does not stand beside it.
_LONE_HALF = re.compile(_HIGH + b"(?!" + _LOW + b")|(?<!" + _HIGH + b")" + _LOW)

_SCAN_BYTES = 64 * 1024


class NotJson(ValueError):
    """The bytes are not one JSON value."""


class Crowded(NotJson):
    """There are more parts in it than may be taken apart."""


class NotAnObject(ValueError):
    """The bytes are one JSON value, but not an object."""


class NotAnArray(ValueError):
    """The bytes are one JSON value, but not an array."""


class Ambiguous(ValueError):
    """Two readers could see different things in this object."""


def check_text(raw: bytes) -> None:
    """Raises NotJson unless `raw` is UTF-8 with at most the allowed nesting."""
    if not raw.isascii() and not is_utf8(raw):
        raise NotJson("it is not valid UTF-8")
    if nests_deeper(raw, limits.NESTING):
        raise NotJson(f"it nests deeper than {limits.NESTING} levels")


def is_sound(raw: bytes) -> bool:
    """Whether `check_text` has nothing against `raw`."""
    if not raw.isascii() and not is_utf8(raw):
        return False
    return len(raw) <= SHALLOW_BYTES or not nests_deeper(raw, limits.NESTING)


def is_utf8(raw: bytes) -> bool:
    """Whether `raw` is UTF-8; for what is ASCII, `isascii` tells faster."""
    try:
        if len(raw) <= _SCAN_BYTES:
            raw.decode()
        else:
            _decode_in_pieces(raw)
    except UnicodeDecodeError:
        return False
    return True


def _decode_in_pieces(raw: bytes) -> None:
    # A whole decoded copy could take four times the message.
    decode = codecs.getincrementaldecoder("utf-8")().decode
    for start in range(0, len(raw), _SCAN_BYTES):
        decode(raw[start : start + _SCAN_BYTES])
    decode(b"", True)


def members(raw: bytes | Raw) -> Members:
    """The members of the object in `raw`, each with its bytes as written.

    As for all that follow here, somebody must have counted how deep `raw` nests: how far a decoder goes down
    is a matter of the interpreter. If nobody has, what it does not reach is no JSON.

    Raises NotJson, NotAnObject, or Ambiguous when two readers could see different members.
    """
    return checked_members(raw, *last_members(raw))


def checked_members(raw: bytes | Raw, found: Members, text: bytes | Raw) -> Members:
    """What `members` gives, for those who have asked `last_members` already."""
    size = len(memoryview(text))
    if size > _COPY_BYTES or text is not raw or _encode(found) != bytes(text):
        spans = _spans_as_written(memoryview(text), found)
        if spans is None:
            raise Ambiguous("a member name stands twice")
        if not spans.keys() <= _KNOWN:
            _refuse_look_alikes(found)
        if text is not raw:
            original = bytes(raw)
            return {name: Raw(original[start:end]) for name, (start, end) in spans.items()}
    elif not found.keys() <= _KNOWN:
        _refuse_look_alikes(found)
    return found


def last_members(raw: bytes | Raw) -> tuple[Members, bytes | Raw]:
    """The members as the decoder sees them (last one wins) and the text it read them from."""
    _refuse_crowds(raw)
    try:
        return _decode_members(raw), raw
    except msgspec.ValidationError:
        raise NotAnObject("it is not an object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        text = readable(raw)
        if text is raw:
            raise NotJson(_plain_reason(why)) from None
    try:
        return _decode_members(text), text
    except msgspec.ValidationError:
        raise NotAnObject("it is not an object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise NotJson(_plain_reason(why)) from None


def elements(raw: bytes | Raw) -> list[bytes]:
    """The elements of the array in `raw`, each as written. Raises NotJson or NotAnArray."""
    _refuse_crowds(raw)
    text = readable(raw)
    try:
        parts = _decode_array(text)
    except msgspec.ValidationError:
        raise NotAnArray("it is not an array") from None
    except (msgspec.DecodeError, RecursionError) as why:
        raise NotJson(_plain_reason(why)) from None
    if text is raw:
        return [bytes(part) for part in parts]
    raw = bytes(raw)
    # The copy has the same length, so each part stands in the original where it stands in the copy.
    out = []
    position = raw.index(b"[") + 1
    for part in parts:
        blank = _BLANKS.match(raw, position)
        start = blank.end() if blank else position
        end = start + len(memoryview(part))
        out.append(raw[start:end])
        separator = _SEPARATOR.match(raw, end)
        position = separator.end() if separator else end
    return out


def _refuse_crowds(raw: bytes | Raw) -> None:
    """Raises Crowded when an object or array has more parts than may be taken apart.

    Ten megabytes of `[],` are three million parts, of which the decoder would make half a gigabyte. So where
    there are colons or commas for too many, they are counted first, without keeping any; few honest messages
    get that far.
    """
    text = memoryview(raw)
    if len(text) <= 2 * limits.PATH_PARTS:
        return
    blanks = _BLANKS.match(text)
    start = blanks.end() if blanks else 0
    mark = b":" if bytes(text[start : start + 1]) == b"{" else b","
    slices = range(0, len(text), _SCAN_BYTES)
    if sum(bytes(text[at : at + _SCAN_BYTES]).count(mark) for at in slices) < limits.PATH_PARTS:
        return
    from penstock.wire.json import json_walk  # its patterns take a while to compile

    try:
        for _ in json_walk.parts(text, start):
            pass
    except json_walk.TooMany:
        raise Crowded(f"it has more than {limits.PATH_PARTS} parts") from None
    except json_walk.Broken:
        return  # the decoder says why


def readable(raw: bytes | Raw) -> bytes | Raw:
    """`raw`, or a copy of the same length for decoders that refuse a lone half of a surrogate pair.

    RFC 8259 lets such a half stand in an escape. In the copy it is a character that no name may have.
    """
    if not _SURROGATE.search(memoryview(raw)):
        return raw
    text = bytes(raw)
    if b"\0" in text:
        return raw  # no JSON
    has_escaped = b"\\\\" in text
    if has_escaped:
        text = text.replace(b"\\\\", b"\0\0")  # so that each backslash that is left begins an escape
    text, halves = _LONE_HALF.subn(rb"\\uffff", text)
    if not halves:
        return raw
    return text.replace(b"\0\0", b"\\\\") if has_escaped else text


def _plain_reason(why: Exception) -> str:
    if isinstance(why, RecursionError):
        return "it nests too deep"
    return str(why).removeprefix("JSON is malformed: ")


def _spans_as_written(text: memoryview, found: Members) -> dict[str, tuple[int, int]] | None:
    """Where the value of each member stands in `text`, or None when a name stands twice.

    `found` holds the value the decoder kept for each name. Where a name stands once, that value is what
    follows the name, so it tells how far to skip; where it does not follow, the name stands twice.
    """
    spans: dict[str, tuple[int, int]] = {}
    opening = _OPENING.match(text)
    position = opening.end() if opening else 0
    while member := _MEMBER.match(text, position):
        name = _decode_text(member[1])
        value = memoryview(found[name])
        start = member.end()
        end = start + len(value)
        if name in spans or not _is_same(text[start:end], value):
            return None
        spans[name] = (start, end)
        separator = _SEPARATOR.match(text, end)
        if separator is None:
            # A number that begins like the one that was kept is another number: 12 and 1.
            return spans if _CLOSING.match(text, end) else None
        position = separator.end()
    return spans


def _is_same(one: memoryview, other: memoryview) -> bool:
    """Whether two views show the same bytes; bytes compare many times faster than views."""
    if len(one) != len(other):
        return False
    pieces = range(0, len(one), _SCAN_BYTES)
    return all(bytes(one[at : at + _SCAN_BYTES]) == bytes(other[at : at + _SCAN_BYTES]) for at in pieces)


def _refuse_look_alikes(names: Members) -> None:
    seen: set[str] = set()
    odd = 0
    for name in names:
        plain = name if name in RESERVED else folded(name)
        odd += not name.isascii()
        if odd > _ODD_NAMES:
            raise Ambiguous(f"it has more than {_ODD_NAMES} names that are not ASCII")
        if plain in seen or (plain in RESERVED and name not in RESERVED):
            raise Ambiguous("a member name looks like another")
        if plain in INHERITED:
            raise Ambiguous("a member name reaches into the reader's own objects")
        seen.add(plain)


def folded(name: str) -> str:
    """`name` as the laxest reader would take it: case, width, blanks and invisible characters gone.

    One that is long even so is given back as it is: it is none that anybody looks for.
    """
    name = name.partition("\0")[0]
    if name.isascii() and name.isprintable():
        return name.replace(" ", "").casefold()
    # Bit by bit: one character can become eighteen, and a name can be as long as a message.
    plain = ""
    for at in range(0, len(name), _FOLDED_AT_ONCE):
        plain += _folded(name[at : at + _FOLDED_AT_ONCE])
        if len(plain) > _LONGEST_NAME:
            return name
    return plain


def _folded(name: str) -> str:
    if name.isascii():
        name = "".join(filter(str.isprintable, name))
    else:
        import unicodedata  # a table of 1 MB that plain traffic never needs

        name = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
        # Last: in lower case the dot of U+0130 is a mark of its own.
        name = "".join(char for char in name if unicodedata.category(char) not in _INVISIBLE)
    return name.replace(" ", "").casefold()


def as_lax_readers_see(method: str) -> str:
    """`method` as the laxest reader would take it: folded, and with plain slashes between its parts."""
    return "/".join(part for part in folded(method).replace("\\", "/").split("/") if part)


_FOLDED_AT_ONCE = 16
_ODD_NAMES = 1_000  # to look at each takes long, and messages have their own names for things
_LONGEST_NAME = 64  # characters; the longest that we look for has 38
_INVISIBLE = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Mn", "Zs", "Zl", "Zp"})
