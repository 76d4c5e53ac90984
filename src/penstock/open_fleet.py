"""What is shared with other instances, opened once at the start. Loaded only where `shared` is named."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.config.model import ProxyConfig
from penstock.config.shared import SharedSettings
from penstock.effects.shared import SharedEffects, SharedTerms
from penstock.errors import ConfigError
from penstock.fleet.directory import Directory
from penstock.fleet.following import StoredWhereabouts
from penstock.fleet.members import Member, Members
from penstock.fleet.session_records import StoredRecords
from penstock.peers import Peers
from penstock.policy.rules.interceptor_config import InterceptorConfig
from penstock.policy.rules.shared_actions import SharedUse, with_shared
from penstock.state.redis_link import RedisLink, Tls
from penstock.state.redis_store import RedisStore
from penstock.state.seals import Seals

if TYPE_CHECKING:
    from penstock.effects.fork import OpenLink
    from penstock.fleet.owner_door import Owners
    from penstock.net.warden import Warden
    from penstock.open_workers import Siblings

log = logging.getLogger("penstock")


class Fleet(Peers):
    """This instance's place among the others: the store, the names in it, and who else is there."""

    def __init__(self, config: ProxyConfig, settings: SharedSettings) -> None:
        self.settings = settings
        tag = os.urandom(5).hex()
        seals = Seals(settings.secret, settings.old_secret, settings.namespace)
        self.link = open_link(settings)
        self.store = RedisStore(self.link, settings.timeout, seals.name("probe", tag), self._counts_lost)
        self.members = Members(self.store, seals, self._describe, self._counts_lost)
        self._directory = Directory(self.members)
        self._siblings: Siblings | None = None
        owners: Owners | None = None
        if "sessions" in settings.use and config.peer is not None:
            owners = self._directory
        elif "sessions" in settings.use and config.worker is not None:
            from penstock.open_workers import Siblings

            owners = self._siblings = Siblings(config.worker.folder)
        super().__init__(tag, seals, owners)
        self._rules = config.digest
        self._address = ""
        self._peer = config.peer if owners is self._directory else None
        self._worker = 0 if config.worker is None else config.worker.number
        self._effects: list[SharedEffects] = []
        if self._peer is not None:
            self.drain_seconds = self._peer.drain if config.worker is None else 0.0
        if "state" in settings.use:
            self.records = StoredRecords(self.store, self.seals, settings.state_down == "local")

    @property
    def word(self) -> str:
        """How it is with Redis, in one word."""
        return "down" if self.store.is_down else "ok"

    def _describe(self) -> Member:
        return Member(self.tag, self._address, __version__, self._rules.hex()[:12], self.count_sessions())

    def rules_changed(self, digest: bytes) -> None:
        """Other rules are in force here."""
        self._rules = digest

    def whereabouts(self) -> StoredWhereabouts:
        """Where instances tell each other what they have given out."""
        return StoredWhereabouts(self.store, self.seals, self.tag)

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
        shown, namespace = self.link.address.shown, self.settings.namespace
        log.info("Shared through %s as %s, in namespace %s.", shown, self.tag, namespace)

    async def listen(self) -> None:
        """Takes what other instances bring. Raises ConfigError."""
        if self._siblings is not None:
            self.open_peer_server().adopt([self._siblings.open_socket(self.tag)])
        if self._peer is None:
            return
        host, port = self._peer.listen
        # Workers of one machine have a door each, on the ports that follow.
        _, taken = await self.open_peer_server().listen(host, port + self._worker if port else 0)
        name, _, said = self._peer.address.rpartition(":")
        self._address = f"{name}:{taken if said == '0' else int(said) + self._worker}"
        log.info("Other instances reach this one at %s.", self._address)
        await self.members.beat_now()

    async def close(self) -> None:
        """Leaves the others."""
        await self.members.stop()
        await self.close_peer_server()
        await self._directory.close()
        if self._siblings is not None:
            self._siblings.gone(self.tag)
            await self._siblings.close()
        await self.store.close()


def open_link(settings: SharedSettings) -> RedisLink:
    """The connection to Redis that the settings name. Raises ConfigError when redis-py is not installed."""
    return RedisLink(settings.address, settings.timeout, Tls(settings.ca, settings.cert, settings.key))


async def open_fleet(config: ProxyConfig) -> Fleet:
    """What `config` shares with other instances. Raises ConfigError."""
    assert config.shared is not None
    fleet = Fleet(config, config.shared)
    await fleet.start()
    return fleet
