"""The rules of one proxy: read, put in force, put in force anew when their file changes."""

from __future__ import annotations

import logging
import time

from penstock import limits
from penstock import logs as say
from penstock.config.model import CommandUpstream, ProxyConfig, ReplayUpstream
from penstock.config.watch import ConfigWatch, Load
from penstock.effects.real import RealEffects
from penstock.net.warden import Warden
from penstock.open_links import open_shadow
from penstock.policy.rules.interceptor import Interceptor
from penstock.relay.review import Review, Reviews, Rules
from penstock.state.memory import MemoryTable

log = logging.getLogger("penstock")


class LiveRules:
    """Holds the rules in force and everything that they need. Made when a configuration file was named."""

    def __init__(self, config: ProxyConfig, load: Load, warden: Warden) -> None:
        """`load` makes a configuration of the file's bytes and the flags that were given."""
        assert config.path is not None
        self._effects = RealEffects(warden, lambda spec: open_shadow(spec, warden))
        self._rules = Rules(self._interceptor(config))
        known: MemoryTable[bytes, Review] = MemoryTable(
            limits.STATE_SESSIONS, limits.STATE_SECONDS, time.monotonic, on_dropped=Review.end
        )
        self.reviews = Reviews(self._rules, _name(config), known)
        self._watch = ConfigWatch(
            config.path,
            config,
            load,
            self._put_in_force,
            lambda error: say.say_error(error, config.log_format),
        )

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
        self._rules.current = self._interceptor(config)

    def _interceptor(self, config: ProxyConfig) -> Interceptor | None:
        rules = config.interceptor
        return Interceptor(rules, self._effects) if rules is not None and rules.enabled else None


def _name(config: ProxyConfig) -> str:
    """What stands for the upstream in the keys of what rules remember."""
    upstream = config.upstream
    if isinstance(upstream, CommandUpstream):
        return "\0".join(upstream.command)
    if isinstance(upstream, ReplayUpstream):
        return upstream.path
    return upstream.url.origin + upstream.url.target.decode()
