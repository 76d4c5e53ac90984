"""What an upstream is called where people see several: in the live view, and among recordings in a folder."""

from __future__ import annotations

import os

from penstock.config.model import CommandUpstream, ProxyConfig, UrlUpstream

_RUNNERS = frozenset({"npx", "uvx", "node", "python", "python3", "uv", "bunx", "docker", "deno", "sh"})


def short_name(config: ProxyConfig) -> str:
    """The name that the dashboard was given, else the command's or the host's."""
    if config.dashboard is not None and config.dashboard.name:
        return config.dashboard.name
    upstream = config.upstream
    if isinstance(upstream, CommandUpstream):
        return _name_of(upstream.command)
    return upstream.url.host if isinstance(upstream, UrlUpstream) else "penstock"


def _name_of(command: tuple[str, ...]) -> str:
    """A short name for a command: the program, or what a runner runs."""
    for word in command:
        base = os.path.basename(word)
        stem = base.rpartition(".")[0] if base.endswith((".py", ".js", ".mjs", ".ts")) else base
        if not word.startswith("-") and base not in _RUNNERS and not base.startswith("python3"):
            return stem.partition("@")[0] or base.lstrip("@")
    return os.path.basename(command[0])
