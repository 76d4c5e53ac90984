"""Who observes: one row for each observer that a configuration can ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.config.model import ProxyConfig

if TYPE_CHECKING:  # loaded only where somebody observes
    from penstock.gate.record import Observer

Opener = Callable[[ProxyConfig], "Observer | None"]

ROWS: tuple[Opener, ...] = ()
"""Each gives back its observer, or None when the configuration does not ask for it. What the observer needs
is imported inside, so that nobody pays for it who did not ask."""


def open_observers(config: ProxyConfig) -> list[Observer]:
    """The observers that `config` asks for."""
    return [observer for row in ROWS if (observer := row(config)) is not None]
