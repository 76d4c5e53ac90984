"""`penstock tools` prints when it knows, and says what --read-only makes of a server without annotations."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from gate import SAMPLE, SCRIPTED

TOOL = '{"name":"%s","inputSchema":{"type":"object"}}'


def test_tools_are_printed_when_they_are_known_and_not_when_the_upstream_has_left() -> None:
    slow = [sys.executable, "-S", str(SCRIPTED), "--ignore-eof"]
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", "tools", "--format", "names", "--", *slow],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"echo\n"
        printed = time.monotonic()
        assert process.wait(60) == 0
        assert time.monotonic() - printed > 2  # the upstream takes all its time


def test_read_only_before_a_server_without_annotations_says_so(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.write_text(f'{{"tools":[{TOOL % "a"},{TOOL % "b"}]}}\n')
    upstream = [sys.executable, "-S", str(SCRIPTED), "--pages", str(pages)]
    shown = subprocess.run(
        [sys.executable, "-m", "penstock", "tools", "--read-only", "--", *upstream],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "--read-only hides every tool: this upstream annotates none with readOnlyHint" in shown.stderr
    assert shown.stdout.count("--read-only: it has no readOnlyHint") == 2


def test_validate_without_its_extra_ends_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mcp_types.py").write_text("raise ImportError('not here')\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "penstock",
            "--stdio",
            "--validate",
            "strict",
            "--",
            sys.executable,
            str(SAMPLE),
        ],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert (
        b"Error: --validate strict needs the package mcp-types\nInstall it with: pip install" in done.stderr
    )
    assert b"Traceback" not in done.stderr
