"""Bringing a code to a browser: by a file that only its owner reads, or to the person at the terminal.

Never in an argument, which every process of the machine can read, and never in a log.
"""

from __future__ import annotations

import html
import logging
import os
import sys
import threading
from typing import Any

from penstock.watch import runtime

log = logging.getLogger("penstock")
_KEPT_SECONDS = 30.0


def show_in_browser(found: dict[str, Any], opens: bool) -> None:
    """Opens a browser at the hub, logged in; on a terminal the address is written there as well."""
    address = f"{found['url']}#code={found['code']}"
    if sys.stderr.isatty():
        sys.stderr.write(f"Live view: {address}\n")
        sys.stderr.flush()
    else:
        log.info("Live view: %s", found["url"])
    if not opens or not _has_display():
        return
    import webbrowser

    path = _redirect_file(address)
    threading.Timer(_KEPT_SECONDS, lambda: _remove(path)).start()
    webbrowser.open(f"file://{path}")


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _redirect_file(address: str) -> str:
    path = os.path.join(runtime.runtime_folder(), f"open.{os.getpid()}.html")
    _remove(path)
    page = f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">'
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(page)
    return path


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
