"""How long the properties are tried: a moderate number of examples, the same ones each time.

`HYPOTHESIS_PROFILE=long` tries many more, new ones each time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

_HEALTH = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "properties", deadline=None, derandomize=True, max_examples=500, suppress_health_check=_HEALTH
)
settings.register_profile(
    "long",
    deadline=None,
    derandomize=False,
    max_examples=20_000,
    suppress_health_check=_HEALTH,
    print_blob=True,
)
settings.load_profile("long" if os.environ.get("HYPOTHESIS_PROFILE") == "long" else "properties")


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """A thousand refusals are not worth a line each."""
    log = logging.getLogger("penstock")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)
