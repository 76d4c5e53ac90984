"""The page: a few files that come with the package, and the headers that keep them from doing more."""

from __future__ import annotations

from importlib.resources import files

from penstock.wire.http.http1 import Headers

_CSP = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    b"trusted-types 'none'"
)
SAFETY: Headers = [
    (b"Content-Security-Policy", _CSP),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"X-Frame-Options", b"DENY"),
    (b"Referrer-Policy", b"no-referrer"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
    (b"Cache-Control", b"no-store"),
]
_TYPES = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
}


def read_site() -> dict[bytes, tuple[bytes, bytes]]:
    """Every file by its path, with its type. A path that is not here is not served, whatever it says."""
    found: dict[bytes, tuple[bytes, bytes]] = {}
    for entry in files("penstock.watch").joinpath("site").iterdir():
        ending = entry.name.rpartition(".")[2]
        if ending in _TYPES:
            found[b"/" + entry.name.encode()] = (_TYPES[ending], entry.read_bytes())
    found[b"/"] = found[b"/index.html"]
    return found
