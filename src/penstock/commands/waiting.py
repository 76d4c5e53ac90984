"""Telling people at a terminal whom a command waits for, when that takes long."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.config.model import CommandUpstream

log = logging.getLogger("penstock")

_LONG_SECONDS = 2.0


@contextmanager
def told_when_long(upstream: object) -> Iterator[None]:
    """Says once that the `upstream` is waited for, and which option says for how long; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    option = "--start-timeout" if isinstance(upstream, CommandUpstream) else "--connect-timeout"
    loop = asyncio.get_running_loop()
    words = "Waiting for the upstream to answer; %s says for how long."
    timer = loop.call_later(_LONG_SECONDS, log.info, words, option)
    try:
        yield
    finally:
        timer.cancel()
