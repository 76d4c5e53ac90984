"""Every seed, and every input that once found a fault, through the same checks, without the fuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets import SEEDS, TARGETS, load

INPUTS = sorted(path for name in TARGETS for path in (SEEDS / name).iterdir())


@pytest.mark.parametrize("path", INPUTS, ids=[f"{path.parent.name}/{path.name}" for path in INPUTS])
def test_a_seed_finds_nothing(path: Path) -> None:
    load(path.parent.name)(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_seeds_and_takes_anything(name: str) -> None:
    assert len([path for path in INPUTS if path.parent.name == name]) >= 5
    check = load(name)
    for data in (b"", b"\0", b"\xff" * 40, bytes(range(256))):
        check(data)
