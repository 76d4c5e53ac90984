"""Penstock from outside: run to its end, or asked for a page that is no MCP."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys

from gate import ROOT, SAMPLE

SAMPLE_COMMAND = [sys.executable, str(SAMPLE)]


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs Penstock to its end."""
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **env},
        cwd=ROOT,
    )


def get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body of a page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
