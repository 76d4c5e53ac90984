"""What is shared with other instances, opened once at the start. Loaded only where `shared` is named."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.config.model import ProxyConfig
from penstock.config.shared import SharedSettings
from penstock.downstream.mcp_head import Door
from penstock.downstream.router import by_path
from penstock.effects.shared import SharedEffects, SharedTerms
from penstock.errors import ConfigError
from penstock.fleet.directory import Directory
from penstock.fleet.hop import Hops
from penstock.fleet.members import Member, Members
from penstock.fleet.owner_door import OwnerDoors
from penstock.fleet.peer_door import PeerDoor
from penstock.fleet.session_ids import SessionIds
from penstock.fleet.session_records import StoredRecords
from penstock.net.http_server import HttpServer, ServerLimits
from penstock.policy.rules.interceptor_config import InterceptorConfig
from penstock.policy.rules.shared_actions import SharedUse, with_shared
from penstock.state.redis_link import RedisLink, Tls
from penstock.state.redis_store import RedisStore
from penstock.state.seals import Seals

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.effects.fork import OpenLink
    from penstock.net.warden import Warden

log = logging.getLogger("penstock")


class Fleet:
    """This instance's place among the others: the store, the names in it, and who else is there."""

    def __init__(self, config: ProxyConfig, settings: SharedSettings) -> None:
        self.settings = settings
        self.tag = os.urandom(5).hex()
        self.seals = Seals(settings.secret, settings.old_secret, settings.namespace)
        self.link = open_link(settings)
        self.store = RedisStore(
            self.link, settings.timeout, self.seals.name("probe", self.tag), self._counts_lost
        )
        self.count_sessions: Callable[[], int] = lambda: 0
        self.is_draining = False
        self.ids: SessionIds | None = None
        self._rules = config.digest
        self._address = ""
        self._peer = config.peer
        self._peer_server: HttpServer | None = None
        self._effects: list[SharedEffects] = []
        self.members = Members(self.store, self.seals, self._describe, self._counts_lost)
        self._directory = Directory(self.members)
        self._hops = Hops(self.seals)
        self._own: Door = by_path({})  # where what is ours goes
        self.records: StoredRecords | None = None
        if "state" in settings.use:
            self.records = StoredRecords(self.store, self.seals, settings.state_down == "local")
        if "sessions" in settings.use and self._peer is not None:
            self.ids = SessionIds(self.seals, self.tag)

    @property
    def drain_seconds(self) -> float:
        """How long sessions may go on after we were asked to end."""
        return self._peer.drain if self.ids is not None and self._peer is not None else 0.0

    @property
    def word(self) -> str:
        """How it is with Redis, in one word."""
        return "down" if self.store.is_down else "ok"

    def _describe(self) -> Member:
        return Member(self.tag, self._address, __version__, self._rules.hex()[:12], self.count_sessions())

    def rules_changed(self, digest: bytes) -> None:
        """Other rules are in force here."""
        self._rules = digest

    def _counts_lost(self) -> None:
        for effects in self._effects:
            effects.counts_lost()

    def effects(self, warden: Warden, open_link: OpenLink) -> SharedEffects:
        """The effects of rules that count and remember together with others."""
        settings = self.settings
        terms = SharedTerms(settings.use, settings.limits_down, settings.caches_down, settings.state_down)
        made = SharedEffects(self.store, self.seals, terms, lambda: self.members.count, warden, open_link)
        self._effects.append(made)
        return made

    def shared_rules(self, rules: InterceptorConfig) -> InterceptorConfig:
        """The rules, with what they share."""
        use = self.settings.use
        return with_shared(rules, SharedUse("limits" in use, "caches" in use, "state" in use))

    async def start(self) -> None:
        """Looks whether Redis is there. Raises ConfigError when it must be and is not."""
        try:
            await self.link.connect()
        except ConfigError as error:
            if self.settings.is_required:
                await self.store.close()
                raise
            log.warning("%s. %s. It is looked for from now on.", error.headline, error.detail)
            self.store.give_up("it was not there at the start")
        await self.members.start()
        log.info(
            "Shared through %s as %s, in namespace %s.",
            self.link.address.shown,
            self.tag,
            self.settings.namespace,
        )

    def health(self) -> tuple[int, bytes]:
        """What `/healthz` answers."""
        text = f"{'draining' if self.is_draining else 'ok'}\nshared: {self.word}\n".encode()
        return (503 if self.is_draining else 200), text

    def answer_peers(self, own: Door) -> None:
        """What other instances bring goes to `own` from now on."""
        self._own = own

    def front_doors(self, doors: dict[bytes, Door]) -> dict[bytes, Door]:
        """The doors for clients; what is another instance's goes there from them."""
        if self.ids is None:
            return doors
        fronts = OwnerDoors(self.ids, self._hops, self._directory)
        return {path: fronts.around(door) for path, door in doors.items()}

    async def listen(self) -> None:
        """Takes what other instances bring. Raises ConfigError."""
        if self.ids is None or self._peer is None:
            return
        door = PeerDoor(self._hops, self.tag, lambda request, reply: self._own(request, reply))
        self._peer_server = HttpServer(door.handle, ServerLimits.affordable())
        _, port = await self._peer_server.listen(*self._peer.listen)
        host, _, said = self._peer.address.rpartition(":")
        self._address = f"{host}:{port if said == '0' else said}"
        log.info("Other instances reach this one at %s.", self._address)
        await self.members.beat_now()

    async def close(self) -> None:
        """Leaves the others."""
        await self.members.stop()
        if self._peer_server is not None:
            await self._peer_server.drain(0.5)
        await self._directory.close()
        await self.store.close()


def open_link(settings: SharedSettings) -> RedisLink:
    """The connection to Redis that the settings name. Raises ConfigError when redis-py is not installed."""
    return RedisLink(settings.address, settings.timeout, Tls(settings.ca, settings.cert, settings.key))


async def open_fleet(config: ProxyConfig) -> Fleet | None:
    """What `config` shares with other instances. Raises ConfigError."""
    if config.shared is None:
        return None
    fleet = Fleet(config, config.shared)
    await fleet.start()
    return fleet
