"""The same for pipes: starts a command and copies what goes in and out of it, badly if told so.

    python -m trials.faults.pipe_relay --kind cut --toward client --after 100000 -- COMMAND [ARGS]

Put it in front of Penstock, and the line from the client is bad; in front of the upstream, the other one.
A cut closes the pipe as a peer does that is gone; what a reset would be is the same here.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys

from trials.faults.toxics import KINDS, Toxic, pump

_CHUNK = 65536


async def _reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_CHUNK)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    return reader


async def _write(fd: int, data: bytes) -> None:
    await asyncio.to_thread(_write_all, fd, data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        pass  # the other way was quicker


async def relay(command: list[str], toxic: Toxic) -> int:
    """Runs `command` between our stdin and stdout; its exit code."""
    child = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs yet
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert child.stdin is not None
    assert child.stdout is not None
    into, out = os.dup(child.stdin.fileno()), os.dup(1)
    child.stdin.close()
    os.close(1)
    ours, theirs = await _reader(0), await _reader(os.dup(child.stdout.fileno()))
    child.stdout.close()

    async def way(source: asyncio.StreamReader, sink: int, toward: str) -> str:
        how = await pump(
            lambda: source.read(_CHUNK),
            lambda data: _write(sink, data),
            toxic if toxic.toward == toward else None,
        )
        _close(sink)
        return how

    ways = {asyncio.create_task(way(ours, into, "upstream")), asyncio.create_task(way(theirs, out, "client"))}
    done, under_way = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    if any(one.result() != "end" for one in done):
        for fd in (into, out):  # a line that is cut is cut both ways
            _close(fd)
    code = await asyncio.to_thread(child.wait)
    await asyncio.wait(under_way, timeout=1.0) if under_way else None
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, default="none")
    parser.add_argument("--toward", choices=("client", "upstream"), default="client")
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("command", nargs="+")
    chosen = parser.parse_args()
    spoilt = Toxic(chosen.kind, chosen.toward, chosen.after, chosen.seconds, chosen.rate)
    code = asyncio.run(relay(chosen.command, spoilt))
    sys.stdout = None  # its descriptor is closed
    os._exit(code if code >= 0 else 128 - code)
