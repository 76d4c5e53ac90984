"""What can be fuzzed: a name, and the function that raises where something is wrong."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

TARGETS = ("gate", "large", "sse", "http", "uri", "config", "recording", "filter", "bridge")
HERE = Path(__file__).resolve().parent
SEEDS = HERE / "seeds"
"""A few inputs for each target, to begin with; and every input that once found a fault, under found-*."""


def load(name: str) -> Callable[[bytes], None]:
    """The check of a target."""
    check: Callable[[bytes], None] = importlib.import_module(f"target_{name}").check
    return check
