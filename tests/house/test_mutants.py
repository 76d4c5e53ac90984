"""The tool that breaks the gate on purpose: what it changes, and that it tells killed from survived."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "scripts" / "mutants"

PROBE = """
import sys
from pathlib import Path
sys.path.insert(0, {tool!r})
from mutation import Mutation
for mutant in Mutation(Path({path!r})).mutants:
    print(mutant.key)
"""


def _mutants(work: Path, source: str) -> list[str]:
    path = work / "sample.py"
    path.write_text(source)
    probe = PROBE.format(tool=str(TOOL), path=str(path))
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("x = a < b", ["a < b -> a <= b"]),
        ("x = a and b", ["a and b -> b", "a and b -> a"]),
        ("x = a + b", ["a + b -> a", "a + b -> b"]),
        ("x = not a", ["not a -> a"]),
        ("x = 3", ["3 -> 4"]),
        ("x = b'y'", ["b'y' -> b'XXy'"]),
        ("x = {1, 2}", ["{1, 2} -> {2}", "{1, 2} -> {1}", "1 -> 2", "2 -> 3"]),
        ("x = 'a b'.split()", ["'a b'.split() -> 'b'.split()", "'a b'.split() -> 'a'.split()"]),
        ("x = a[1:]", ["1: -> :", "1 -> 2"]),
        ("a.b = c", ["a.b = c -> pass"]),
        ("x: int = y", []),
        ("X = A | None", []),
        ("X = Callable[[A, B], A | None]", []),
        ("if TYPE_CHECKING:\n    x = 3", []),
        ("x = cast('A', y)", []),
        ("X = TypeVar('X')", []),
        ("X = Literal['a', 'b']", []),
        ("'only a docstring'", []),
        ("x = r'a|b'", ["'a|b' -> 'b'", "'a|b' -> 'a'"]),
        (
            "x = r'[ab]*'",
            ["'[ab]*' -> '[^ab]*'", "'[ab]*' -> '[b]*'", "'[ab]*' -> '[a]*'", "'[ab]*' -> '[ab]+'"],
        ),
        ("x = r'(?:a|b|c)d'", [f"'(?:a|b|c)d' -> '(?:{rest})d'" for rest in ("b|c", "a|c", "a|b")]),
        ("x = r'a{2,3}?'", ["'a{2,3}?' -> 'a{2,4}?'", "'a{2,3}?' -> 'a{3,3}?'", "'a{2,3}?' -> 'a{2,3}'"]),
    ],
)
def test_what_is_changed(tmp_path: Path, source: str, wanted: list[str]) -> None:
    assert _mutants(tmp_path, source) == [f"module: {text}" for text in wanted]


def test_a_change_in_a_function_says_where_it_is(tmp_path: Path) -> None:
    source = "class A:\n    def f(self, x: int = 1) -> 'B':\n        return x\n"
    assert _mutants(tmp_path, source) == ["A.f: 1 -> 2"]


TRIAL = """
import os, sys
os.chdir({root!r})
sys.path[:0] = [{source!r}, {tool!r}]
from collections import Counter
from pathlib import Path
from mutation import Mutation
from trial import trial
path = Path({source!r}) / "penstock" / "relay" / "batch_replies.py"
tests = ["tests/unit/relay/test_gathering.py::" + name for name in {tests!r}]
mutation = Mutation(path)
wanted = next(mutant for mutant in mutation.mutants if {text!r} in mutant.key)
killers = Counter()
print(trial(mutation, None, tests, 60, killers), trial(mutation, wanted, tests, 60, killers), sep=", ")
"""


@pytest.mark.parametrize(
    ("text", "tests", "outcome"),
    [
        ("seal: True -> False", ["test_answers_are_given_when_all_are_there"], "survived, killed"),
        ("expect_less: 1 -> 2", ["test_answers_are_given_when_all_are_there"], "survived, survived"),
    ],
)
def test_a_mutant_lives_only_where_no_test_notices(text: str, tests: list[str], outcome: str) -> None:
    probe = TRIAL.format(root=str(ROOT), source=str(ROOT / "src"), tool=str(TOOL), tests=tests, text=text)
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=110
    )
    assert done.stdout.strip() == outcome
