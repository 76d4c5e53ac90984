"""The event loop: asyncio, without what a plain filter does not use.

asyncio imports ssl if it can, and copes if it cannot. ssl costs 4.5 MB and 16 ms, so it is kept out unless
TLS is configured (docs/decisions/0002-asyncio-without-ssl.md).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import Any


def import_asyncio(with_tls: bool = False) -> None:
    """Makes `import asyncio` cheap for everybody after us."""
    if with_tls or "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    modules["ssl"] = None  # what the import system reads as: there is no such module
    try:
        import asyncio  # noqa: F401
    finally:
        del modules["ssl"]


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


def run(main: Callable[[], Coroutine[Any, Any, int]], with_tls: bool = False) -> int:
    """Runs `main` in a fresh loop and gives back its exit code."""
    import_asyncio(with_tls)
    import asyncio

    with asyncio.Runner() as runner:
        return runner.run(main())
