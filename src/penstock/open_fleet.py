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
from penstock.fleet.members import Member, Members
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
        self._rules = config.digest
        self._address = config.peer.address if config.peer is not None else ""
        self._effects: list[SharedEffects] = []
        self.members = Members(self.store, self.seals, self._describe, self._counts_lost)

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

    async def close(self) -> None:
        """Leaves the others."""
        await self.members.stop()
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
