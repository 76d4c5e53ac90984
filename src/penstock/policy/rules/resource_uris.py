"""Resource URIs, brought to one form, so that a path can be compared with what is allowed.

Decoded once, dots removed, compared segment by segment. What is odd, or could be decoded once more, or names
a host that is not known, has no form here and is refused: whoever reads it next may see another place in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from msgspec import Struct

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_HOST = re.compile(r"[a-z0-9._-]*(?::[0-9]{1,5})?|\[[0-9a-f:.]+\](?::[0-9]{1,5})?")


Resolver = Callable[[str], str]
"""The true path of a local file, symbolic links resolved: os.path.realpath, given by whoever may look."""


class OddUri(ValueError):
    """The URI can be read in more than one way, or in none that is known."""


class Location(Struct, frozen=True):
    """Where a URI leads."""

    scheme: str
    host: str
    segments: tuple[str, ...]
    way: str  # the path as it was written, decoded, with its dots

    @property
    def path(self) -> str:
        return "/" + "/".join(self.segments)

    def is_within(self, other: Location) -> bool:
        """Whether it is `other` or lies below it."""
        if (self.scheme, self.host) != (other.scheme, other.host):
            return False
        return self.segments[: len(other.segments)] == other.segments


def locate(uri: str) -> Location:
    """Where `uri` leads. Raises OddUri."""
    if _ODD.search(uri):
        raise OddUri("blanks, control characters and backslashes do not belong in a URI")
    found = _URI.fullmatch(uri)
    if found is None:
        raise OddUri("no scheme")
    scheme, authority, path, query, fragment = found.groups()
    scheme = scheme.lower()
    if fragment is not None or (query is not None and scheme == "file"):
        raise OddUri("a query or a fragment")
    host = _host(scheme, authority)
    if path and not path.startswith("/"):
        raise OddUri("a path that does not begin at the root")
    way = _decoded(path)
    return Location(scheme, host, _segments(way), way)


def locate_path(path: str) -> Location:
    """The location of a file on this machine, by its plain path."""
    return Location("file", "", _segments(path), path)


def true_locations(place: Location, resolve: Resolver) -> list[Location]:
    """Where a local file truly is, with links resolved: by its path without dots and by the one written.

    Who opens the path as it is written goes up from where a link leads, and not from where it stands.
    """
    return [locate_path(resolve(path)) for path in {place.path, place.way or "/"}]


def true_root(root: Location, resolve: Resolver) -> Location:
    """The same for a directory that is allowed. What is no local file is where it says."""
    return locate_path(resolve(root.path)) if root.scheme == "file" else root


def _host(scheme: str, authority: str | None) -> str:
    host = (authority or "").lower()
    if "@" in host or "%" in host or not _HOST.fullmatch(host) or host.split(":")[0].endswith("."):
        raise OddUri("an unusual host")
    if scheme != "file":
        return host
    if host not in ("", "localhost"):
        raise OddUri("a file on another host")
    return ""


def _decoded(path: str) -> str:
    if "%" in _ESCAPE.sub("", path):
        raise OddUri("a % that encodes nothing")
    try:
        text = unquote_to_bytes(path).decode()
    except UnicodeError:
        raise OddUri("not UTF-8") from None
    if _ESCAPE.search(text):
        raise OddUri("encoded twice")
    if re.search(r"[\x00-\x1f\x7f\\]", text):
        raise OddUri("a control character or a backslash")
    if text.count("/") > path.count("/") and ".." in text.split("/"):
        # Who takes away the dots before decoding goes up from another place than who decodes first.
        raise OddUri("an encoded slash beside dots")
    return text


def _segments(path: str) -> tuple[str, ...]:
    out: list[str] = []
    for segment in path.split("/"):
        if segment in ("", "."):
            continue
        if segment == "..":
            if not out:
                raise OddUri("a path above the root")
            out.pop()
        elif segment.endswith((".", " ")):
            raise OddUri("a name that ends in a dot or a blank")  # some systems drop it
        elif _seems_to_go_up(segment):
            raise OddUri("a name that some take for two dots")
        else:
            out.append(segment)
    return tuple(out)


def _seems_to_go_up(segment: str) -> bool:
    """Whether servers that cut off path parameters (`..;a=b`), or fold look-alikes, read dots here."""
    name = segment.partition(";")[0]
    if not name.isascii():
        import unicodedata  # a megabyte, for names beyond ASCII only

        name = unicodedata.normalize("NFKC", name)
    return name != segment and ("/" in name or name.strip(" .") == "")
