"""34: without callers and profiles in the file, nothing of this is loaded by a listener either."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pairs import Upstream, said

PEEK = """
import atexit, os, sys
def _leave():
    with open(os.environ["PENSTOCK_TEST_MODULES"], "w") as file:
        file.write("\\n".join(sys.modules))
atexit.register(_leave)
"""


def test_34_a_plain_listener_loads_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(PEEK)
    loaded = tmp_path / "modules"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PENSTOCK_TEST_MODULES": str(loaded)}
    with Upstream("streamable", tmp_path) as upstream, (tmp_path / "err").open("wb") as errors:
        words = [sys.executable, "-m", "penstock", "--listen", "0", *upstream.words()]
        process = subprocess.Popen(words, env=env, stderr=errors)
        said(tmp_path / "err", rb"Listening on (\S+)", process)
        process.terminate()
        assert process.wait(20) == 0
    names = set(loaded.read_text().splitlines())
    assert "penstock.downstream.router" in names
    assert not {name for name in names if name.startswith(("penstock.auth", "jwt", "ssl", "cryptography"))}
    assert not names & {
        "penstock.open_access",
        "penstock.downstream.access_router",
        "penstock.config.access_file",
    }
