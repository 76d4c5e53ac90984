"""Every known way round the gate, fired at a running Penstock: `make attack`."""

from __future__ import annotations

import sys
from pathlib import Path

# The clients, upstreams and readings are those of the tests, which pytest finds by its own settings.
_TESTS = Path(__file__).resolve().parents[2] / "tests"
for _folder in (_TESTS, _TESTS / "upstreams"):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))
