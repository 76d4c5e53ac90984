"""Python code beside the configuration file: found, typed, and as documented."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ruled import WAYS, Ruled, rule

PAGE = (Path(__file__).parents[3] / "docs" / "rules.md").read_text()
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

SHOUT = """
import loudness

def shout(value):
    return loudness.of(value)
"""
LOUDNESS = """
def of(value):
    return value.upper()
"""


def _config(work: Path) -> dict[str, Any]:
    (work / "few_words.py").write_text(EXAMPLE)
    (work / "shouting.py").write_text(SHOUT)
    (work / "loudness.py").write_text(LOUDNESS)
    return {
        "method_interceptors": {"tools/call": {"class": "few_words:FewWords", "config": {"most": 3}}},
        "rules": [
            rule(
                "loud",
                [{"tool": "echo"}],
                {"transform": {"call": "shouting:shout", "field": "arguments.text"}},
            )
        ],
    }


def test_the_example_on_the_page_is_what_strict_types_allow(tmp_path: Path) -> None:
    path = tmp_path / "few_words.py"
    path.write_text(
        EXAMPLE + "\n\nfrom penstock.plugin import Interceptor\n\n_: type[Interceptor] = FewWords\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("way", WAYS[:2])
def test_modules_beside_the_file_are_found_and_do_as_documented(way: str, tmp_path: Path) -> None:
    work = tmp_path / "files"
    work.mkdir()
    config = _config(work)

    class Beside(Ruled):
        def write(self, interceptor: dict[str, Any] | None, is_renamed: bool = False) -> None:
            self.file = work / "penstock.yaml"
            super().write(interceptor, is_renamed)

    with Beside(way, tmp_path, config) as ruled:

        def call(arguments: bytes) -> Any:
            return ruled.client.ask("tools/call", b'{"name":"echo","arguments":%b}' % arguments)

        assert "result" in call(b'{"text":"say it"}')
        assert ruled.reached("SAY IT")
        blocked = call(b'{"text":"one two three four"}')["error"]
        assert blocked["message"] == "4 words, and 3 are the most"
        assert blocked["data"]["rule"] == "method_interceptors.tools/call"
        # A name that stands twice has no one meaning; what the class is not given it does not judge.
        assert "could not be carried out" in call(b'{"text":"a","text":"b c d e"}')["error"]["message"]
        assert not ruled.reached("b c d e")


def test_nothing_beside_the_file_takes_the_place_of_an_installed_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')\n")
    (tmp_path / "zoo.py").write_text("import json\n\ndef keep(value):\n    return value\n")
    path = tmp_path / "gate.json"
    path.write_text(json.dumps({"interceptor": {"rules": [rule("a", [], {"transform": "zoo:keep"})]}}))
    code = (
        "import sys\n"
        "from penstock.config.file import load_file\n"
        f"config = load_file({str(path)!r})\n"
        f"assert {str(tmp_path)!r} not in sys.path\n"
        "print(config.interceptor.rules[0].actions[0].call.function(1))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd="/"
    )
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


def test_a_module_that_fails_is_a_fault_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('not today')\n")
    path = tmp_path / "gate.json"
    path.write_text(json.dumps({"interceptor": {"rules": [rule("a", [], {"transform": "broken:x"})]}}))
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "check", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert 'cannot load "broken:x"; RuntimeError: not today' in done.stderr
