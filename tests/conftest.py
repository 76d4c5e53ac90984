"""Where tests find the upstreams and clients that they share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "upstreams"))
