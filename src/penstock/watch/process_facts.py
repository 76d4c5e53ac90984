"""How a process and its children are: age, processor time and memory, as far as the system tells."""

from __future__ import annotations

import os
import sys


def process_facts(pid: int) -> dict[str, object]:
    """Figures of the process and of each of its children; none where the system has no /proc."""
    return {"own": _figures(pid), "children": [_figures(child) for child in _children(pid)]}


def _children(pid: int) -> list[int]:
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                return [int(word) for word in file.read().split()]
        except (OSError, ValueError):
            pass
    return []


def _shown(command: bytes) -> str:
    """A command line as people read it. The script that ends children of a proxy that was killed is ours."""
    words = " ".join(command.replace(b"\0", b" ").decode("utf-8", "replace").split())
    return "Penstock's warden" if words.startswith("/bin/sh -c trap '' INT TERM HUP groups=") else words


def _figures(pid: int) -> dict[str, object]:
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            with open(f"/proc/{pid}/cmdline", "rb") as command_file:
                command = _shown(command_file.read(400))
            with open("/proc/uptime", encoding="ascii") as uptime:
                up = float(uptime.read().split()[0])
        except (OSError, ValueError):
            return {"pid": pid}
        tick = os.sysconf("SC_CLK_TCK")
        return {
            "pid": pid,
            "command": command,
            "cpu": round((int(fields[11]) + int(fields[12])) / tick, 2),
            "age": round(up - int(fields[19]) / tick, 1),
            "rss": int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        }
    return {"pid": pid}
