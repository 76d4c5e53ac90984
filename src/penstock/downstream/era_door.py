"""`/mcp` where the upstream speaks Streamable HTTP too: passed through in its own era, else translated.

An upstream is asked in the client's own era first. What it speaks is found out when the first client of an
era comes, in the name of that client: an upstream that wants credentials tells nobody else. Where it wants
others, or does not answer, nothing is found out: the client hears that itself, and the next one asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from penstock.downstream.mcp_head import Door, McpHead, read_head
from penstock.downstream.replies import refuse, wait_unless_gone
from penstock.net.http_exchange import Reply, Request
from penstock.relay.catalogs import rights_of
from penstock.wire.http.http1 import Headers
from penstock.wire.mcp.eras import Era

Waiter = Callable[[bool | None], None]


class EraDoors(Struct, frozen=True):
    """Where clients are led."""

    passthrough: Door
    legacy: Door
    """Legacy clients, translated for an upstream of the modern era."""
    modern: Door
    """Modern clients, translated for an upstream of the legacy era."""


class EraDoor:
    """Leads every request to its door."""

    def __init__(
        self,
        doors: EraDoors,
        speaks: dict[Era, bool | None],
        judge: Callable[[Era, Headers], Awaitable[bool | None]],
        carry: Callable[[Headers], Headers],
        is_discovery_translated: bool,
        wants_credentials: bool,
    ) -> None:
        """`speaks` says whether the upstream speaks an era, None where that is not known; `judge` asks it
        with the headers of a client. A client that knows both eras asks for the modern one with
        server/discover, and falls back when it hears the upstream's refusal: unless
        `is_discovery_translated`, it does hear it."""
        self._doors = doors
        self._speaks = speaks
        self._judge = judge
        self._carry = carry
        self._is_discovery_translated = is_discovery_translated
        self._wants_credentials = wants_credentials
        self._waiting: dict[Era, list[Waiter]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes one request of any client."""
        head = read_head(request)
        if head.is_version_repeated:
            refuse(reply, 400, "Invalid request: repeated MCP-Protocol-Version")
            return
        spoken = self._speaks[head.era]
        if spoken is None and request.method == b"POST":
            headers = self._carry(request.headers)
            if not self._wants_credentials or rights_of(headers):
                self._wait(request, reply, head, headers)
                return
        self._lead(request, reply, head, spoken)

    async def close(self) -> None:
        """Asks nobody any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _lead(self, request: Request, reply: Reply, head: McpHead, spoken: bool | None) -> None:
        if spoken is not False:
            if spoken:
                head.door = self._doors.passthrough  # for all that have the same head
            self._doors.passthrough(request, reply)
        elif head.era is Era.LEGACY:
            self._doors.legacy(request, reply)
        elif not self._is_discovery_translated and request.fields.get(b"mcp-method") == b"server/discover":
            self._doors.passthrough(request, reply)
        else:
            self._doors.modern(request, reply)

    def _wait(self, request: Request, reply: Reply, head: McpHead, headers: Headers) -> None:
        def ask(waiter: Waiter) -> None:
            waiting = self._waiting.setdefault(head.era, [])
            waiting.append(waiter)
            if len(waiting) == 1:
                task = asyncio.get_running_loop().create_task(self._ask(head.era, headers))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        def leave(waiter: Waiter) -> None:
            waiting = self._waiting.get(head.era, [])
            if waiter in waiting:
                waiting.remove(waiter)

        wait_unless_gone(reply, ask, leave, lambda spoken: self._lead(request, reply, head, spoken))

    async def _ask(self, era: Era, headers: Headers) -> None:
        spoken = await self._judge(era, headers)
        if spoken is not None:
            self._speaks[era] = spoken
        for waiter in self._waiting.pop(era, []):
            waiter(spoken)
