"""What `--dashboard` and the section `dashboard` ask for."""

from __future__ import annotations

import socket

from msgspec import Struct

from penstock.errors import ConfigError
from penstock.wire.http.url import parse_listen

AUTO = "auto"
_NAME_LENGTH = 64  # what a table has room for


class DashboardSettings(Struct, frozen=True):
    """A tap, and with an address a hub as our child."""

    host: str = ""
    port: int = -1  # -1: the tap alone
    name: str = ""  # what the proxy is called in the view; else it is called by its upstream

    @property
    def has_hub(self) -> bool:
        """Whether a hub is started."""
        return self.port >= 0


def dashboard_settings(words: str) -> DashboardSettings:
    """What `auto`, `auto:NAME` or `[HOST:]PORT` means. Raises ConfigError off loopback."""
    first, _, name = words.partition(":")
    if first == AUTO:
        return DashboardSettings(name=name[:_NAME_LENGTH])
    try:
        host, port = parse_listen(words)
    except ConfigError as why:
        raise ConfigError(
            f'The dashboard is "auto", "auto:NAME" or [HOST:]PORT, not "{words}"', why.detail or why.headline
        ) from None
    if not is_loopback(host):
        raise ConfigError(
            f"--dashboard serves this machine only, and {host} is open to others",
            "Use penstock watch --web HOST:PORT --cert FILE --key FILE --users FILE for that",
        )
    return DashboardSettings(host, port)


def is_loopback(host: str) -> bool:
    """Whether every address of this name is of this machine only."""
    import ipaddress  # not for a tap alone

    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)
