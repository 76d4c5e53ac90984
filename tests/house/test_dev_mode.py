"""Python's development mode, which says what is left open and what is deprecated, has nothing to say."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER = [sys.executable, str(ROOT / "examples" / "sample_server.py")]
SECONDS = 30


def _message(method: str, params: dict[str, object] | None = None, number: int | None = None) -> bytes:
    message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return json.dumps(message if number is None else {**message, "id": number}).encode()


MESSAGES = [
    _message(
        "initialize",
        {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
        1,
    ),
    _message("notifications/initialized"),
    _message("tools/list", number=2),
    _message("tools/call", {"name": "echo", "arguments": {"text": "a"}}, 3),
]


def _penstock(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-X", "dev", "-m", "penstock", "--deny", "write", *words, "--", *SERVER]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe)


def _over_stdio(*words: str) -> str:
    with _penstock("--stdio", *words) as process:
        out, err = process.communicate(b"\n".join(MESSAGES) + b"\n", SECONDS)
    assert out.count(b'"result"') == 3, err
    return err.decode()


def _over_http(*words: str) -> str:
    with _penstock("--listen", "127.0.0.1:0", *words) as process:
        assert process.stderr is not None
        said = []
        while b"Listening on" not in (said or [b""])[-1]:
            said.append(process.stderr.readline())
            assert said[-1], said
        port = int(said[-1].split(b"127.0.0.1:")[1].split(b"/")[0])
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        client = http.client.HTTPConnection("127.0.0.1", port, SECONDS)
        for message in MESSAGES:
            client.request("POST", "/mcp", message, headers)
            answer = client.getresponse()
            assert b'"result"' in answer.read() or answer.status == 202
            headers.setdefault("Mcp-Session-Id", answer.getheader("mcp-session-id") or "")
        client.close()
        os.kill(process.pid, signal.SIGTERM)
        _, rest = process.communicate(timeout=SECONDS)
    return (b"".join(said) + rest).decode()


@pytest.mark.parametrize("words", [[], ["--config", "examples/guarded.yaml"]], ids=["plain", "ruled"])
def test_development_mode_has_nothing_to_say_of_a_whole_session(words: list[str]) -> None:
    for said in (_over_stdio(*words), _over_http(*words)):
        assert "Warning" not in said
        assert "Traceback" not in said


def test_development_mode_would_say_what_is_left_open() -> None:
    code = "import penstock.__main__, os; open(os.devnull); print('went on')"
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "ResourceWarning" in done.stderr
