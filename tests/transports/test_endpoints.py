"""Two endpoints in one process: each has its own tools and its own sessions."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from gate import DEADLINE, SCRIPTED
from memory_doors import HELLO, Memory, post
from penstock.config.model import CommandUpstream, ProxyConfig
from penstock.endpoint import Endpoint
from penstock.net.http_exchange import Reply
from penstock.net.warden import Warden
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools.tool_filter import ToolFilter

CALL = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"%b","arguments":{}}}'


def config(deny: str) -> ProxyConfig:
    choice = ToolFilter(deny=(compile_pattern(deny, "deny list"),))
    return ProxyConfig(CommandUpstream((sys.executable, "-S", str(SCRIPTED))), choice)


async def said(door: Any, raw: bytes, session: bytes | None = None) -> bytes:
    """What a door answers to one POST."""
    more = [] if session is None else [(b"Mcp-Session-Id", session)]
    connection = Memory()
    door(post(raw, b"2025-11-25", *more), Reply(connection, False, True))  # type: ignore[arg-type]
    async with asyncio.timeout(DEADLINE):
        while b"jsonrpc" not in b"".join(connection.given):  # noqa: ASYNC110  # a reply has no event
            await asyncio.sleep(0.01)
    return b"".join(connection.given)


def session_in(reply: bytes) -> bytes:
    """The session id that a reply gives."""
    (line,) = [line for line in reply.split(b"\r\n") if line.startswith(b"Mcp-Session-Id:")]
    return line.split()[1]


async def nobody_waits() -> None:
    raise AssertionError("the upstream is there")


def test_a_session_of_one_endpoint_is_unknown_to_the_other_and_so_are_its_tools() -> None:
    async def run() -> None:
        warden = Warden()
        lost: list[Exception] = []
        one = Endpoint(config("^write_"), warden, lambda data: config(""), [], lost.append)
        two = Endpoint(config("^echo$"), warden, lambda data: config(""), [], lost.append, b"/team")
        try:
            for endpoint in (one, two):
                await endpoint.meet_upstream(nobody_waits)
            doors = one.doors() | two.doors()
            assert {path for path in doors if path.endswith(b"/mcp")} == {b"/mcp", b"/team/mcp"}
            assert b"/team/messages" in doors
            hello = await said(doors[b"/mcp"], HELLO)
            session = session_in(hello)
            assert b'"called" : "echo"' in await said(doors[b"/mcp"], CALL % b"echo", session)
            assert b"Tool not found: write_file" in await said(doors[b"/mcp"], CALL % b"write_file", session)
            assert (
                b"404" in (await said(doors[b"/team/mcp"], CALL % b"write_file", session)).split(b"\r\n")[0]
            )
            hello = await said(doors[b"/team/mcp"], HELLO)
            other = session_in(hello)
            assert b'"called" : "write_file"' in await said(doors[b"/team/mcp"], CALL % b"write_file", other)
            assert b"Tool not found: echo" in await said(doors[b"/team/mcp"], CALL % b"echo", other)
            assert lost == []
        finally:
            await one.close()
            await two.close()
            warden.dismiss()

    asyncio.run(run())
