"""Interceptors that have no objection to anything, for tests of what they are called."""

from __future__ import annotations

from typing import Any


class Quiet:
    def __init__(self, config: Any) -> None: ...

    def review(self, message: Any, context: Any, effects: Any) -> None: ...


class Other(Quiet):
    pass
