"""AgentDojo's tasks as sessions: the ground truth of its wheel, run without a model and without a network.

The wheel imports the clients of many model vendors; none of them is called here, so names stand in for them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

WHEEL = "agentdojo==0.1.35"
SUITES = ("banking", "slack", "travel", "workspace")
_NEVER_CALLED = (
    "anthropic",
    "cohere",
    "google",
    "langchain",
    "openai",
    "tenacity",
    "vertexai",
    "torch",
    "transformers",
)


class Step(NamedTuple):
    """One call and what it answered."""

    tool: str
    arguments: dict[str, Any]
    result: str
    is_error: bool = False


class Run(NamedTuple):
    """One session."""

    suite: str
    name: str
    steps: tuple[Step, ...]
    is_attack: bool = False
    injected: int = 0  # so many of the steps, at the end, are the injection's


class _Stub(types.ModuleType):
    """Stands for a package that is imported and never used."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)


class _AnyMeta(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __getitem__(cls, item: Any) -> Any:
        return cls


class _Anything(metaclass=_AnyMeta):
    """Takes whatever it is given, and decorates nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        return arguments[0] if arguments else self

    def __or__(self, other: Any) -> Any:
        return self

    __add__ = __or__


def _stand_in(name: str) -> Any:
    return _AnyMeta(name, (_Anything,), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if name.split(".")[0] in _NEVER_CALLED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def load(wheel: Path, folder: Path) -> Any:
    """AgentDojo's suites, from the wheel unpacked into `folder`."""
    if not (folder / "agentdojo").is_dir():
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
    sys.meta_path.insert(0, _Finder())
    sys.path.insert(0, str(folder))
    from agentdojo.task_suite.load_suites import get_suite  # type: ignore[import-not-found]

    return get_suite


def runs(get_suite: Any, version: str = "v1.2") -> Iterator[Run]:
    """All benign sessions, then each of them with each injection's calls where that is carried out."""
    for name in SUITES:
        suite = get_suite(version, name)
        from agentdojo.functions_runtime import FunctionsRuntime

        for user_id, user in suite.user_tasks.items():
            environment = suite.load_and_inject_default_environment({})
            environment = user.init_environment(environment)
            runtime = FunctionsRuntime(suite.tools)
            benign = tuple(_steps(runtime, environment, user.ground_truth(environment)))
            yield Run(name, user_id, benign)
            for injection_id, injection in suite.injection_tasks.items():
                world = environment.model_copy(deep=True)
                added = tuple(_steps(runtime, world, injection.ground_truth(world)))
                if added:
                    carried = _carried(benign, str(injection.GOAL))
                    yield Run(name, f"{user_id}+{injection_id}", carried + added, True, len(added))


def _carried(steps: tuple[Step, ...], goal: str) -> tuple[Step, ...]:
    """The user's own steps, with the injected text in the last answer: it names what it wants done."""
    if not steps:
        return (Step("get_webpage", {}, goal),)
    last = steps[-1]
    return (*steps[:-1], last._replace(result=f"{last.result}\n{goal}"))


def _steps(runtime: Any, environment: Any, calls: Any) -> Iterator[Step]:
    for call in calls:
        result, error = runtime.run_function(environment, call.function, call.args)
        text = msgspec.json.encode(_plain(result)).decode() if error is None else str(error)
        yield Step(call.function, dict(_plain(dict(call.args))), text, error is not None)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
