"""Faults: relays that delay, cut, slice, stall and reset, parties that die, and a machine that runs out."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# The clients on raw bytes and the scripted upstreams are the tests' own.
for _place in ("tests", "tests/upstreams"):
    if str(ROOT / _place) not in sys.path:
        sys.path.append(str(ROOT / _place))
