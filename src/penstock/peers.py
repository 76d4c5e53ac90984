"""Other processes that serve the same clients: whose a session is, and how its requests get there.

What is common to instances that share a Redis (`open_fleet`) and to the workers of one machine
(`open_workers`). Loaded only where there are others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.downstream.mcp_head import Door
from penstock.downstream.router import by_path
from penstock.fleet.following import Following, Whereabouts
from penstock.fleet.hop import Hops
from penstock.fleet.owner_door import OwnerDoors, Owners
from penstock.fleet.peer_door import PeerDoor
from penstock.fleet.session_ids import SessionIds
from penstock.net.http_server import HttpServer, ServerLimits
from penstock.state.seals import Seals

if TYPE_CHECKING:
    from penstock.effects.fork import OpenLink
    from penstock.effects.real import RealEffects
    from penstock.fleet.session_records import StoredRecords
    from penstock.net.warden import Warden
    from penstock.policy.rules.interceptor_config import InterceptorConfig


class Peers:
    """This process among others. By itself it shares nothing but sessions."""

    records: StoredRecords | None = None
    drain_seconds = 0.0
    """How long sessions may go on after we were asked to end."""

    def __init__(self, tag: str, seals: Seals, owners: Owners | None) -> None:
        """`owners` finds the others; None where sessions stay where they are."""
        self.tag = tag
        self.seals = seals
        self.is_draining = False
        self.count_sessions: Callable[[], int] = lambda: 0
        self.ids = SessionIds(seals, tag) if owners is not None else None
        self._owners = owners
        self._following: Following | None = None
        self._hops = Hops(seals)
        self._own: Door = by_path({})  # where what is ours goes
        self._server: HttpServer | None = None

    @property
    def word(self) -> str:
        """How it is with what is shared, in one word."""
        return "off"

    def health(self) -> tuple[int, bytes]:
        """What `/healthz` answers."""
        text = f"{'draining' if self.is_draining else 'ok'}\nshared: {self.word}\n".encode()
        return (503 if self.is_draining else 200), text

    def answer_peers(self, own: Door) -> None:
        """What other processes bring goes to `own` from now on."""
        self._own = own

    def front_doors(self, doors: dict[bytes, Door]) -> dict[bytes, Door]:
        """The doors for clients; what is another's goes there from them."""
        if self.ids is None or self._owners is None:
            return doors
        fronts = OwnerDoors(self.ids, self._hops, self._owners, self._following)
        return {path: fronts.around(door) for path, door in doors.items()}

    def follow(self) -> Following | None:
        """What children give to modern clients is followed from now on: each process has children of its
        own. None where sessions stay where they are."""
        if self.ids is not None and self._following is None:
            self._following = Following(self.seals, self.whereabouts())
        return self._following

    def whereabouts(self) -> Whereabouts:
        """Where processes tell each other what they have given out."""
        raise NotImplementedError

    def open_peer_server(self) -> HttpServer:
        """The server for what others bring."""
        door = PeerDoor(self._hops, self.tag, lambda request, reply: self._own(request, reply))
        self._server = HttpServer(door.handle, ServerLimits.affordable())
        return self._server

    async def listen(self) -> None:
        """Takes what others bring. Raises ConfigError."""

    async def close_peer_server(self) -> None:
        """Takes nothing more."""
        if self._server is not None:
            await self._server.drain(0.5)

    async def close(self) -> None:
        """Leaves the others."""
        await self.close_peer_server()

    # --- for rules ---------------------------------------------------------------------------------------

    def effects(self, warden: Warden, open_link: OpenLink) -> RealEffects:
        """What rules do outside."""
        from penstock.effects.real import RealEffects

        return RealEffects(warden, open_link)

    def shared_rules(self, rules: InterceptorConfig) -> InterceptorConfig:
        """The rules, with what they share."""
        return rules

    def rules_changed(self, digest: bytes) -> None:
        """Other rules are in force here."""
