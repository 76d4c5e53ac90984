"""Where published software is installed for these trials: a folder of its own, outside the repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

_PIP = [sys.executable, "-m", "pip"]
_NPM = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps", "--silent"]
_SECONDS = 600


def folder() -> Path:
    """PENSTOCK_REAL_WORLD, or a folder in the user's cache."""
    given = os.environ.get("PENSTOCK_REAL_WORLD")
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "penstock-real-world"


def python_home(package: str) -> Path:
    """The environment of one package: no two have to agree on what they depend on."""
    return folder() / "py" / re.sub(r"[\[\]<=>]", "_", package)


def node_home(package: str) -> Path:
    """The folder of one npm package."""
    return folder() / "node" / package.replace("/", "+")


def maybe_version(registry: str, package: str) -> str | None:
    """Which version is installed; None when it is not."""
    if registry == "npm":
        about = node_home(package) / "node_modules" / package / "package.json"
        if not about.exists():
            return None
        return str(json.loads(about.read_text())["version"])
    python = python_home(package) / "bin" / "python"
    if not python.exists():
        return None
    name = re.split(r"[\[<=>]", package)[0]
    words = f"import importlib.metadata as m; print(m.version({name!r}))"
    done = subprocess.run([str(python), "-c", words], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def install(registry: str, package: str, also: tuple[str, ...] = ()) -> str | None:
    """Installs a package, with others beside it, unless it is there; why it cannot be, if so."""
    if maybe_version(registry, package) is not None:
        return None
    if registry == "npm":
        home = node_home(package)
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text('{"private":true}')
        command, where = [*_NPM, package, *also], home
    else:
        where = python_home(package)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(where)], check=True)
        command = [*_PIP, "--python", str(where / "bin" / "python"), "install", "-q", package, *also]
    try:
        done = subprocess.run(
            command, cwd=where, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"installing it took more than {_SECONDS} s"
    except FileNotFoundError:
        return "npm is not here"
    lines = done.stderr.strip().splitlines() or ["no reason given"]
    return None if done.returncode == 0 else lines[-1][:100]
