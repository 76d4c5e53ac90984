"""Where a legacy SSE upstream wants messages to be posted."""

from __future__ import annotations

import logging

from penstock.errors import ConfigError
from penstock.wire.http.url import Url, parse_url
from penstock.wire.mcp.replies import printable

log = logging.getLogger("penstock")


def maybe_target(url: Url, data: bytes) -> bytes | None:
    """Where to post, out of an endpoint event; None when that is not on the origin of `url`."""
    from urllib.parse import urljoin  # only this transport needs it

    try:
        endpoint = parse_url(urljoin(url.origin + url.target.decode(), data.decode().strip()))
    except (ConfigError, ValueError):
        shown = printable(data[:200].decode("utf-8", "replace"))
        log.warning("The upstream names an endpoint that is none: %s", shown)
        return None
    if (endpoint.scheme, endpoint.host, endpoint.port) != (url.scheme, url.host, url.port):
        log.warning("The upstream names an endpoint on %s.", endpoint.origin)
        return None
    return endpoint.target
