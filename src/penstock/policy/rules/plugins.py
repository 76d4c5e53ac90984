"""Python code of the user's, by import path: `package.module:name` (or `package.module.name`)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from penstock.policy.binder import READERS, Misread, Reader
from penstock.policy.faults import Fault, Place


class Callee(Struct, frozen=True):
    """A function, and what it was called in the file."""

    source: str
    function: Callable[[Any], Any]

    def __str__(self) -> str:
        return self.source


_may_load: ContextVar[bool] = ContextVar("may_load", default=True)


@contextmanager
def without_code() -> Iterator[None]:
    """Within this nothing is imported: for rules that somebody merely tries."""
    before = _may_load.set(False)
    try:
        yield
    finally:
        _may_load.reset(before)


def load(source: object) -> Any:
    """What stands at an import path. Raises Misread."""
    if not _may_load.get():
        raise Misread("code is not run where rules are merely tried", "leave this rule out")
    if not isinstance(source, str):
        raise Misread("must be an import path such as package.module:name")
    module_name, colon, name = source.partition(":")
    if not colon:
        module_name, _, name = source.rpartition(".")
    if not module_name or not name or module_name.startswith("."):
        raise Misread(f'invalid import path "{source}"', "write it like package.module:name")
    try:
        found: Any = importlib.import_module(module_name)
        for step in name.split("."):
            found = getattr(found, step)
    except Exception as why:  # the module is the user's: anything may go wrong in it
        raise Misread(f'cannot load "{source}"', f"{type(why).__name__}: {why}") from None
    return found


def _read_callee(value: object, place: Place, faults: list[Fault]) -> Callee:
    found = load(value)
    if not callable(found):
        raise Misread(f'"{value}" cannot be called')
    return Callee(str(value), found)


READERS[Callee] = Reader(_read_callee, {"type": "string", "description": "an import path: module:function"})
