"""Who works for a process as a whole, whatever it serves: observers, the fleet, the warden of children."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.config.model import ProxyConfig
from penstock.net.warden import Warden
from penstock.observers import open_observers

if TYPE_CHECKING:
    from penstock.gate.record import Observer
    from penstock.peers import Peers


@asynccontextmanager
async def staff(config: ProxyConfig) -> AsyncIterator[tuple[list[Observer], Peers | None, Warden]]:
    """Opens them in order, and lets them go when all is over."""
    observers = await open_observers(config)  # first: who cannot keep what was asked for starts nothing
    fleet: Peers | None = None
    if config.worker is not None and config.shared is None:
        from penstock.open_workers import WorkerPeers

        fleet = WorkerPeers(config.worker, config.divides_limits)
    elif config.shared is not None:
        from penstock.open_fleet import open_fleet

        fleet = await open_fleet(config)
    warden = Warden()
    try:
        yield observers, fleet, warden
    finally:
        warden.dismiss()
        if fleet is not None:
            await fleet.close()
        for observer in observers:
            observer.close()
