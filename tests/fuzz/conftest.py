"""What the replayed seeds share."""

from __future__ import annotations

from quiet_log import quiet

__all__ = ["quiet"]
