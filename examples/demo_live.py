"""What `make demo-live` shows: the sample server, a client that makes varied traffic, and the live view."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SERVER = [sys.executable, str(HERE / "sample_server.py")]
PENSTOCK = [sys.executable, "-m", "penstock"]
PATHS = ["README.md", "src/main.py", "docs/index.md", "notes/today.txt", "/etc/passwd", "data/big.csv"]
WORDS = ["invoice", "budget", "me@example.com", "roadmap", "hello", "日本"]


class Agent:
    """A client that calls tools as agents do: mostly reading, now and then what it should not."""

    def __init__(self, name: str, seed: int, config: Path) -> None:
        self._random = random.Random(seed)
        words = [*PENSTOCK, "--stdio", "--log-level", "warning", "--config", str(config), "--", *SERVER]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._number = 0
        info = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": name, "version": "1"},
        }
        self._send("initialize", info)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._send("tools/list", {})
        threading.Thread(target=self._drain, daemon=True).start()

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        self._process.stdin.flush()

    def _send(self, method: str, params: dict[str, Any]) -> None:
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})

    def _drain(self) -> None:
        assert self._process.stdout is not None
        while self._process.stdout.readline():
            pass

    def step(self, writes: bool = True) -> None:
        """One more call."""
        pick = self._random.random()
        path = self._random.choice(PATHS)
        if pick < 0.45:
            self._call("read_file", {"path": path})
        elif pick < 0.62:
            self._call("search_files", {"word": self._random.choice(WORDS)})
        elif pick < 0.76:
            self._call("list_directory", {"path": path.rpartition("/")[0] or "."})
        elif pick < 0.84:
            self._call("echo", {"text": f"mail to {self._random.choice(WORDS)}", "api_key": "sample-key-42"})
        elif pick < 0.88:
            self._call("delete_file", {"path": path})
        elif pick < 0.93:
            self._send("ping", {})
        elif pick < 0.96 and writes:
            self._call("write_file", {"path": "notes/today.txt", "text": "Penstock says hello"})
        else:
            self._send("prompts/list", {})

    def _call(self, tool: str, arguments: dict[str, Any]) -> None:
        self._send("tools/call", {"name": tool, "arguments": arguments})

    def write_file(self) -> None:
        """A call that waits for a person."""
        text = "release: 2.4.0\nwhere: production\n"
        self._call("write_file", {"path": "deploy/release.yaml", "text": text, "token": "sample-token-42"})

    def close(self) -> None:
        """Leaves."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(8)
        except subprocess.TimeoutExpired:
            self._process.kill()


def agents() -> list[Agent]:
    """Two clients, each with a server of its own."""
    config = HERE / "live.yaml"
    return [Agent("claude", 1, config), Agent("cursor", 2, config)]


def main() -> None:
    print("Two clients call tools behind Penstock; the live view opens in a browser.")
    print("Keys are shown with ?, calls of write_file wait on page 2. Ctrl-C ends it all.\n")
    sys.stdout.flush()
    clients = agents()
    port = os.environ.get("PENSTOCK_PORT", "8818")
    view = subprocess.Popen([*PENSTOCK, "watch", "--web", port])
    try:
        while view.poll() is None:
            random.choice(clients).step()
            time.sleep(random.uniform(0.1, 0.9))
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        view.terminate()
        for client in clients:
            client.close()


if __name__ == "__main__":
    main()
