"""For tests that are refused by the hundred: what is refused is logged, and not worth a line each."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Leaves the log as it was for the tests that read it."""
    log = logging.getLogger("penstock")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)
