"""What a value is to servers that convert: a text that spells a number is that number, `"yes"` is true.

Servers made with the official SDKs convert what does not have the type that a tool declares, and read URIs
without their line breaks and escapes. So a rule that is content with one reader sees a value in all these
forms. The forms are those of the Python SDKs (pydantic) and what JavaScript's own conversions add to them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock import limits
from penstock.wire.json.json_walk import TooMany

if TYPE_CHECKING:
    from decimal import Decimal

_TRUE = frozenset(("1", "true", "t", "yes", "y", "on", "enabled"))
_FALSE = frozenset(("0", "false", "f", "no", "n", "off", "disabled", ""))
# A class of characters that goes far up takes milliseconds to compile; the same with ^ does not.
_MAY_BE_NUMBER = re.compile(r"\s*[-+]?(?:[0-9.iInN]|[^\x00-\u065f])").match
_OTHER_BASES = re.compile(r"\s*0(?:x[0-9a-f]+|o[0-7]+|b[01]+)\s*", re.IGNORECASE).fullmatch
_LONGEST_NUMBER = 4_000  # digits; Python turns no more than 4,300 into a number

_LONE = re.compile(rb"[\[ \t\r\n]+(\"[^\"\[\]{}]*\"|[^\",\[\]{}]*?)[\] \t\r\n]+").fullmatch

_LIKE_URI = re.compile(r"[\x00-\x20]*[A-Za-z][A-Za-z0-9+.\-\t\r\n]*:").match
_ODD_IN_URI = re.compile(r"[^!-$&-\[\]-~]").search
_EDGES = "".join(map(chr, range(33)))
_BREAKS = str.maketrans("", "", "\t\r\n")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?:(//)([^/?#]*))?([^?#]*)(.*)", re.DOTALL)
_SPECIAL = {"http": ":80", "https": ":443", "ftp": ":21", "ws": ":80", "wss": ":443", "file": ""}
_ONE_DOT = frozenset((".", "%2e", "%2E"))
_TWO_DOTS = frozenset(one + two for one in _ONE_DOT for two in _ONE_DOT)


def maybe_number_in(text: str) -> int | Decimal | None:
    """The number that a text spells to somebody; None when to nobody."""
    if len(text) > _LONGEST_NUMBER or not _MAY_BE_NUMBER(text):
        return None if text.strip() else 0  # JavaScript has nothing for 0
    try:
        return int(text)
    except ValueError:
        pass
    if _OTHER_BASES(text):
        return int(text, 0)
    import decimal  # only for texts that begin like a fraction

    try:
        found = decimal.Decimal(text.strip())
    except decimal.InvalidOperation:
        return None
    return None if found.is_nan() else found


def maybe_lone_in(token: bytes) -> bytes | None:
    """The only element of an array, however deep: JavaScript takes `[5]` for 5 where it wants a number."""
    found = _LONE(token) if len(token) <= _LONGEST_NUMBER else None
    return None if found is None else found[1]


def maybe_truth_in(text: str) -> bool | None:
    """The truth value that a text spells to somebody; None when to nobody."""
    word = text.strip().lower() if len(text) <= 16 else text
    return True if word in _TRUE else False if word in _FALSE else None


def written_forms(text: str) -> set[str]:
    """The text as it is written, whole and up to a NUL, and as a URI without its line breaks: the forms that
    an allowed text must have right. A decoded one is what whoever allowed it expects."""
    forms = {text}
    if "\0" in text:
        forms.add(text.partition("\0")[0])
    bare = text.strip(_EDGES).translate(_BREAKS)
    if bare != text and _LIKE_URI(text):
        forms.add(bare)
    return forms


def text_forms(text: str, is_uri: bool = False) -> set[str]:
    """The text as various readers have it: whole, up to a NUL, and, if it is a URI, without what they leave
    out of one. Raises TooMany for a URI that is odd and longer than any."""
    forms = {text}
    if "\0" in text:
        forms.add(text.partition("\0")[0])
    if is_uri or (len(text) <= limits.URI_LENGTH and ":" in text and _LIKE_URI(text)):
        forms |= uri_forms(text)
    return forms


def uri_forms(uri: str) -> set[str]:
    """What readers make of a URI: blanks at its edges and line breaks left out, escapes decoded, dots
    resolved, scheme and host in lower case."""
    if len(uri) > limits.URI_LENGTH:
        if _ODD_IN_URI(uri):
            raise TooMany("a URI is odd, and longer than any")
        return {uri}
    bare = uri.strip(_EDGES).translate(_BREAKS)
    forms = {uri, bare, uri.translate(_BREAKS)}
    for _ in range(2):  # who decodes an address once more reads another one
        forms |= {_normal(form) for form in forms}
        if "%" not in bare:
            break
        forms |= {unquote(form) for form in forms}
    return forms


def _normal(uri: str) -> str:
    found = _PARTS.fullmatch(uri)
    if found is None:
        return uri
    scheme, slashes, host, path, rest = found[1].lower(), found[2], found[3], found[4], found[5]
    is_special = scheme in _SPECIAL
    if is_special and (not slashes or not host or "\\" in uri):
        slashes, host, path, rest = _special(uri[len(scheme) + 1 :], scheme)
    if host is not None and is_special:
        host = unquote(host).lower().removesuffix(_SPECIAL[scheme] or "\0")
        if not host.isascii():
            import unicodedata  # a table of 1 MB that plain addresses never need

            host = unicodedata.normalize("NFKC", host).lower()
        host = "" if scheme == "file" and host == "localhost" else host
    if slashes or path.startswith("/"):
        path = _without_dots(path) or ("/" if is_special else "")
    return f"{scheme}:{'//' + host if slashes and host is not None else ''}{path}{rest}"


def _special(after: str, scheme: str) -> tuple[str, str, str, str]:
    """Slashes, host, path and rest of an address on the Web, where a backslash is a slash and any number of
    slashes will do."""
    body, mark, rest = re.match(r"([^?#]*)()(.*)", after, re.DOTALL).groups()  # type: ignore[union-attr]
    body = body.replace("\\", "/")
    if scheme == "file":
        host, slash, path = body[2:].partition("/") if body.startswith("//") else ("", "/", body.lstrip("/"))
        return "//", host, slash + path, mark + rest
    host, slash, path = body.lstrip("/").partition("/")
    return "//", host, slash + path, mark + rest


def _without_dots(path: str) -> str:
    out: list[str] = []
    segments = path.split("/")
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        if segment in _TWO_DOTS:
            if len(out) > 1:
                out.pop()
            if is_last:
                out.append("")
        elif segment not in _ONE_DOT:
            out.append(segment)
        elif is_last:
            out.append("")
    return "/".join(out)
