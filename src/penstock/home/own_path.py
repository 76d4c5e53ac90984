"""The path under which a client shall start Penstock: one that is still there after an update.

Homebrew's Cellar and the folders of pipx and uv carry a version or a hash; the links to them do not. What
runs from a cache may be gone tomorrow.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigError

_LINKS = ("{home}/.local/bin", "/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin")
_CACHES = (
    "/uv/archive-v",
    "/uv/environments-v",
    "/uv/builds-v",
    "/.cache/uv/",
    "/pipx/.cache/",
    "/.cache/pipx/",
)


def own_path(home: Path, environ: Mapping[str, str], started_as: str | None = None) -> str:
    """An absolute path to this Penstock that will last. Raises ConfigError when there is none."""
    here = _started(started_as if started_as is not None else sys.argv[0])
    if is_in_cache(str(here), environ) or is_in_cache(os.path.realpath(here), environ):
        raise ConfigError(
            "This Penstock runs from a cache, and may be gone tomorrow",
            "Install it first: uv tool install penstock (or pipx install penstock)",
        )
    real = os.path.realpath(here)
    folders = [folder.format(home=home) for folder in _LINKS] + environ.get("PATH", "").split(os.pathsep)
    for folder in folders:
        link = os.path.join(folder, "penstock")
        if os.path.isabs(link) and os.path.islink(link) and os.path.realpath(link) == real:
            return link
    if "/Cellar/" in real:
        raise ConfigError("This Penstock has no link in Homebrew's bin", "Run: brew link penstock")
    if not os.access(here, os.X_OK):
        raise ConfigError(f"There is no program to start at {here}", "Install Penstock, or use --bare")
    return str(here)


def is_in_cache(path: str, environ: Mapping[str, str]) -> bool:
    """Whether a path lies in a folder that is cleaned whenever somebody likes."""
    folder = environ.get("UV_CACHE_DIR")
    if folder and path.startswith(os.path.realpath(folder) + os.sep):
        return True
    return any(part in path for part in _CACHES)


def _started(word: str) -> Path:
    if os.path.basename(word) in ("penstock", "penstock.exe") and os.sep in word:
        return Path(os.path.abspath(word))
    return Path(sys.prefix, "bin", "penstock")  # python -m penstock
