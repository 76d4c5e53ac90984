"""On what the figures were measured; no names of hosts or users."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench.targets import nginx_binary


def machine() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}, {_distribution()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "nginx": _said([nginx_binary() or "", "-v"], r"nginx/(\S+)"),
        "node": _said(["node", "--version"], r"v(\S+)"),
        "penstock": _said([sys.executable, "-m", "penstock", "--version"], r"(\d\S*)"),
        "commit": _said(["git", "rev-parse", "--short", "HEAD"], r"(\S+)"),
    }


def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.machine()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return "unknown distribution"


def _said(command: list[str], pattern: str) -> str:
    if not shutil.which(command[0]):
        return "not installed"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = re.search(pattern, done.stdout + done.stderr)
    return found[1] if found else "unknown"
