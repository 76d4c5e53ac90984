"""Tells a client that its call still waits for a person, so that it does not stop waiting itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from penstock.policy.exchange import Exchange
from penstock.policy.verdict import Caller
from penstock.watch import bounds
from penstock.wire.json.ambiguity import Ambiguous
from penstock.wire.json.splice import maybe_sole_span
from penstock.wire.mcp.message import Kind, Message

Said = Callable[[bytes, Exchange], None]


class KeepAlive:
    """Progress of one call, between -1 and 0 and always rising, until it is stopped.

    Whatever the upstream says later is higher. What is told follows from how long the call has waited in all,
    so that it rises also where an edit has started the question over.
    """

    def __init__(self, token: bytes, exchange: Exchange, caller: Caller, said: Said) -> None:
        """`token` is the client's own; `said` hears what was told, for those who record."""
        self._token = token
        self._exchange = exchange
        self._caller = caller
        self._said = said
        self._began = exchange.started or time.monotonic()
        self._wait()

    def stop(self) -> None:
        """The call waits no more."""
        self._timer.cancel()

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(bounds.KEEP_ALIVE_SECONDS, self._tell_progress)

    def _tell_progress(self) -> None:
        waited = time.monotonic() - self._began
        progress = -bounds.KEEP_ALIVE_SECONDS / (bounds.KEEP_ALIVE_SECONDS + waited)
        raw = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b,%b}}' % (
            self._token,
            b'"progress":%.9f' % progress,
        )
        if self._caller.progress(raw, self._exchange.route):
            self._said(raw, self._exchange)
            self._wait()


def maybe_token(message: Message) -> bytes | None:
    """The progress token of a request as its client spelt it; None where it wants to hear of none."""
    meta = (message.params or {}).get("_meta") if message.kind is Kind.REQUEST else None
    if meta is None:
        return None
    text = bytes(meta)
    try:
        span = maybe_sole_span(text, "progressToken")
    except (Ambiguous, ValueError):
        return None
    token = b"" if span is None else text[slice(*span)]
    is_one = token[:1] in b'"-0123456789' and 0 < len(token) <= bounds.PROGRESS_TOKEN_BYTES
    return token if is_one else None
