"""How far a conversation has got when somebody dies, and a client that can be killed there.

    python -m trials.faults.stages --kind stdio --stage call -- penstock ... -- COMMAND
    python -m trials.faults.stages --kind sse --stage call --port 8808

It says on stdout, in one line, that it is there, and waits for its end.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
import time

import trials.faults  # noqa: F401 - makes the tests' clients importable
from doors import Client, LegacyDoor, SseDoor, StdioDoor

STAGES = ("start", "initialized", "call", "big answer", "shutdown")
"""Before the handshake, after it, while a call is not answered, within an answer of 9 MB, and at the end."""

HELD = b"7001"
BIG_BYTES = 9_000_000


def reach(door: Client, stage: str) -> None:
    """Takes the conversation to `stage`."""
    if stage == "start":
        return
    door.begin()
    if stage == "initialized":
        return
    if stage == "big answer":
        door.request(HELD, "x/big", json.dumps({"bytes": BIG_BYTES}).encode())
        _read_a_little(door)
        return
    if stage == "shutdown" and isinstance(door, StdioDoor):
        assert door.process.stdin is not None
        door.process.stdin.close()
        return
    door.request(HELD, "x/say", b'{"raw":"","mute":true}')


def half_an_answer(door: Client) -> None:
    """Has the upstream begin an answer that it does not end."""
    half = '{"jsonrpc":"2.0","id":<id>,"result":{"text":"' + "x" * 500_000
    door.request(HELD, "x/say", json.dumps({"raw": half, "mute": True}).encode())


def _read_a_little(door: Client) -> None:
    """Waits until the answer has begun to come, and takes only the beginning of it."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        fds = [source.fd for source in door.sources if not source.is_over]
        ready = select.select(fds, [], [], 1.0)[0]
        if ready:
            os.read(ready[-1], 65536)
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("stdio", "sse", "streamable"), required=True)
    parser.add_argument("--stage", choices=STAGES, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--errors", default=os.devnull)
    parser.add_argument("command", nargs="*")
    chosen = parser.parse_args()
    door: Client
    if chosen.kind == "stdio":
        with open(chosen.errors, "ab") as errors:
            door = StdioDoor(chosen.command, "legacy", errors)
    elif chosen.kind == "sse":
        door = SseDoor(chosen.port, "legacy")
    else:
        door = LegacyDoor(chosen.port, "legacy")
    reach(door, chosen.stage)
    process = getattr(door, "process", None)
    print(json.dumps({"penstock": process.pid if process is not None else None}), flush=True)
    time.sleep(120)


if __name__ == "__main__":
    sys.exit(main())
