"""A proxy that only copies bytes, and can be told to copy them badly.

Without a toxic it is the most that any proxy in front of an HTTP server can keep. It takes Penstock's own
options, so that `scripts/conformance.py` can run it in Penstock's place, and so tell a fault of the measuring
from a fault of the proxy:

    python scripts/conformance.py --targets http --penstock "python -m trials.faults.tcp_relay"

Trials run it as a `TcpRelay` in a thread of theirs, and change its toxic while it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import struct
import sys
import threading
from urllib.parse import urlsplit

from trials.faults.toxics import Toxic, pump

_CHUNK = 65536


class TcpRelay:
    """Listens on a port of this machine and connects whoever calls to `host:port`."""

    def __init__(self, host: str, port: int) -> None:
        self.toxic = Toxic()
        self.port = 0
        self.connections = 0
        self._far = (host, port)
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- in a thread of its own --------------------------------------------------------------------------

    def __enter__(self) -> TcpRelay:
        there = threading.Event()

        async def main() -> None:
            await self.listen("127.0.0.1", 0)
            there.set()
            self._end = asyncio.Event()
            await self._end.wait()
            assert self._server is not None
            self._server.close()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(main()), daemon=True)
        self._thread.start()
        assert there.wait(10), "the relay did not start"
        return self

    def __exit__(self, *why: object) -> None:
        self._loop.call_soon_threadsafe(lambda: self._end.set())
        self._thread.join(10)

    # --- relaying ----------------------------------------------------------------------------------------

    async def listen(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host, port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def serve_forever(self) -> None:
        assert self._server is not None
        await self._server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._far)
        except OSError:
            writer.close()
            self._tasks.discard(task)
            return
        for end in (writer, far_writer):
            end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ways = [
            asyncio.create_task(self._copy(reader, far_writer, "upstream")),
            asyncio.create_task(self._copy(far_reader, writer, "client")),
        ]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            how = {way.result() for way in done}
            if "reset" in how:
                _reset(writer)
                _reset(far_writer)
            elif "cut" not in how:
                await asyncio.wait(ways)
        except asyncio.CancelledError:
            pass  # the trial is over
        finally:
            for way in ways:
                way.cancel()
            writer.close()
            far_writer.close()
            self._tasks.discard(task)

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, toward: str) -> str:
        async def write(data: bytes) -> None:
            sink.write(data)
            await sink.drain()

        async def read() -> bytes:
            return await source.read(_CHUNK)

        how = await pump(read, write, _Turned(self, toward))  # type: ignore[arg-type]
        if how == "end" and sink.can_write_eof():
            try:
                sink.write_eof()
            except OSError:
                pass
        return how


class _Turned:
    """The relay's toxic of the moment, if it looks this way."""

    def __init__(self, relay: TcpRelay, toward: str) -> None:
        self._relay, self._toward = relay, toward

    async def spoil(self, chunk: bytes, write: object) -> str | None:
        toxic = self._relay.toxic
        if toxic.toward != self._toward:
            toxic = Toxic()
        return await toxic.spoil(chunk, write)  # type: ignore[arg-type]

    async def before_close(self) -> None:
        await self._relay.toxic.before_close()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        return
    writer.transport.abort()


async def relay(listen: str, upstream: str) -> None:
    target = urlsplit(upstream)
    host, _, port = listen.rpartition(":")
    copier = TcpRelay(target.hostname or "127.0.0.1", target.port or 80)
    await copier.listen(host, int(port))
    print(f"listening on http://{host}:{copier.port}{target.path}", file=sys.stderr, flush=True)
    await copier.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--listen", required=True)
    parser.add_argument("--upstream", required=True)
    chosen = parser.parse_args()
    asyncio.run(relay(chosen.listen, chosen.upstream))
