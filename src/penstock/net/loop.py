"""The event loop, without what a plain filter does not use.

asyncio's package loads its servers, streams, subprocesses and, through them, ssl: 7 MB in all, of which a
plain filter needs the futures, tasks and timeouts. So only these are loaded at first, and the rest when
somebody asks for it; and the loop is one of our own (docs/decisions/0002-asyncio-without-ssl.md and
0010-a-loop-of-our-own.md). With TLS or rules it is asyncio as everybody knows it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from penstock.lazy_imports import make_lazy, without

Extent = Literal["parts", "whole", "tls"]
"""How much of asyncio is wanted: what a plain filter needs and our own loop, all but ssl, or all."""

_PARTS = (
    "exceptions",
    "events",
    "futures",
    "coroutines",
    "tasks",
    "locks",
    "timeouts",
    "protocols",
    "transports",
)


def import_asyncio(extent: Extent) -> None:
    """Makes `import asyncio` cheap for everybody after us."""
    if "asyncio" in sys.modules:
        return
    if extent == "parts" and _has_epoll():
        _import_parts()
    elif extent == "tls":
        import asyncio  # noqa: F401
    else:
        without("ssl", lambda: __import__("asyncio"))


def _has_epoll() -> bool:
    import select

    return hasattr(select, "epoll")


def _import_parts() -> None:
    """Puts a package in the place of asyncio that has its most used parts, and becomes whole when it must."""
    if "inspect" not in sys.modules:
        make_lazy("inspect")  # a reader of source code, which asyncio wants for a check that we never make
    make_lazy("asyncio", _PARTS)


def add_tls() -> None:
    """Teaches an asyncio that was imported without ssl to use it: a reload may name the first https URL."""
    from asyncio import base_events, selector_events, sslproto

    modules: list[Any] = [base_events, selector_events, sslproto]
    if any(module.ssl is None for module in modules):
        import importlib
        import ssl

        for module in modules:
            module.ssl = ssl
        importlib.reload(sslproto)  # what it derives from ssl, it derives when it is loaded


def _forget_signals() -> None:
    """A signal that comes while asyncio's loop closes means nothing any more. The loop first closes what
    signals wake it by, and the interpreter would show a traceback for the byte that it cannot write."""
    import signal

    try:
        signal.set_wakeup_fd(-1)
    except ValueError:
        pass  # not in the main thread, which alone hears signals


def run(main: Callable[[], Coroutine[Any, Any, int]], extent: Extent) -> int:
    """Runs `main` in a fresh loop and gives back its exit code."""
    import_asyncio(extent)
    import asyncio

    if extent != "parts" or not _has_epoll():
        with asyncio.Runner() as runner:
            try:
                return runner.run(main())
            finally:
                _forget_signals()
    from penstock.net.poll_loop import PollLoop

    loop = PollLoop()
    try:
        code: int = loop.run_until_complete(main())
        return code
    finally:
        loop.cancel_all_tasks()
        loop.close()
