"""Where Penstock runs, and the sentence for where it does not.

What is promised on which system: docs/platforms.md. Names that exist only on some systems are used behind a
guard; tests/house/test_portable_names.py knows the list.
"""

from __future__ import annotations

import os
import sys

from penstock.errors import PenstockError


class UnsupportedSystem(PenstockError):
    """A system on which a proxy cannot be run."""

    def __init__(self, system: str) -> None:
        super().__init__(
            f"Penstock cannot proxy on {system}",
            "It needs pipes that an event loop can watch, and process groups; on Windows, run it inside WSL",
        )


def refuse_unfit_system() -> None:
    """Raises UnsupportedSystem where there are no process groups or pipes that can be watched."""
    if sys.platform == "win32" or not hasattr(os, "killpg"):
        raise UnsupportedSystem("Windows" if sys.platform == "win32" else sys.platform)
