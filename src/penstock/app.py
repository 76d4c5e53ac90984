"""The composition root: configuration in, running objects out."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.config import ProxyConfig, UrlUpstream
from penstock.net import loop

log = logging.getLogger("penstock")


def serve(config: ProxyConfig, why: str, reread: Callable[[bytes], ProxyConfig]) -> int:
    """Runs the proxy until it is over; gives back the exit code.

    `why` says why clients connect there; `reread` makes a configuration of other bytes in the same file.
    """
    with_tls = _needs_tls(config)
    loop.import_asyncio(with_tls)
    if config.listen is None:
        from penstock.serving import serve_stdio

        log.info("Serving one client over stdio (%s).", why)
        return loop.run(lambda: serve_stdio(config, reread), with_tls)
    from penstock.listening import serve_http

    log.info("Serving clients over HTTP (%s).", why)
    return loop.run(lambda: serve_http(config, reread), with_tls)


def show_tools(config: ProxyConfig, form: str) -> int:
    """Prints the upstream's tools and what the filter makes of them."""
    with_tls = _needs_tls(config)
    loop.import_asyncio(with_tls)
    from penstock.tool_table import show

    return loop.run(lambda: show(config, form), with_tls)


def _needs_tls(config: ProxyConfig) -> bool:
    upstream = config.upstream
    return isinstance(upstream, UrlUpstream) and upstream.url.is_tls
