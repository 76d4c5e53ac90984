"""A proxy that only copies bytes: the most that any proxy in front of an HTTP server can keep.

It takes Penstock's own options, so that a test or `scripts/conformance.py` can run it in Penstock's place
and so tell a fault of the measuring from a fault of the proxy:

    python scripts/conformance.py --targets http --penstock "python tests/upstreams/tcp_relay.py"
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from urllib.parse import urlsplit


async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while chunk := await source.read(65536):
            sink.write(chunk)
            await sink.drain()
    except OSError:
        pass  # the other direction notices as well
    finally:
        sink.close()


async def relay(listen: str, upstream: str) -> None:
    target = urlsplit(upstream)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(target.hostname, target.port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    host, _, port = listen.rpartition(":")
    server = await asyncio.start_server(serve, host, int(port))
    host, port = server.sockets[0].getsockname()
    print(f"listening on http://{host}:{port}{target.path}", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--listen", required=True)
    parser.add_argument("--upstream", required=True)
    chosen = parser.parse_args()
    asyncio.run(relay(chosen.listen, chosen.upstream))
