"""What `make demo` shows: the same server asked directly and through Penstock, over real pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SERVER = [sys.executable, str(Path(__file__).with_name("sample_server.py"))]
DENY = "^(write|delete)_"
PENSTOCK = [sys.executable, "-m", "penstock", "--deny", DENY, "--"]

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "demo", "version": "1"},
}
ODD = (
    b'{ "jsonrpc" : "2.0", "id": 1.0, "method": "tools/call",'
    b' "params": {"name": "echo", "arguments": {"text": "\\u65e5\\u672c", "n": 1.0}}, "x-unknown": [ ] }'
)


class Client:
    """A client on pipes that sees bytes and nothing else."""

    def __init__(self, command: list[str], stderr: Any = None) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        self.ask("initialize", INITIALIZE)
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip(b"\n")

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.send(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode())
        answer: dict[str, Any] = json.loads(self.receive())
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


def names(answer: dict[str, Any]) -> str:
    return ", ".join(tool["name"] for tool in answer["result"]["tools"])


def main() -> None:
    direct, gated = Client(SERVER), Client([*PENSTOCK, *SERVER], stderr=subprocess.PIPE)
    try:
        before, after = direct.ask("tools/list", {}), gated.ask("tools/list", {})
        print("The server's tools, asked directly:")
        print(f"    {names(before)}\n")
        print(f"The same server behind  penstock --deny '{DENY}' --")
        print(f"    {names(after)}\n")
        print("Calling a denied tool through Penstock is like calling one that never was:")
        for name in ("delete_file", "no_such_tool"):
            print(f"    {json.dumps(gated.ask('tools/call', {'name': name, 'arguments': {}})['error'])}")
        direct.send(ODD)
        gated.send(ODD)
        one, other = direct.receive(), gated.receive()
        print("\nAnd what no rule touched arrives as it was sent, odd spacing, escapes, numbers and all:")
        print(f"    direct   {one.decode()}")
        print(f"    penstock {other.decode()}")
        print(f"    {'identical, byte for byte' if one == other else 'DIFFERENT'}")
        if one != other or "delete_file" in json.dumps(after):
            sys.exit(1)
    finally:
        direct.close()
        gated.close()
    assert gated.process.stderr is not None
    print("\nWhat Penstock said meanwhile, on stderr:")
    for line in gated.process.stderr.read().decode().splitlines():
        print(f"    {line}")
    print("\nTo watch messages live, hold one and change it: make demo-live")
    print("With servers of your own: penstock --dashboard auto -- COMMAND, and then penstock watch --web")


if __name__ == "__main__":
    main()
