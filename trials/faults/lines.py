"""Bad lines: every toxic, between client and proxy and between proxy and upstream, over every pair.

A toxic that only takes time must cost nothing: every exchange is answered, in order, unchanged. One that ends
a connection may cost the exchanges under way an error. On the client's side nobody else may notice; on the
upstream's side the proxy either goes on or says that the upstream is lost, and ends with exit code 1.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from doors import Client, StdioDoor
from gate import wait_until
from pairs import DENY, TRANSPORTS, Proxy, Upstream
from trials.faults.checker import Traffic, faults_of_arrivals
from trials.faults.tcp_relay import TcpRelay
from trials.faults.toxics import Toxic
from trials.table import Row, Table

LOST = "Error: Lost connection to upstream MCP\nShutting down proxy\n"
PATIENCE = 30.0
SMALL = 150  # characters in each text where every byte is a slice of its own
LARGE = 20_000

GENTLE = [
    Toxic("latency", "client", seconds=0.05),
    Toxic("latency", "upstream", seconds=0.05),
    Toxic("bandwidth", "client", rate=500_000),
    Toxic("slicer", "client"),
    Toxic("slicer", "upstream"),
    Toxic("stall", "client", after=25_000, seconds=1.0),
    Toxic("stall", "upstream", after=25_000, seconds=1.0),
    Toxic("slow-close", "client", seconds=0.3),
]
HARSH = [
    Toxic("cut", "client", after=45_000),
    Toxic("cut", "upstream", after=45_000),
    Toxic("reset", "client", after=45_000),
    Toxic("reset", "upstream", after=45_000),
]


class Line:
    """One upstream, one Penstock, and a relay on one side of it."""

    def __init__(self, client: str, upstream: str, era: str, where: str, toxic: Toxic, work: Path) -> None:
        self.client, self.upstream_kind, self.era, self.where, self.work = client, upstream, era, where, work
        self.there = Upstream(upstream, work)
        self.relay: TcpRelay | None = None
        self.proxy: Proxy | None = None
        self._stack = contextlib.ExitStack()
        self._stack.callback(self.there.stop)
        self._pipe = [sys.executable, "-m", "trials.faults.pipe_relay", *_options(toxic), "--"]
        words = self.there.words()
        if where == "proxy-upstream" and upstream == "stdio":
            words = ["--", *self._pipe, *self.there.command]
        elif where == "proxy-upstream":
            self.relay = self._stack.enter_context(TcpRelay("127.0.0.1", urlsplit(self.there.url).port or 0))
            path = urlsplit(self.there.url).path
            words = ["--upstream", f"http://127.0.0.1:{self.relay.port}{path}"]
        self.words = words
        self._errors = work / f"errors-{len(list(work.glob('errors-*')))}"
        self._errors.touch()
        if client != "stdio":
            self.proxy = Proxy(work, words, "--deny", DENY)
            self._stack.push(lambda *why: self._end_proxy())
            if where == "client-proxy":
                self.relay = self._stack.enter_context(TcpRelay("127.0.0.1", self.proxy.port))

    def victim(self) -> Any:
        """A client on the bad line."""
        door: Client
        if self.client == "stdio":
            command = [sys.executable, "-m", "penstock", "--stdio", "--deny", DENY, *self.words]
            if self.where == "client-proxy":
                command = [*self._pipe, *command]
            with self._errors.open("ab") as errors:
                door = StdioDoor(command, self.era, errors)
        else:
            assert self.proxy is not None
            door = self.proxy.connect(self.client, self.era)
            if self.where == "client-proxy":
                assert self.relay is not None
                door.close()
                door = type(door)(self.relay.port, self.era)  # type: ignore[call-arg,arg-type]
        self._stack.callback(_quietly(door.close))
        return door

    def witness(self) -> Any:
        """A client that has a line of its own to the same proxy; None where there can be none."""
        if self.proxy is None:
            return None
        door = self.proxy.connect(self.client, self.era)
        self._stack.callback(_quietly(door.close))
        return door

    @property
    def said(self) -> str:
        return self.proxy.stderr if self.proxy is not None else self._errors.read_text("utf-8", "replace")

    def _end_proxy(self) -> None:
        assert self.proxy is not None
        if self.proxy.process.poll() is None:
            self.proxy.process.kill()
        self.proxy.process.wait()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *why: object) -> None:
        self._stack.close()


def gentle(line: Line, toxic: Toxic) -> list[str]:
    """What is wrong after traffic on a line that is only slow."""
    victim, witness = line.victim(), line.witness()
    victim.begin()
    size = SMALL if toxic.kind == "slicer" else LARGE
    clients = [Traffic(victim, size)]
    if witness is not None:
        witness.begin()
        clients.append(Traffic(witness, size))
    if line.relay is not None:
        line.relay.toxic = toxic
    for client in clients:
        client.send(4, asks=True)
    wrong = []
    for client in clients:
        wrong += [] if client.wait(PATIENCE) else ["not all was answered"]
        wrong += client.faults()
        wrong += [f"{client.errors()} errors"] if client.errors() else []
    wrong += faults_of_arrivals(line.there.reached(), clients, _is_in_order(line, toxic))
    if line.relay is not None:
        line.relay.toxic = Toxic()
    if line.client == "stdio":
        victim.process.stdin.close()
        wrong += [] if victim.process.wait(PATIENCE) == 0 else [f"exit code {victim.process.returncode}"]
    line.there.record.write_bytes(b"")
    return wrong


def harsh(line: Line, toxic: Toxic) -> tuple[list[str], str]:
    """The same after the line has broken, and how it went on."""
    victim, witness = line.victim(), line.witness()
    victim.begin()
    clients = [Traffic(victim)]
    if witness is not None:
        witness.begin()
        clients.append(Traffic(witness))
    if line.relay is not None:
        line.relay.toxic = toxic
    is_ours = line.where == "client-proxy"
    for client in clients:
        client.send(5, asks=not (is_ours and toxic.toward == "upstream"))
    wrong = []
    for client in clients:
        is_cut = is_ours and client.door is victim
        if not client.wait(8.0 if is_cut else PATIENCE) and not is_cut:
            wrong.append("somebody waits for ever")
        wrong += client.faults(may_be_cut=is_cut)
    wrong += faults_of_arrivals(line.there.reached(), clients, False)
    if line.relay is not None and not line.relay.toxic.is_spent:
        wrong.append("the fault was never met")
    if "Traceback" in line.said:
        wrong.append("a traceback")
    went_on = _aftermath(line, victim, clients, wrong)
    errors = sum(client.errors() for client in clients)
    return wrong, f"{errors} of {sum(len(client.exchanges) for client in clients)} got an error, {went_on}"


def _aftermath(line: Line, victim: Any, clients: list[Traffic], wrong: list[str]) -> str:
    """Whether the proxy lives on as it should, or ended as it should."""
    is_ours = line.where == "client-proxy"
    if line.client == "stdio":
        if is_ours or victim.process.poll() is None:
            with contextlib.suppress(OSError):
                victim.process.stdin.close()
        code = victim.process.wait(PATIENCE)
        if is_ours and code == 0:
            return "exit 0"
        if not is_ours and code == 1 and LOST in line.said:
            return "upstream lost, exit 1"
        if not is_ours and code == 0 and clients[0].errors() < 5:
            return "it went on, exit 0"
        wrong.append(f"exit code {code}")
        return f"exit {code}"
    proxy = line.proxy
    assert proxy is not None
    if is_ours:
        wrong += [f"a witness got {clients[1].errors()} errors"] if clients[1].errors() else []
    elif wait_until(lambda: proxy.process.poll() is not None or LOST in line.said, 1.0):
        proxy.process.wait(PATIENCE)
        if proxy.process.returncode != 1 or LOST not in line.said:
            wrong.append(f"exit code {proxy.process.returncode}")
        return "upstream lost, exit 1"
    try:
        newcomer = proxy.connect(line.client, line.era)
        newcomer.begin()
        if not newcomer.is_alive():
            wrong.append("a newcomer is not served")
        newcomer.close()
    except (AssertionError, OSError) as why:
        wrong.append(f"a newcomer is not served: {why}")
    code = proxy.end()
    wrong += [] if code == 0 else [f"exit code {code}"]
    return "others unaffected" if is_ours else "it went on"


def try_lines(
    table: Table,
    work: Path,
    pairs: list[tuple[str, str]] | None = None,
    eras: tuple[str, ...] = ("legacy", "modern"),
) -> None:
    """Every toxic, on both sides, over the pairs."""
    for client, upstream in pairs or [(c, u) for c in TRANSPORTS for u in TRANSPORTS]:
        for where in ("client-proxy", "proxy-upstream"):
            for row in _try_side(client, upstream, where, eras, work):
                table.add(row)


def _try_side(client: str, upstream: str, where: str, eras: tuple[str, ...], work: Path) -> Iterator[Row]:
    pair = f"{client} -> {upstream}"
    is_pipe = "stdio" in ((client,) if where == "client-proxy" else (upstream,))
    toxics = [toxic for toxic in GENTLE if not (is_pipe and toxic.kind == "slow-close")]
    line: Line | None = None
    for toxic in toxics:
        began = time.monotonic()
        if line is None or is_pipe:
            if line is not None:
                line.__exit__()
            line = Line(client, upstream, eras[0], where, toxic, work)
        wrong = gentle(line, _fresh(toxic))
        verdict = "; ".join(wrong[:3]) or "all answered, in order, unchanged"
        yield Row(_name(toxic), where, f"{pair}, {eras[0]}", verdict, not wrong, time.monotonic() - began)
    if line is not None:
        line.__exit__()
    for era in eras:
        for toxic in HARSH:
            if is_pipe and toxic.kind == "reset":
                continue
            began = time.monotonic()
            with Line(client, upstream, era, where, toxic, work) as broken:
                wrong, how = harsh(broken, _fresh(toxic))
            verdict = "; ".join(wrong[:3]) or how
            yield Row(_name(toxic), where, f"{pair}, {era}", verdict, not wrong, time.monotonic() - began)


def _is_in_order(line: Line, toxic: Toxic) -> bool:
    """Whether requests arrive as they were sent. Each has a connection of its own over Streamable HTTP; and a
    POST that a legacy upstream does not acknowledge for half a second is overtaken (limits.SSE_TURN_SECONDS):
    some of those answer it only when they are done."""
    if line.upstream_kind == "sse" and toxic.kind == "stall" and line.where == "proxy-upstream":
        return False
    return line.client != "streamable" and line.upstream_kind != "streamable"


def _fresh(toxic: Toxic) -> Toxic:
    return Toxic(toxic.kind, toxic.toward, toxic.after, toxic.seconds, toxic.rate)


def _name(toxic: Toxic) -> str:
    return f"{toxic.kind}, toward {toxic.toward}"


def _options(toxic: Toxic) -> list[str]:
    return [
        *("--kind", toxic.kind, "--toward", toxic.toward, "--after", str(toxic.after)),
        *("--seconds", str(toxic.seconds), "--rate", str(toxic.rate)),
    ]


def _quietly(close: Any) -> Any:
    def run() -> None:
        with contextlib.suppress(OSError, AssertionError, ValueError):
            close()

    return run
