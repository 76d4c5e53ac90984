"""The composition root: configuration in, running objects out."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from penstock import limits
from penstock.config.model import ProxyConfig, SeveralUpstreams, UrlUpstream
from penstock.net import loop

log = logging.getLogger("penstock")

T = TypeVar("T")


def serve(config: ProxyConfig, why: str, reread: Callable[[bytes], ProxyConfig]) -> int:
    """Runs the proxy until it is over; gives back the exit code.

    `why` says why clients connect there; `reread` makes a configuration of other bytes in the same file.
    """
    extent = _extent(config)
    loop.import_asyncio(extent)
    if config.listen is None:
        from penstock.serve_stdio import serve_stdio

        _settle_collector()
        log.info("Serving one client over stdio (%s).", why)
        return loop.run(lambda: serve_stdio(config, reread), extent)
    from penstock.serve_http import serve_http

    _settle_collector()
    log.info("Serving clients over HTTP (%s).", why)
    if config.workers != 1:
        from penstock.supervisor import Supervisor, worker_count

        count = worker_count(config)
        if count > 1:
            return Supervisor(
                config.listen,
                count,
                lambda place: loop.run(lambda: serve_http(replace(config, worker=place), reread), extent),
            ).run()
    return loop.run(lambda: serve_http(config, reread), extent)


def show_tools(config: ProxyConfig, form: str, tokenizer: str = "estimate") -> int:
    """Prints the upstream's tools and what the filter makes of them."""
    extent = _extent(config)
    loop.import_asyncio(extent)
    from penstock.commands.tool_table import show

    return loop.run(lambda: show(config, form, tokenizer), extent)


def run_with(config: ProxyConfig, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What `work` gives, run in a loop that fits the upstream."""
    out: list[T] = []

    async def keep() -> int:
        out.append(await work())
        return 0

    loop.run(keep, _extent(config))
    return out[0]


def _settle_collector() -> None:
    """Keeps the collector off what was loaded to stay, and from looking at every few messages.

    Posts leave no cycles behind, so there is little for it to find.
    """
    gc.freeze()
    gc.set_threshold(limits.COLLECT_AFTER)


def _extent(config: ProxyConfig) -> loop.Extent:
    """How much of asyncio this configuration needs."""
    upstream = config.upstream
    reached = [upstream]
    if isinstance(upstream, SeveralUpstreams):
        reached = [member.upstream for member in upstream.members]
    if config.shared is not None or any(isinstance(one, UrlUpstream) and one.url.is_tls for one in reached):
        return "tls"
    if config.access is not None and config.access.speaks_tls:
        return "tls"
    # Rules may run code of others, start processes and, after a reload, speak TLS.
    return "parts" if config.interceptor is None else "whole"
