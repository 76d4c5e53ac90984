"""What a URL answers to somebody who greets it, and whose fault it is when that is no greeting."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request

from penstock import __version__
from penstock.wire.mcp.eras import LEGACY_VERSIONS

READY, TRANSIENT, BLOCKED, MISCONFIGURED = 0, 10, 11, 12


def probe_url(url: str, headers: dict[str, str], seconds: float) -> tuple[int, str]:
    """0, or 10 for now, 11 not for us, 12 never so; and why, in words without a secret in them."""
    params = {
        "protocolVersion": LEGACY_VERSIONS[-1],
        "capabilities": {},
        "clientInfo": {"name": "penstock-doctor", "version": __version__},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if not url.startswith(("http://", "https://")):
        return MISCONFIGURED, "it is no http or https URL"
    request = urllib.request.Request(url, body, {**accept, **headers})  # noqa: S310 (checked above)
    try:
        with _OPENER.open(request, timeout=seconds):
            return READY, "it answers"
    except urllib.error.HTTPError as answer:
        return _judge_status(answer)
    except urllib.error.URLError as failure:
        return _judge_failure(failure.reason)
    except OSError as failure:
        return _judge_failure(failure)
    except ValueError as failure:
        return MISCONFIGURED, f"the URL or a header makes no sense: {type(failure).__name__}"


def _judge_status(answer: urllib.error.HTTPError) -> tuple[int, str]:
    answer.close()
    status = answer.code
    if status in (401, 403):
        asked = answer.headers.get("WWW-Authenticate", "")
        where = next((part for part in asked.split('"') if part.startswith("http")), "")
        return BLOCKED, f"it answers {status}" + (f"; who may come in is decided at {where}" if where else "")
    if status == 429 or status >= 500:
        return TRANSIENT, f"it answers {status}"
    # Legacy SSE servers and those of the modern era refuse this greeting and are well.
    return READY, f"it answers {status} to this greeting"


def _judge_failure(reason: object) -> tuple[int, str]:
    if isinstance(reason, ssl.SSLError):
        return MISCONFIGURED, f"TLS fails: {reason.reason or reason}"
    return TRANSIENT, f"it cannot be reached: {getattr(reason, 'strerror', None) or reason}"


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: what is sent may be a secret, and is meant for this host."""

    def redirect_request(self, *words: object) -> None:
        """Gives no other request."""


_OPENER = urllib.request.build_opener(_Stay)
