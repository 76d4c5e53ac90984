"""The rules of one proxy: read, put in force, put in force anew when their file changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock import logs as say
from penstock.config.model import FileConfig, ProxyConfig
from penstock.config.watch import ConfigWatch, Load
from penstock.effects.real import RealEffects
from penstock.gate.ruled import Rules
from penstock.net.warden import Warden
from penstock.open_links import open_shadow

if TYPE_CHECKING:
    from penstock.gate.record import Observer
    from penstock.peers import Peers
    from penstock.policy.rules.interceptor import Interceptor

log = logging.getLogger("penstock")


class LiveRules:
    """Holds the rules in force and everything that they need. Made when a configuration file was named."""

    def __init__(
        self,
        config: ProxyConfig,
        load: Load,
        warden: Warden,
        observers: Sequence[Observer] = (),
        fleet: Peers | None = None,
    ) -> None:
        """`load` makes a configuration of the file's bytes and the flags that were given. `fleet` is there
        where rules count and remember together with other instances."""
        assert config.path is not None
        self._fleet = fleet
        self._observers = observers
        for observer in observers:
            observer.count_custom(self._custom)
        self._effects = (
            RealEffects(warden, lambda spec: open_shadow(spec, warden))
            if fleet is None
            else fleet.effects(warden, lambda spec: open_shadow(spec, warden))
        )
        self.rules = self._rules_of(config)
        self._watch = ConfigWatch(
            config.path,
            config,
            load,
            self._put_in_force,
            lambda error: say.say_error(error, config.log_format),
            on_upstreams=self._take_upstreams,
        )
        self.on_upstreams: Callable[[ProxyConfig], None] | None = None  # who has several upstreams

    def _custom(self) -> list[tuple[str, float]]:
        return [(name, counted.total) for name, counted in self._effects.metrics().items()]

    def hear(self, on_file: Callable[[ProxyConfig], None]) -> None:
        """Calls `on_file` with each good new configuration that the file holds."""
        self._watch.on_file.append(on_file)

    def start(self) -> None:
        """Begins to watch the file."""
        self._watch.start()

    def reload(self) -> None:
        """Reads the file now."""
        self._watch.reload()

    async def close(self) -> None:
        """Ends what rules have started, and says what they have counted."""
        self._watch.stop()
        for name, counted in self._effects.metrics().items():
            log.info("Metric %s: %d times, %g in all.", name, counted.count, counted.total)
        await self._effects.close()

    def _put_in_force(self, config: ProxyConfig) -> None:
        self.rules.replace(self._interceptor(config))
        if self._fleet is not None:
            self._fleet.rules_changed(config.digest)
        for observer in self._observers:
            observer.rules_changed(f"sha256:{config.digest.hex()}")

    def _take_upstreams(self, config: ProxyConfig) -> None:
        if self.on_upstreams is not None:
            self.on_upstreams(config)

    def _rules_of(self, config: ProxyConfig) -> Rules:
        own = self._interceptor(config)
        if config.variants is None:
            return Rules(own)
        from penstock.gate.variants import VariantRules

        sets = [
            (
                one.name,
                one.share * 100,
                own if one.file is None else self._interceptor(one.config),
                one.file is None,
            )
            for one in config.variants.live
        ]
        return VariantRules(sets, config.variants.salt, config.variants.split_by)

    def _interceptor(self, config: ProxyConfig | FileConfig) -> Interceptor | None:
        rules = config.interceptor
        if rules is None or not rules.enabled:
            return None
        from penstock.policy.rules.interceptor import Interceptor  # many files have servers and no rules

        return Interceptor(rules if self._fleet is None else self._fleet.shared_rules(rules), self._effects)
