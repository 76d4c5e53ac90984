"""How long the properties are tried: a moderate number of examples, the same ones each time.

`HYPOTHESIS_PROFILE=long` tries many more, new ones each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from quiet_log import quiet

__all__ = ["quiet"]

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
