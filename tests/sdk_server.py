"""The official SDK's own server with everything in it, over HTTP, in the era that is asked for."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator

from gate import ROOT

FIXTURE = [sys.executable, str(ROOT / "tests" / "upstreams" / "conformance_server.py")]


@contextlib.contextmanager
def serving(*options: str, transport: str = "http") -> Iterator[str]:
    """Its address, while it runs."""
    command = [*FIXTURE, *options, "--transport", transport, "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        found = re.search(r"http://\S+", server.stderr.readline())
        assert found is not None
        yield found[0]
    finally:
        server.kill()
        server.communicate()
