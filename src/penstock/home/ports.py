"""Whether a port can be listened on, and who has it if not."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path


def is_taken(host: str, port: int) -> bool:
    """Whether somebody listens there already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def maybe_owner(port: int) -> str | None:
    """The process that listens on `port`, as far as the system tells us."""
    tables: tuple[str, ...] = ()
    if sys.platform == "linux":
        tables = ("/proc/net/tcp", "/proc/net/tcp6")
    sockets = set()
    for table in tables:
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{fields[9]}]")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(link) in sockets for link in (folder / "fd").iterdir()):
                return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
        except OSError:
            continue
    return None
