"""Keeping out of memory what others would load and nobody here would use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any


def without(name: str, work: Callable[[], object]) -> None:
    """Does `work` as if there were no module called `name`; whoever copes without it is spared it."""
    modules: dict[str, Any] = sys.modules
    if name in modules:
        work()
        return
    modules[name] = None  # what the import system reads as: there is no such module
    try:
        work()
    finally:
        del modules[name]


def make_lazy(name: str, parts: Iterable[str] = ()) -> None:
    """Puts a module in the place of `name` that fills itself when something of it is used.

    It has at once what those `parts` of it offer that are named. Not importlib's LazyLoader: there the next
    import statement is a use already.
    """
    from importlib import import_module, util

    spec = util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    loader = spec.loader
    module = util.module_from_spec(spec)

    def fill(missing: str) -> Any:
        if missing.startswith("__"):
            raise AttributeError(missing)
        del module.__dict__["__getattr__"]
        without("ssl", lambda: loader.exec_module(module))
        return getattr(module, missing)

    sys.modules[name] = module
    for part in parts:
        offered = import_module(f"{name}.{part}")
        for public in getattr(offered, "__all__", ()):
            setattr(module, public, getattr(offered, public))
    module.__dict__["__getattr__"] = fill  # not sooner: parts look for each other here


def import_msgspec() -> None:
    """Imports msgspec without typing_extensions, which it looks for and can do without: 1 MB and 12 ms."""
    without("typing_extensions", lambda: __import__("msgspec"))
