"""The live view of one proxy, put together from its configuration. Loaded where a dashboard was asked for."""

from __future__ import annotations

import os
from collections.abc import Awaitable

from penstock.config.model import CommandUpstream, ProxyConfig, UrlUpstream
from penstock.errors import ConfigError
from penstock.gate.gate import Gate
from penstock.watch.dashboard import Dashboard, Note, TapFacts
from penstock.watch.settings import DashboardSettings


def open_dashboard(config: ProxyConfig, settings: DashboardSettings, note: Note) -> Dashboard:
    """The tap that `config` asks for. Raises ConfigError where the hub would be its own upstream."""
    upstream = config.upstream
    name, shown, transport = "penstock", "a recording", "replay"
    if isinstance(upstream, CommandUpstream):
        name, shown, transport = _name_of(upstream.command), " ".join(upstream.command[:4]), "stdio"
    elif isinstance(upstream, UrlUpstream):
        name, shown, transport = upstream.url.host, upstream.url.origin, "http"
        if settings.has_hub and upstream.url.port == settings.port and upstream.url.host in _LOOPBACK:
            raise ConfigError("The upstream is the dashboard itself", "Give one of them another port")
    facts = TapFacts(settings.name or name, shown[:200], transport, config.path or "", choice=config.choice)
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
_RUNNERS = frozenset({"npx", "uvx", "node", "python", "python3", "uv", "bunx", "docker", "deno", "sh"})


def _name_of(command: tuple[str, ...]) -> str:
    """A short name for a command: the program, or what a runner runs."""
    for word in command:
        base = os.path.basename(word)
        stem = base.rpartition(".")[0] if base.endswith((".py", ".js", ".mjs", ".ts")) else base
        if not word.startswith("-") and base not in _RUNNERS and not base.startswith("python3"):
            return stem.partition("@")[0] or base.lstrip("@")
    return os.path.basename(command[0])
