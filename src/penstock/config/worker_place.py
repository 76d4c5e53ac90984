"""What one of several processes on a port is given at its start."""

from __future__ import annotations

from msgspec import Struct


class WorkerPlace(Struct, frozen=True):
    """A worker's place among its siblings."""

    number: int
    count: int
    sockets: tuple[int, ...]  # descriptors that listen on the port
    folder: str  # where workers find each other
    secret: bytes  # with which they know each other
    leash: int  # a descriptor that ends when the supervisor does
