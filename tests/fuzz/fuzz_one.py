"""Fuzzes one target with atheris until told to stop: `python fuzz_one.py TARGET [libFuzzer options]`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import atheris  # noqa: E402 - the paths come first
import targets  # noqa: E402


def main() -> None:
    """Coverage is that of Penstock alone: the readers and oracles are not to be explored."""
    logging.getLogger("penstock").setLevel(logging.CRITICAL)  # refusals are what most inputs get
    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=["penstock"]):
        check = targets.load(name)
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
