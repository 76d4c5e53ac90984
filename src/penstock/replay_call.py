"""A recorded call made once more: on a link of its own, through gate and rules, with our credentials only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from penstock.config.model import ProxyConfig
from penstock.errors import PenstockError, ProtocolError
from penstock.gate.gate import Gate
from penstock.net.warden import Warden
from penstock.open_links import open_upstream
from penstock.policy.exchange import Route, Session
from penstock.relay.session_relay import SessionRelay
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.eras import maybe_modern_meta
from penstock.wire.mcp.message import Kind, Message, read_client_message

_HELLO = (
    b'{"jsonrpc":"2.0","id":"replay-0","method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"penstock replay","version":"1"}}}'
)
_READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
_ID = b'"replay-1"'


class _Answers:
    """The client of a replay: keeps the answers, and answers nothing that is asked of it."""

    def __init__(self) -> None:
        self.waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self.relay: SessionRelay | None = None

    def expect(self, id_token: bytes) -> asyncio.Future[bytes]:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.waiting[id_token] = future
        return future

    def send(self, raw: bytes, route: Route | None, message: Message | None) -> None:
        try:
            read = msgspec.json.decode(raw, type=_Head)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        future = self.waiting.pop(bytes(read.id), None) if read.method is None else None
        if future is not None and not future.done():
            future.set_result(raw)

    def refuse(self, raw: bytes, route: Route | None) -> None:
        self.send(raw, route, None)

    def progress(self, raw: bytes, route: Route | None) -> bool:
        return False

    def pause(self, reason: str) -> None: ...

    def resume(self, reason: str) -> None: ...

    def lose(self, error: PenstockError) -> None:
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(error)


class _Head(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw(b"null")
    method: str | None = None


def replayer(config: ProxyConfig) -> Callable[[Gate, bytes, str], Awaitable[dict[str, object]]]:
    """Who replays calls for a proxy with this configuration."""

    async def replay(gate: Gate, raw: bytes, era: str) -> dict[str, object]:
        try:
            message = read_client_message(raw)
        except ProtocolError as why:
            return {"code": 422, "message": why.reason}
        if not isinstance(message, Message) or message.kind is not Kind.REQUEST:
            return {"code": 422, "message": "Only a request can be replayed"}
        if message.method == "initialize":
            return {"code": 422, "message": "A handshake is made anew for every replay"}
        return await _replayed(config, gate, message)

    return replay


async def _replayed(config: ProxyConfig, gate: Gate, message: Message) -> dict[str, object]:
    raw = with_value(message.raw, message.envelope, "id", _ID)
    warden = Warden()
    link = open_upstream(config, warden, restarts=False)
    answers = _Answers()
    session = Session(id=f"replay-{id(link):x}", client_name="penstock replay")
    relay = answers.relay = SessionRelay(
        answers,
        link,
        gate,
        session,
        tools_seconds=config.tools_seconds,
        first_seconds=config.first_seconds,
        on_fatal=answers.lose,
    )
    loop = asyncio.get_running_loop()
    started = loop.time()
    try:
        await link.connect()
        if maybe_modern_meta(message.params) is None:
            opened = answers.expect(b'"replay-0"')
            relay.from_client(_HELLO)
            await opened
            relay.from_client(_READY)
        answered = answers.expect(_ID)
        started = loop.time()
        relay.from_client(raw)
        answer = await answered
        ms = round((loop.time() - started) * 1000, 1)
        return {"code": 200, "message": "Done", "text": answer.decode("utf-8", "replace"), "ms": ms}
    finally:
        relay.end()
        await link.close()
        warden.dismiss()
