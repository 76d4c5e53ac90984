"""The tap in the proxy: where records go while somebody listens or nobody does, and whose messages wait."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memory_doors import CHOICE
from penstock.config.model import CommandUpstream, ProxyConfig
from penstock.gate.gate import Gate
from penstock.gate.held import HeldGate
from penstock.gate.record import Passed, Record
from penstock.observe.settings import ObserveSettings
from penstock.observe.watching import Surroundings, Watching
from penstock.open_dashboard import open_dashboard
from penstock.policy.exchange import Session
from penstock.watch import runtime
from penstock.watch.dashboard import Dashboard, TapFacts
from penstock.watch.settings import dashboard_settings


async def no_replay(gate: Gate, raw: bytes, era: str) -> dict[str, object]:
    return {}


def record(index: int) -> Record:
    found = Record(1.0, Session(id="s"), "client", "request", "ping", b"1", b'{"id":1}', "pass")
    found.index = index
    return found


def passed(index: int) -> Passed:
    return b'{"id":1}', b"1", 1.0, 1.0, index, Session(id="s"), "ping", None, ()


def running(work: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Dashboard], Awaitable[Any]]) -> Any:
    """What `act` gives, of a dashboard whose socket is in `work`."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(work))

    async def run() -> Any:
        facts = TapFacts("t", "up", "stdio")
        dashboard = Dashboard(dashboard_settings("auto"), facts, lambda kind, facts: None, no_replay)
        await dashboard.start()
        try:
            return await act(dashboard)
        finally:
            dashboard.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("words", "name"),
    [("auto", "my-server"), ("auto:", "my-server"), ("auto:files", "files"), ("auto:a b:8", "a b:8")],
)
def test_a_proxy_is_called_as_it_was_told_or_else_by_its_upstream(words: str, name: str) -> None:
    upstream = CommandUpstream(("npx", "-y", "my-server@1"))
    config = ProxyConfig(upstream, CHOICE, dashboard=dashboard_settings(words))

    async def opened() -> str:
        return open_dashboard(config, lambda kind, facts: None).facts.name

    assert asyncio.run(opened()) == name
    assert dashboard_settings(words).has_hub is False
    assert len(dashboard_settings("auto:" + "x" * 999).name) == 64


def test_breakpoints_stand_before_every_gate_whenever_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(dashboard: Dashboard) -> list[bool]:
        gates = [dashboard.around(Gate(CHOICE)) for _ in range(2)]
        assert dashboard.holds is dashboard.maybe_holds
        gates.append(dashboard.around(Gate(CHOICE)))
        return [isinstance(gate.client_says.__self__, HeldGate) for gate in gates]  # type: ignore[attr-defined]

    assert running(tmp_path, monkeypatch, act) == [True, True, True]


def test_who_listens_is_told_and_who_comes_later_finds_it_in_the_ring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lines_of(sock: socket.socket, wanted: bytes) -> bytes:
        data = b""
        while wanted not in data:
            data += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 1 << 16), 20)
        return data

    async def connected() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, runtime.tap_path("t", os.getpid()))
        return sock

    async def act(dashboard: Dashboard) -> None:
        shortcut = dashboard.shortcut(int)
        alone = shortcut.keep
        shortcut.keep(passed(1))
        sock = await connected()
        assert b'{"i":1,' in await lines_of(sock, b'"ready"')
        assert shortcut.keep is not alone
        shortcut.keep(passed(2))
        dashboard.saw(record(3))
        data = await lines_of(sock, b'{"i":3,')
        assert data.index(b'{"i":2,') < data.index(b'{"i":3,')
        sock.close()
        for _ in range(2000):  # until it is noticed that nobody listens any more
            if shortcut.keep is alone:
                break
            await asyncio.sleep(0.01)
        assert shortcut.keep is alone
        shortcut.keep(passed(4))
        sock = await connected()
        data = await lines_of(sock, b'"ready"')
        assert [data.count(b'{"i":%d,' % number) for number in (1, 2, 3, 4)] == [1, 1, 1, 1]
        sock.close()

    running(tmp_path, monkeypatch, act)


def test_there_is_a_short_way_only_where_the_live_view_alone_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(dashboard: Dashboard) -> None:
        alone, debugged, nobody = (
            Watching(ObserveSettings(), Surroundings(is_debug=is_debug)) for is_debug in (False, True, False)
        )
        for watching in (alone, debugged):
            watching.guests.append(dashboard)
        monkeypatch.setattr(dashboard, "start", lambda: asyncio.sleep(0))
        for watching in (alone, debugged, nobody):
            await watching.start()
        assert alone.shortcut is not None
        assert alone.shortcut.number is alone.tap.number
        assert debugged.shortcut is None
        assert nobody.shortcut is None

    running(tmp_path, monkeypatch, act)
