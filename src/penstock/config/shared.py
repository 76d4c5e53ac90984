"""What several instances share, and how they reach each other: the `shared` and `peer` sections, checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import unquote

from msgspec import Struct

from penstock.errors import ConfigError
from penstock.wire.http.url import parse_listen

USES = ("limits", "caches", "state", "sessions")
SECRET_BYTES = 32

_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch
_URL = re.compile(r"(rediss?|unix)(\+sentinel|\+cluster)?://(?:([^@/]*)@)?([^?#]*)").fullmatch
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?").fullmatch

Kind = Literal["single", "sentinel", "cluster", "unix"]


class RedisAddress(Struct, frozen=True):
    """Where Redis is. The password is never shown."""

    kind: Kind
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""  # of a Unix socket
    name: str = ""  # of the primary, as the sentinels call it
    number: int = 0  # of the database
    user: str | None = None
    password: str | None = None
    is_tls: bool = False

    @property
    def shown(self) -> str:
        """The address as people may see it."""
        if self.kind == "unix":
            return f"unix://{self.path}"
        where = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        form = "" if self.kind == "single" else f"+{self.kind}"
        return f"redis{'s' if self.is_tls else ''}{form}://{where}"


class SharedSettings(Struct, frozen=True):
    """What is shared through Redis, and what holds while Redis cannot be asked."""

    address: RedisAddress
    secret: bytes
    old_secret: bytes | None = None
    namespace: str = "default"
    timeout: float = 0.1
    is_required: bool = True
    use: frozenset[str] = frozenset(USES)
    limits_down: str = "block"
    caches_down: str = "local"
    state_down: str = "block"
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class PeerSettings(Struct, frozen=True):
    """Where other instances bring requests whose sessions are ours."""

    listen: tuple[str, int]
    address: str  # as the others reach it
    drain: float = 30.0


Expand = Callable[[str, tuple[str, ...]], str]
"""A text with its variables in place; what is wrong with it is noted under the path."""


def make_shared(section: dict[str, Any], expand: Expand) -> SharedSettings:
    """What the section asks for. Raises ConfigError, which never shows a secret."""
    if "url" not in section:
        raise ConfigError("shared needs a url", "Such as redis://10.0.0.5:6379/0")
    use = section.get("use", list(USES))
    for word in use:
        if word not in USES:
            raise ConfigError(f'shared.use does not know "{word}"', f"It knows {', '.join(USES)}")
    namespace = expand(section.get("namespace", "default"), ("shared", "namespace"))
    if not _NAMESPACE(namespace):
        raise ConfigError("shared.namespace cannot be used", "It has letters, digits, . _ and -, at most 64")
    down = section.get("when_down") or {}
    if bool(section.get("cert")) != bool(section.get("key")):
        raise ConfigError("shared.cert and shared.key belong together", "One of them is missing")
    return SharedSettings(
        address=parse_address(expand(str(section["url"]), ("shared", "url"))),
        secret=_secret(section, "secret", expand),
        old_secret=_secret(section, "old_secret", expand) if section.get("old_secret") else None,
        namespace=namespace,
        timeout=section.get("timeout", 0.1),
        is_required=section.get("required", True),
        use=frozenset(use),
        limits_down=down.get("limits", "block"),
        caches_down=down.get("caches", "local"),
        state_down=down.get("state", "block"),
        ca=_maybe_path(section, "ca", expand),
        cert=_maybe_path(section, "cert", expand),
        key=_maybe_path(section, "key", expand),
    )


def make_peer(section: dict[str, Any], expand: Expand) -> PeerSettings:
    """What the section asks for. Raises ConfigError."""
    if "listen" not in section:
        raise ConfigError("peer needs listen", "Where other instances connect, such as 10.0.0.7:8909")
    listen = section["listen"]
    default = f"{listen[0]}:{listen[1]}"
    address = expand(section.get("address", default), ("peer", "address"))
    host, port = parse_listen(address) if address else listen
    return PeerSettings(
        listen, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", section.get("drain", 30.0)
    )


def _maybe_path(section: dict[str, Any], name: str, expand: Expand) -> str | None:
    return expand(section[name], ("shared", name)) if section.get(name) else None


def _secret(section: dict[str, Any], name: str, expand: Expand) -> bytes:
    secret = expand(section.get(name) or "", ("shared", name)).encode("utf-8", "surrogateescape")
    if len(secret) < SECRET_BYTES:
        raise ConfigError(
            f"shared.{name} is too short",
            f"It needs {SECRET_BYTES} bytes or more, the same for all instances",
        )
    return secret


def parse_address(text: str) -> RedisAddress:
    """The address that `text` spells. Raises ConfigError without the text: a password may be in it."""
    found = _URL(text)
    if found is None:
        raise _not_an_address()
    scheme, form, login, rest = found.groups()
    user, colon, password = (login or "").partition(":")
    words: dict[str, Any] = {
        "user": unquote(user) or None,
        "password": unquote(password) if colon else None,
        "is_tls": scheme == "rediss",
    }
    if scheme == "unix":
        if form or not rest.startswith("/"):
            raise _not_an_address()
        return RedisAddress("unix", path=unquote(rest), **words)
    where, _, tail = rest.partition("/")
    kind: Kind = "single" if form is None else "sentinel" if form == "+sentinel" else "cluster"
    hosts = tuple(_host(word, 26379 if kind == "sentinel" else 6379) for word in where.split(","))
    if kind == "single":
        if len(hosts) != 1 or (tail and not (tail.isascii() and tail.isdecimal() and len(tail) < 6)):
            raise _not_an_address()
        return RedisAddress(kind, hosts, number=int(tail or 0), **words)
    if kind == "sentinel":
        name, _, number = tail.partition("/")
        if not _NAMESPACE(name) or (number and not number.isdecimal()):
            raise ConfigError("shared.url names no primary", "redis+sentinel://HOST,HOST/NAME")
        return RedisAddress(kind, hosts, name=name, number=int(number or 0), **words)
    if tail:
        raise _not_an_address()
    return RedisAddress(kind, hosts, **words)


def _host(word: str, port: int) -> tuple[str, int]:
    found = _HOST(word)
    if found is None or int(found[2] or port) > 65535:
        raise _not_an_address()
    return found[1].strip("[]"), int(found[2] or port)


def _not_an_address() -> ConfigError:
    return ConfigError(
        "shared.url is no address of Redis",
        "It looks like redis://HOST:PORT/0, rediss://USER:PASSWORD@HOST:PORT/0, unix:///PATH, "
        "redis+sentinel://HOST,HOST/NAME or redis+cluster://HOST,HOST",
    )
