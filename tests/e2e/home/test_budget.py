"""What a tool list may cost, and that the same list is the same bytes every time."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gate import SCRIPTED, Gate, request
from home_folder import PENSTOCK


def _page(*tools: dict[str, object]) -> bytes:
    whole = [{"inputSchema": {"type": "object"}, **tool} for tool in tools]
    return json.dumps({"tools": whole}).encode()


MANY = _page(*({"name": f"tool_{n}", "description": "word " * (10 * n)} for n in range(1, 9)))
ODD = _page(
    *({"name": name, "description": "word " * 20} for name in ("a.b", "a$b", "a/b", "axb", "a,b", "ab"))
)


def _run(tmp_path: Path, page: bytes, *words: str) -> subprocess.CompletedProcess[str]:
    pages = tmp_path / "pages"
    pages.write_bytes(page + b"\n")
    command = [str(PENSTOCK), *words, "--", sys.executable, "-S", str(SCRIPTED), "--pages", str(pages)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )


def test_a_list_that_costs_too_much_is_refused_with_flags_that_make_it_fit(tmp_path: Path) -> None:
    done = _run(tmp_path, MANY, "tools", "--max-tokens", "200", "--keep", "^tool_8$")
    assert done.returncode == 1
    assert re.search(
        r"^Error: The tool list costs about [0-9]+ tokens, more than --max-tokens 200$", done.stderr, re.M
    )
    found = re.search(r"^This fits \(([0-9]+)\): (--deny .*)$", done.stderr, re.M)
    assert found is not None
    assert int(found[1]) <= 200
    flags = shlex.split(found[2])
    assert "tool_8" not in flags[1]
    with Gate(tmp_path, "--max-tokens", "200", *flags, pages=[MANY]) as gate:
        gate.handshake()
        names = [tool["name"] for tool in gate.ask("tools/list")["result"]["tools"]]
        assert "tool_8" in names
        assert 0 < len(names) < 8


def test_a_client_over_stdio_gets_no_list_that_is_too_dear(tmp_path: Path) -> None:
    with Gate(tmp_path, "--max-tokens", "20", pages=[MANY]) as gate:
        gate.handshake()
        gate.rest()
        assert gate.process.wait(20) == 1
        assert "more than --max-tokens 20" in gate.stderr


def test_a_warning_lets_the_list_pass(tmp_path: Path) -> None:
    done = _run(tmp_path, MANY, "tools", "--warn-tokens", "20")
    assert done.returncode == 0
    assert "more than --warn-tokens 20" in done.stderr


def test_names_with_dots_dollars_slashes_and_commas_vanish_exactly(tmp_path: Path) -> None:
    done = _run(tmp_path, ODD, "tools", "--max-tokens", "40", "--keep", "^axb$")
    found = re.search(r": (--deny .*)$", done.stderr, re.M)
    assert found is not None
    left = _run(tmp_path, ODD, "tools", "--format", "names", *shlex.split(found[1]))
    assert left.stdout.split() == ["axb"]


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", ""])
def test_a_budget_that_is_no_number_is_said_so(tmp_path: Path, value: str) -> None:
    done = _run(tmp_path, MANY, "tools", f"--max-tokens={value}")
    assert done.returncode == 1
    assert "Invalid --max-tokens" in done.stderr


def test_the_list_is_the_same_bytes_in_every_session(tmp_path: Path) -> None:
    lists = set()
    for _ in range(20):
        with Gate(tmp_path, "--deny", "tool_3", pages=[MANY]) as gate:
            gate.handshake()
            gate.say(request(b"1", "tools/list"))
            lists.add(gate.answer(b"1"))
    assert len(lists) == 1


def test_the_list_can_be_sorted_by_name_and_its_digest_follows_what_it_says(tmp_path: Path) -> None:
    tools = json.loads(ODD)["tools"]
    again = json.dumps({"tools": [dict(reversed(tool.items())) for tool in tools]}, indent=1).replace(
        "\n", " "
    )

    def digest(page: bytes, *words: str) -> str:
        return json.loads(_run(tmp_path, page, "tools", "--format", "json", *words).stdout)["digest"]

    assert digest(ODD) == digest(again.encode())
    assert digest(ODD) != digest(ODD.replace(b"word", b"words", 1))
    shown = _run(tmp_path, ODD, "tools", "--format", "names", "--order", "name").stdout.split()
    assert shown == sorted(tool["name"] for tool in tools)
    turned = json.dumps({"tools": tools[::-1]}).encode()
    assert digest(ODD, "--order", "name") == digest(turned, "--order", "name")


def test_exact_counts_need_an_extra_and_else_the_estimate_is_given_with_a_remark(tmp_path: Path) -> None:
    words = ("tools", "--deny", "^a", "--format", "json", "--tokenizer", "o200k")
    done = _run(tmp_path, ODD, *words)
    assert done.returncode == 0
    report = json.loads(done.stdout)
    if "Estimated instead" in done.stderr:
        plain = json.loads(_run(tmp_path, ODD, *words[:-2]).stdout)
        assert report == plain
    else:
        assert report["tokens"]["note"] == "counted with o200k"
        assert report["tokens"]["denied"] > 0
