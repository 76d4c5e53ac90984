"""The folder where running proxies and hubs of one user find each other, and who may knock there.

Sockets only, never a secret. The folder is 0700 and each socket 0600; whoever connects must have our own uid.
"""

from __future__ import annotations

import os
import socket
import stat
import sys

from penstock.errors import ConfigError
from penstock.observe.file_names import fit_name

_PATH_BYTES = 100  # of a socket's address: the systems allow 104 to 108


def runtime_folder() -> str:
    """The folder, made if need be. Raises ConfigError where it is not ours alone."""
    root = os.environ.get("XDG_RUNTIME_DIR", "")
    path = os.path.join(root, "penstock") if os.path.isabs(root) and os.path.isdir(root) else ""
    if not path or len(os.fsencode(path)) > _PATH_BYTES - 40:
        path = f"/tmp/penstock-{os.getuid()}"  # noqa: S108  # checked below: ours, a folder, closed to others
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as why:
        raise ConfigError(f"Cannot make the folder {path}", why.strerror or str(why)) from None
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ConfigError(f"Cannot use the folder {path}", "It belongs to somebody else")
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)
    return path


def tap_path(name: str, pid: int) -> str:
    """Where the proxy of this name listens for hubs."""
    return os.path.join(runtime_folder(), f"{fit_name(name)}.{pid}.tap")


def hub_path(port: int) -> str:
    """Where the hub on this port gives out codes to its own user."""
    return os.path.join(runtime_folder(), f"hub.{port}.hub")


def logins_path(port: int) -> str:
    """Where the hub on this port keeps who is logged in, for the one that comes after it."""
    return os.path.join(runtime_folder(), f"hub.{port}.logins")


def taps() -> list[str]:
    """The sockets of all proxies that are, or were, running."""
    return _with_ending(".tap")


def hubs() -> list[str]:
    """The sockets of all hubs."""
    return _with_ending(".hub")


def _with_ending(ending: str) -> list[str]:
    folder = runtime_folder()
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(ending)]


def listen_at(path: str) -> socket.socket:
    """A socket that only we can connect to. Raises OSError."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        before = os.umask(0o177)
        try:
            sock.bind(path)
        finally:
            os.umask(before)
        sock.listen(8)
    except OSError:
        sock.close()
        raise
    return sock


def is_own(sock: socket.socket) -> bool:
    """Whether the process at the other end is of our own user. In doubt it is not."""
    import struct

    try:
        if sys.platform == "linux":
            _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        elif sys.platform == "darwin":
            _, uid = struct.unpack_from("2I", sock.getsockopt(0, 1, 76))  # LOCAL_PEERCRED: struct xucred
        else:
            return True  # the folder's rights are all there is
    except (OSError, struct.error):
        return False
    return bool(uid == os.getuid())
