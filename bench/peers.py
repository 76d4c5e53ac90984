"""Peers from PyPI and npm, where `make bench-peers` has installed them."""

from __future__ import annotations

from bench.targets import Spec


def peers_for(front: str, back: str) -> list[Spec]:
    """Those that can stand between these two transports."""
    return []
