"""The live view of one proxy, put together from its configuration. Loaded where a dashboard was asked for."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.config.model import CommandUpstream, ProxyConfig, UrlUpstream
from penstock.errors import ConfigError
from penstock.gate.gate import Gate
from penstock.short_name import short_name
from penstock.watch.dashboard import Dashboard, Note, TapFacts


def open_dashboard(config: ProxyConfig, note: Note) -> Dashboard:
    """The tap that `config` asks for. Raises ConfigError where the hub would be its own upstream."""
    upstream, settings = config.upstream, config.dashboard
    assert settings is not None
    shown, transport = "a recording", "replay"
    if isinstance(upstream, CommandUpstream):
        shown, transport = " ".join(upstream.command[:4]), "stdio"
    elif isinstance(upstream, UrlUpstream):
        shown, transport = upstream.url.origin, "http"
        if settings.has_hub and upstream.url.port == settings.port and upstream.url.host in _LOOPBACK:
            raise ConfigError("The upstream is the dashboard itself", "Give one of them another port")
    facts = TapFacts(short_name(config), shown[:200], transport, config.path or "", choice=config.choice)
    facts.rules = f"sha256:{config.digest.hex()}" if config.digest else ""
    if config.observe is not None:
        facts.mask_keys, facts.mask_patterns = config.observe.mask.keys, config.observe.mask.patterns
    rules = config.interceptor
    if rules is not None:
        facts.classes, facts.defaults = rules.classes, rules.chain.default_action
        facts.rule_rows = [
            {
                "id": rule.id,
                "name": rule.name,
                "on": rule.enabled,
                "actions": [str(getattr(type(action), "__name__", "")) for action in rule.actions],
            }
            for rule in (*rules.rules, *rules.transport_rules)
        ]

    def replay(gate: Gate, raw: bytes, era: str) -> Awaitable[dict[str, object]]:
        from penstock.replay_call import replayer  # when somebody asks for one

        return replayer(config)(gate, raw, era)

    return Dashboard(settings, facts, note, replay)


_LOOPBACK = ("127.0.0.1", "localhost", "::1")
