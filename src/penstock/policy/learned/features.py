"""What a tool call is like: the places that its arguments name, and the shape that they have.

A place is what a call reaches out to: a host, the domain of a mail address, an account, a directory. Places
are the only values of arguments that are ever shown to people; everything else is counted and hashed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

LEAVES = 256
"""So many values of one call are looked at; those beyond are not."""

NAME = 128
"""Of an argument's name, so much is looked at and shown: it may be as long as the call."""

_TEXT = 4096  # a longer text is prose: only addresses in its beginning are looked for
_URL = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{1,15}://(?:[^\s/@?#]*@)?(\[[0-9a-f:.]+\]|[^\s/:?#\"'<>\\]+)")
_MAIL = re.compile(r"(?i)(?<![\w.+-])[\w.+-]{1,64}@((?:[a-z0-9-]{1,63}\.)+[a-z]{2,24})\b")
_ACCOUNT = re.compile(r"(?<![A-Za-z0-9])(?:[A-Z]{2}\d{2}[A-Z0-9]{9,30}|\d{8,34})(?![A-Za-z0-9])")
_BARE_HOST = re.compile(
    r"(?i)(?:www\.)?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+"
    r"(?:com|org|net|edu|gov|io|dev|ai|app|co|info|biz|me|uk|de|ch|example|test)(?=$|[/:?#])"
)
_STEM = 256  # characters of a text that may be one of many in the same place
_ACCOUNT_LEAST, _ACCOUNT_LENGTH = 8, 34
_LEAF = re.compile(r"[\w.-]*").fullmatch  # of a path: it says nothing about the directory
_BOX = re.compile(r"[\w.+-]{1,64}").fullmatch  # of a mail address: it says nothing about the domain
_PATH = re.compile(r"(?:[A-Za-z]:)?[/\\~.]?[^\s\"'<>|:*?]*[/\\][^\"'<>|:*?\n]*")


class PlaceSeen(Struct, frozen=True):
    """One place in a call: where in the arguments it stands, which kind it is, and which it is."""

    path: str
    kind: str  # host, domain, account or directory
    text: str


def digest64(*parts: str) -> int:
    """A number that stands for these texts."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(4, "big"))
        state.update(data)
    return int.from_bytes(state.digest(), "big")


def places_in(arguments: Any) -> list[PlaceSeen]:
    """The places that the arguments of a call name, each once."""
    found: dict[PlaceSeen, None] = {}
    for path, text in _texts(arguments):
        for kind, place in places_of_value(text):
            found[PlaceSeen(path, kind, place)] = None
    return list(found)


def places_of_text(text: str) -> Iterator[tuple[str, str]]:
    """Kind and name of all addresses, accounts, hosts and whole paths that stand anywhere in a text."""
    for match in _URL.finditer(text):
        yield "host", _host(match[1])
    for match in _MAIL.finditer(text):
        yield "address", match[0].lower()
    for match in _ACCOUNT.finditer(text):
        yield "account", match[0]
    for word in text.split():
        word = word.strip("\"'`,;()[]{}<>")
        bare = _BARE_HOST.match(word)
        if bare is not None:
            yield "host", _host(bare[0])
        elif len(word) > 3 and word[0] in "/~" and word.count("/") > 1:
            yield "path", word


def places_of_value(text: str) -> Sequence[tuple[str, str]]:
    """Kind and name of the places that one value of the arguments names."""
    if len(text) > _TEXT:
        text = text[:_TEXT]
    # Most texts have no place: a sign that it must have is looked for before the pattern.
    has_slash = "/" in text
    found: list[tuple[str, str]] = []
    if has_slash and "://" in text:
        found += [("host", _host(match[1])) for match in _URL.finditer(text)]
    if "@" in text:
        found += [("domain", match[1].lower()) for match in _MAIL.finditer(text)]
    if found:
        return found
    stripped = text.strip()
    if "." in stripped and " " not in stripped and (bare := _BARE_HOST.match(stripped)) is not None:
        return (("host", _host(bare[0])),)
    if has_slash or "\\" in stripped:
        is_path = len(stripped) < 512 and " " not in stripped.split("/", 1)[0] and _PATH.fullmatch(stripped)
        return (("directory", directory_of(stripped)),) if is_path else ()
    if _ACCOUNT_LEAST <= len(stripped) <= _ACCOUNT_LENGTH and _ACCOUNT.fullmatch(stripped):
        return (("account", stripped),)
    return ()


def stem_of(text: str) -> str:
    """A shorter text that names the same places, for who keeps what it found; empty where none is known.

    Files of one directory and boxes of one domain come one after another, each of them once."""
    if len(text) > _STEM:
        return ""
    # Most names are letters, digits and dots, which is found out without a pattern.
    if "@" in text:
        box, _, rest = text.partition("@")
        if "/" in rest or "\\" in rest or not ((len(box) < 64 and box.isalnum()) or _BOX(box)):
            return ""
        return "a@" + rest
    head, slash, leaf = text.rpartition("/")
    if not slash or "://" in text or not (leaf.replace(".", "").isalnum() or _LEAF(leaf)):
        return ""
    return head + slash


def _host(name: str) -> str:
    name = name.lower().rstrip(".")
    return name.removeprefix("www.")


def directory_of(path: str) -> str:
    """The directory that a path is in, by its first three steps."""
    steps = path.replace("\\", "/").split("/")[:-1]
    return "/".join(steps[:4]) or "/"


def _texts(value: Any, path: str = "arguments") -> Iterator[tuple[str, str]]:
    """Every text in a value with its path; places in a list have one path."""
    left = [(path, value)]
    count = 0
    while left and count < LEAVES:
        path, value = left.pop()
        count += 1
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            left += [(f"{path}.{name[:NAME]}", inner) for name, inner in list(value.items())[:LEAVES]]
        elif isinstance(value, list):
            left += [(f"{path}.*", inner) for inner in value[:LEAVES]]


def shape_of(value: Any, depth: int = 0) -> str:
    """Which names there are and of which types their values: no value, and no length."""
    if isinstance(value, dict):
        if depth > 8:
            return "o"
        inner = (f"{name}:{shape_of(value[name], depth + 1)}" for name in sorted(value)[:LEAVES])
        return f"{{{','.join(inner)}}}"
    if isinstance(value, list):
        return f"[{'|'.join(sorted({shape_of(one, depth + 1) for one in value[:LEAVES]}))}]"
    if isinstance(value, bool):
        return "b"
    if value is None:
        return "0"
    return "s" if isinstance(value, str) else "n"
