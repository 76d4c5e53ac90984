"""What costs memory when nobody looks: hanging up, being refused, and inventing sessions, keys and names.

Each a thousand times over each path, with half a megabyte to remember each time, before a Penstock whose
collector is switched off. Memory must be flat all the same: what is over lets go by itself.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

from trials.soak.clients import HELLO, INITIALIZED, META, MODERN, Broken, HttpLine
from trials.soak.site import Site, until, uss
from trials.table import Row

MIB = 1024 * 1024
WEIGHT = 512 * 1024
"""Bytes of each message: a thousand of them are what nobody has."""
GROWTH = {"hung up": 20 * MIB, "refused": 6 * MIB, "invented": 6 * MIB}
"""What memory may grow between the first tenth and the last. With rules, what hung up is remembered until its
answer comes, up to 40 MiB of it for a session: a tenth of a thousand has filled 25 of them."""

PATHS = [
    ("legacy", "stdio"),
    ("modern", "stdio"),
    ("sse", "stdio"),
    ("legacy", "sse"),
    ("legacy", "streamable"),
    ("modern", "streamable"),
]
"""The era of Streamable HTTP that the client speaks, or the older transport; and the upstream's transport."""

RULES = {
    "interceptor": {
        "rules": [
            {
                "id": "r",
                "direction": "both",
                "conditions": [{"method_equals": "tools/call"}, {"result_exists": "never"}],
                "actions": [{"block": "kept back"}],
            }
        ]
    }
}


class Abuser:
    """Sends what costs memory, in the name of one session that lives."""

    def __init__(self, site: Site, client: str) -> None:
        self.site = site
        self.client = client
        self.padding = b"x" * WEIGHT
        self.target = b"/mcp"
        self.session = b""
        self._stream: asyncio.StreamWriter | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Opens the session that everything is said in."""
        if self.client == "legacy":
            status, head, _ = await self._ask(self.post(HELLO))
            assert status == 200, status
            self.session = next(
                line.partition(b": ")[2]
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"mcp-session")
            )
            await self._ask(self.post(INITIALIZED))
        elif self.client == "sse":
            reader, self._stream = await asyncio.open_connection("127.0.0.1", self.site.port)
            self._stream.write(b"GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n")
            await reader.readuntil(b"data: ")
            self.target = (await reader.readline()).strip()
            self._hearing = asyncio.get_running_loop().create_task(_read_on(reader))
            await self._ask(self.post(HELLO))
            await self._ask(self.post(INITIALIZED))

    def end(self) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
        if self._stream is not None:
            self._stream.close()

    def post(self, body: bytes, **more: bytes) -> bytes:
        """A request, with these headers instead of the usual ones."""
        fields = {b"Accept": b"application/json, text/event-stream", b"Content-Type": b"application/json"}
        if self.client == "modern":
            fields[b"MCP-Protocol-Version"] = MODERN
            if b'"method":"tools/call"' in body[:100]:
                name = body[body.rindex(b'"name":"') + 8 :].partition(b'"')[0]  # behind that of the client
                fields |= {b"Mcp-Method": b"tools/call", b"Mcp-Name": name}
        elif self.session:
            fields |= {b"Mcp-Session-Id": self.session, b"MCP-Protocol-Version": b"2025-11-25"}
        fields |= {name.replace("_", "-").encode(): value for name, value in more.items()}
        lines = b"".join(b"%b: %b\r\n" % field for field in fields.items())
        head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\n%bContent-Length: %d\r\n\r\n"
        return head % (self.target, lines, len(body)) + body

    def call(self, number: int, name: bytes = b"echo", client: bytes = b"soak") -> bytes:
        """A heavy call; in the newer era it says who sends it, every time."""
        said = META[:-1] + b',"io.modelcontextprotocol/clientInfo":{"name":"%b","version":"1"}}' % client
        meta = said + b"," if self.client == "modern" else b""
        padding = self.padding if len(client) < WEIGHT else b""
        return (
            b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%b"name":"%b","arguments":{"n":%d,"x":"%b"}}}'
            % (number, meta, name, number, padding)
        )

    async def hang_up(self, number: int) -> None:
        """A call whose answer never comes, or comes too late for who has gone."""
        line = await HttpLine.open(self.site.port)
        line.transport.write(self.post(self.call(number, b"stall" if number % 2 else b"echo")))
        await until(lambda: not line.transport.get_write_buffer_size(), 10)
        line.cut()

    async def be_refused(self, number: int) -> None:
        """A call that nobody takes, for one reason or another: by us, or by the upstream."""
        body = self.call(number)
        ways: list[Callable[[], bytes]] = [
            lambda: self.post(body, Accept=b"text/html"),
            lambda: self.post(self.call(number, b"tool_9")),
            lambda: self.post(body[:-1]),
            lambda: self.post(body, Content_Type=b"text/plain"),
            lambda: self.post(
                b'{"jsonrpc":"2.0","id":"%b","method":"tools/call","params":{}}' % self.padding
            ),
        ]
        await self._ask(ways[number % len(ways)]())

    async def invent(self, number: int) -> None:
        """A session, a key or a name that nobody ever heard of."""
        mark = b"made-up-%d" % number
        if self.client == "sse":
            await self._ask(self.post(self.call(number)).replace(b"session_id=", b"session_id=" + mark))
        elif self.client == "modern":
            name = self.padding if number % 2 else b"soak"
            await self._ask(self.post(self.call(number, client=name), Authorization=mark))
        else:
            await self._ask(self.post(self.call(number), Mcp_Session_Id=mark, Authorization=mark))

    async def _ask(self, raw: bytes) -> tuple[int, bytes, bytes]:
        line = await HttpLine.open(self.site.port)
        try:
            return await asyncio.wait_for(line.ask(raw), 30)
        except Broken:
            return 0, b"", b""
        finally:
            line.close()


async def _read_on(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 20):
        pass


async def _settled(pid: int) -> int:
    """Private memory once the process has nothing to do: what was sent may still be on its way."""
    worked, since, end = _ticks(pid), time.monotonic(), time.monotonic() + 60
    while time.monotonic() < min(since + 2.0, end):
        await asyncio.sleep(0.1)
        if (now := _ticks(pid)) > worked + 1:  # looking at the clock costs a little, too
            worked, since = now, time.monotonic()
    return uss(pid)


def _ticks(pid: int) -> int:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


ABUSES = {"hung up": Abuser.hang_up, "refused": Abuser.be_refused, "invented": Abuser.invent}


async def abuse(work: Path, client: str, upstream: str, what: str, is_ruled: bool, count: int) -> Row:
    """One kind, `count` times over one path; then an honest call must come through."""
    began = time.monotonic()
    options: tuple[str, ...] = ()
    if is_ruled:
        file = work / "rules.json"
        file.write_text(json.dumps(RULES))
        options = ("--config", str(file))
    wrong: list[str] = []
    with Site(work, upstream, options=options, is_collected=False) as site:
        abuser = Abuser(site, client)
        await abuser.begin()
        deed = ABUSES[what]
        for number in range(count // 10):
            await deed(abuser, number)
        warm = await _settled(site.pid)
        for number in range(count // 10, count):
            await deed(abuser, number)
        grown = await _settled(site.pid) - warm
        if grown > GROWTH[what]:
            wrong.append(f"memory grew by {grown / MIB:.1f} MiB")
        status, end = 503, time.monotonic() + 30
        while status == 503 and time.monotonic() < end:  # the upstream may still read what was sent before
            status, _, _ = await abuser._ask(abuser.post(b'{"jsonrpc":"2.0","id":"p","method":"ping"}'))
        if status not in (200, 202) and (client != "modern" or not status):
            wrong.append(f"an honest client hears {status}")
        abuser.end()
        if (code := site.end()) != 0:
            wrong.append(f"exit code {code}")
        if "Traceback" in site.errors.read_text():
            wrong.append("a traceback")
    told = (
        f"{count:,} times {WEIGHT // 1024} KiB, memory {warm / MIB:.1f} {grown / MIB:+.1f} MiB, no collector"
    )
    verdict = "; ".join(wrong) + (" | " if wrong else "") + told
    where = "with rules" if is_ruled else "without rules"
    return Row(what, where, f"{client} -> {upstream}", verdict, not wrong, time.monotonic() - began)
