"""The composition root: configuration in, running objects out, and the order in which they end."""

from __future__ import annotations

from penstock.config import ProxyConfig, UrlUpstream
from penstock.net import loop


def serve(config: ProxyConfig) -> int:
    """Runs the proxy until the client leaves; gives back the exit code."""
    loop.import_asyncio(_needs_tls(config))
    from penstock.serving import serve_stdio

    return loop.run(lambda: serve_stdio(config), _needs_tls(config))


def show_tools(config: ProxyConfig, form: str) -> int:
    """Prints the upstream's tools and what the filter makes of them."""
    loop.import_asyncio(_needs_tls(config))
    from penstock.tool_table import show

    return loop.run(lambda: show(config, form), _needs_tls(config))


def _needs_tls(config: ProxyConfig) -> bool:
    return isinstance(config.upstream, UrlUpstream) and config.upstream.url.is_tls
