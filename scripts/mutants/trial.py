"""Running tests against a changed module, each time in a process of its own.

The parent has imported everything that the tests need but Penstock and the tests themselves, and forks.
The child puts the changed code in the module's place before anybody imports it.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from mutation import Mutant, Mutation
from watching import Chooser, Watcher, WithoutShrinking, Witness

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
# No limit of pytest's own: watched tests are slow, and of mutants we know better how long they may take. No
# rewritten asserts and no plugins that no test needs: we ask whether a test fails, thousands of times.
QUIET = ("-q", "-x", "-o", "timeout=0", "-p", "pytest_timeout", "--assert=plain")
QUIET += tuple(
    f"-pno:{name}"
    for name in ("cacheprovider", "doctest", "junitxml", "pastebin", "faulthandler", "unittest")
)
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
KILLED, SURVIVED, TIMED_OUT, STILLBORN = "killed", "survived", "timed out", "stillborn"
_STILLBORN_CODE = 99
_BROKEN_CODE = 70
_SLEEP = 20.0  # no test sleeps for so long
_MEMORY = 3 * 1024**3  # a mutant may loop and fill lists; it must not take the machine with it


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


class _Loader(importlib.abc.Loader):
    def __init__(self, code: CodeType) -> None:
        self._code = code

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, code: CodeType, path: Path) -> None:
        self._name, self._code, self._path = name, code, path

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=_Loader(self._code))


def watch(files: Sequence[Path], tests: Sequence[str]) -> tuple[Watcher, list[str]]:
    """Runs all tests once on the code as it is; gives what each reaches, and the modules they needed."""
    with tempfile.TemporaryFile() as answer:

        def child() -> int:
            watcher = Watcher({str(path) for path in files})
            watcher.watch_import([module_name(path) for path in files])
            code = int(pytest.main([*QUIET, *tests], plugins=[watcher, WithoutShrinking()]))
            needed = [name for name in sys.modules if _may_be_shared(name)]
            pickle.dump((watcher.imported, watcher.reached, watcher.seconds, needed), answer)
            answer.flush()
            return code

        outcome = _in_a_child(child, None)
        if outcome != 0:
            raise SystemExit(f"The tests do not pass on the code as it is (exit code {outcome}).")
        answer.seek(0)
        imported, reached, seconds, needed = pickle.load(answer)
    watcher = Watcher(set())
    watcher.imported, watcher.reached, watcher.seconds = imported, reached, seconds
    return watcher, needed


def _may_be_shared(name: str) -> bool:
    """Modules that are no part of what is tried, so that the parent may import them once for all."""
    module = sys.modules[name]
    where = getattr(module, "__file__", None) or ""
    return not name.startswith(("penstock", "tests", "__m")) and not where.startswith(str(ROOT / "tests"))


def share(names: Sequence[str]) -> None:
    """Imports what every child would import."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            continue  # a module that only exists while something else is being imported
    assert not any(name.split(".")[0] == "penstock" for name in sys.modules)
    gc.freeze()


def trial(
    mutation: Mutation, mutant: Mutant | None, tests: list[str], seconds: float, killers: Counter[str]
) -> str:
    """What becomes of the module with one change; None tries the module as it is.

    The test that noticed is counted in `killers`.
    """

    def child() -> int:
        name = module_name(mutation.path)
        try:
            code = mutation.code(mutant)
            sys.meta_path.insert(0, _Finder(name, code, mutation.path))
            importlib.import_module(name)
        except BaseException:
            return _STILLBORN_CODE
        # File by file, the module's own first: most mutants end there, and the others need not be read.
        for file in dict.fromkeys(nodeid.partition("::")[0] for nodeid in tests):
            wanted = [nodeid for nodeid in tests if nodeid.startswith(file + "::")]
            try:
                code = pytest.main(
                    [*QUIET, file], plugins=[Chooser(wanted), Witness(witness), WithoutShrinking()]
                )
            except MemoryError:  # of a mutant that fills lists for ever, where pytest itself needs some
                return int(pytest.ExitCode.TESTS_FAILED)
            # Where the change made other test ids, none of the chosen ones may be left; that is no failure.
            if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return int(code)
        return 0

    with tempfile.TemporaryFile("w+") as witness:
        code = _in_a_child(child, seconds)
        witness.seek(0)
        killers[witness.read()] += 1
    if code is None:
        return TIMED_OUT
    if code == _STILLBORN_CODE:
        return STILLBORN
    if code in (pytest.ExitCode.USAGE_ERROR, _BROKEN_CODE):
        raise SystemExit("The tool is at fault: a trial could not be run.")
    return SURVIVED if code == 0 else KILLED


def _in_a_child(work: Callable[[], int], seconds: float | None) -> int | None:
    """The exit code of `work` in a child; None when it took too long.

    Seconds are the processor's, so that a busy machine makes no mutant look killed. One that waits for what
    never comes uses none: it is ended when it has slept for too long without a pause.
    """
    pid = os.fork()
    if pid == 0:
        code = _BROKEN_CODE
        try:
            os.setpgid(0, 0)
            quiet = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(quiet, descriptor)
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            if seconds is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (round(seconds), round(seconds) + 1))
            code = work()
        finally:
            os._exit(code)
    began = awake = time.monotonic()
    used: int | None = None
    while True:
        done, status = os.waitpid(pid, 0 if seconds is None else os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code
        now, before, used = time.monotonic(), used, _maybe_ticks_asleep(pid)
        if used is None or used != before:
            awake = now
        if seconds is not None and (now - began > 10 * seconds or now - awake > _SLEEP):
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.01)


def _maybe_ticks_asleep(pid: int) -> int | None:
    """The processor time that a process has used, if it is asleep; None where that cannot be told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[11]) + int(fields[12]) if fields[0] == "S" else None
