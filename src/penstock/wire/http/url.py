"""Where to connect and where to listen, out of what people write."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from penstock.errors import ConfigError

_URL = re.compile(
    r"(?i:(https?))://(?:([^@/?#]*)@)?(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@]+)(?::([0-9]*))?([/?#].*)?"
)
_HOST = re.compile(r"[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Url(Struct, frozen=True, gc=False):
    """An http or https address. `userinfo` is a secret and stands in no text of ours."""

    scheme: str
    host: str  # without the brackets of an IPv6 address
    port: int
    target: bytes  # path and query, as written
    userinfo: bytes | None = None

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """What a Host header says: the port is left out when it is the usual one."""
        if self.scheme == "unix":
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port: what may be shown to people."""
        return f"{self.scheme}://{self.authority}"

    @property
    def shown(self) -> str:
        """The address as people may see it: with its path, without its query, where secrets travel."""
        path = self.target.partition(b"?")[0].decode()
        return self.origin if path == "/" else self.origin + path

    @property
    def basic_credentials(self) -> bytes | None:
        """The value of an authorization header for `userinfo`."""
        if self.userinfo is None:
            return None
        import base64  # these two are loaded only behind a proxy that wants a password
        from urllib.parse import unquote_to_bytes

        return b"Basic " + base64.b64encode(unquote_to_bytes(self.userinfo))


def parse_url(text: str, is_userinfo_allowed: bool = False) -> Url:
    """The http or https address in `text`."""
    match = _URL.fullmatch(text)
    shown = _without_secrets(text)
    if match is None:
        raise ConfigError(f'Invalid URL: "{shown}"', "It must begin with http:// or https:// and name a host")
    scheme, userinfo, host, port_text, target = match.groups()
    if userinfo is not None and not is_userinfo_allowed:
        raise ConfigError(f'Credentials in a URL: "{shown}"', "Send them in an Authorization header instead")
    scheme = scheme.lower()
    try:
        host = host.lower() if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        host = ""
    port = int(port_text[:6]) if port_text else _DEFAULT_PORTS[scheme]
    if not _HOST.fullmatch(host):
        raise ConfigError(f'Invalid URL: "{shown}"', "The host has characters that no host name has")
    if not 0 < port < 65536:
        raise ConfigError(f'Invalid URL: "{shown}"', "The port must lie between 1 and 65535")
    target = (target or "/").partition("#")[0]
    if not target.startswith("/"):
        target = "/" + target
    if not re.fullmatch(r"[\x21-\x7e]*", target):
        raise ConfigError(f'Invalid URL: "{shown}"', "Blanks and characters outside ASCII must be %-encoded")
    return Url(scheme, host.strip("[]"), port, target.encode(), userinfo.encode() if userinfo else None)


def _without_secrets(text: str) -> str:
    """`text` as it may be shown: keys and passwords stand before an @ or in the query."""
    return re.sub(r"\?[^#]*", "?...", re.sub(r"//[^/?#]*@", "//...@", text), count=1)


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port out of `[HOST:]PORT`; without a host only this machine can connect."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host = "127.0.0.1"
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ConfigError(f'Invalid address to listen on: "{text}"', "It must be PORT or HOST:PORT")
    if not _HOST.fullmatch(host):
        raise ConfigError(
            f'Invalid address to listen on: "{text}"', "An IPv6 address must be in brackets: [::1]:8080"
        )
    return host.strip("[]"), int(port)


def unix_url(path: str) -> Url:
    """The address of a Unix socket, for processes of ours among themselves."""
    return Url("unix", path, 0, b"/")


def maybe_proxy(url: Url, environ: Mapping[str, str]) -> Url | None:
    """The forward proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY ask for on the way to `url`.

    As in Go and unlike in curl, this machine itself is never looked for behind a proxy.
    """
    name = f"{url.scheme}_proxy"
    text = environ.get(name) or environ.get(name.upper())
    if not text or url.host == "localhost" or url.host == "::1" or url.host.startswith("127."):
        return None
    for entry in (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(","):
        if _is_covered(url, entry.strip().lower()):
            return None
    proxy = parse_url(text if "://" in text else f"http://{text}", is_userinfo_allowed=True)
    if proxy.is_tls:
        raise ConfigError(
            f"Unsupported proxy in {name.upper()}: {proxy.origin}", "It must begin with http://"
        )
    return proxy


def _is_covered(url: Url, entry: str) -> bool:
    if not entry:
        return False
    if entry == "*":
        return True
    if (not entry.endswith("]") and entry.count(":") == 1) or "]:" in entry:
        entry, _, port = entry.rpartition(":")
        if port != str(url.port):
            return False
    entry = entry.strip("[]").lstrip("*").lstrip(".")
    return url.host == entry or url.host.endswith("." + entry)
