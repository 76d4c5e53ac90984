"""Every Python that the tests can be run on is found, and each version once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "find_pythons"


def test_each_version_from_3_11_up_is_found_once_and_is_what_it_is_said_to_be() -> None:
    found = subprocess.run([SCRIPT], capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = [line.split(" ", 1) for line in found]
    versions = [version for version, _ in pairs]
    assert "{}.{}".format(*sys.version_info[:2]) in versions
    assert len(set(versions)) == len(versions)
    for version, python in pairs:
        said = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout
        assert said.startswith(f"Python {version}.")
        assert tuple(map(int, version.split("."))) >= (3, 11)
