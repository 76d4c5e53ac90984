"""Which tests run which lines, and how long each takes: so that a mutant meets only tests that reach it."""

from __future__ import annotations

import ast
import importlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

import pytest

EVERYWHERE = ("", 0)
_WATCHED_LINES = 50_000
"""Of one test. Watching is slow, so who has run so many is taken to go everywhere."""


def importers(module: str, tests: Sequence[Path]) -> list[Path]:
    """The test files that import `module` themselves, its own first: they are about it."""
    found = [path for path in tests if module in _imports(path)]
    return sorted(found, key=lambda path: (path.stem != "test_" + module.rpartition(".")[2], path))


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return names


class Watcher:
    """A pytest plugin that notes the lines of some files that each test runs."""

    def __init__(self, files: set[str]) -> None:
        self._files = files
        self._seen: set[tuple[str, int]] = set()
        self._left = _WATCHED_LINES
        self.imported: set[tuple[str, int]] = set()
        self.reached: dict[str, set[tuple[str, int]]] = {}
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._forget()
        self._seen = set()
        self._left = _WATCHED_LINES
        began = time.perf_counter()
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            # Watching all that hypothesis does takes minutes, and such a test goes everywhere anyhow.
            self._seen.add(EVERYWHERE)
            yield
        else:
            sys.settrace(self._enter)
            yield
            sys.settrace(None)
        self.seconds[item.nodeid] = time.perf_counter() - began
        self.reached[item.nodeid] = self._seen

    def watch_import(self, modules: Sequence[str]) -> None:
        """Notes the lines that importing the modules runs, functions that are called then included."""
        sys.settrace(self._enter)
        for module in modules:
            importlib.import_module(module)
        sys.settrace(None)
        self.imported = self._seen

    def _forget(self) -> None:
        """Empties the caches of the watched modules: who would find something there runs the lines now."""
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) in self._files:
                for value in vars(module).values():
                    if hasattr(value, "cache_clear"):
                        value.cache_clear()

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if frame.f_code.co_filename in self._files and self._left else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._seen.add((frame.f_code.co_filename, frame.f_lineno))
            self._left -= 1
            if not self._left:
                sys.settrace(None)
                self._seen.add(EVERYWHERE)
                return None
        return self._line


class Chooser:
    """A pytest plugin that keeps some tests, the quickest first."""

    def __init__(self, wanted: list[str]) -> None:
        self._order = {nodeid: place for place, nodeid in enumerate(wanted)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )


class Witness:
    """A pytest plugin that writes down which test failed."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._file.write(report.nodeid)
            self._file.flush()


class WithoutShrinking:
    """A pytest plugin: whether a test fails is all that is asked, not for which smallest example."""

    def pytest_collection(self) -> None:
        # Between conftest, which loads the house's profile, and the tests, which are made with it.
        from hypothesis import Phase, settings

        settings.register_profile(
            "mutants",
            parent=settings.get_profile("penstock"),
            phases=(Phase.explicit, Phase.generate),
            max_examples=40,
        )
        settings.load_profile("mutants")
