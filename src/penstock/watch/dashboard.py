"""The tap in the proxy: what hubs of the same user are told of every message, and what they may ask for.

It never waits for a hub. While none listens, the last messages are kept in a small ring; while one does, what
it does not take in time is dropped from its view and counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from penstock import __version__
from penstock.errors import ConfigError
from penstock.gate.gate import Gate
from penstock.gate.held import HeldGate
from penstock.observe.record import Record
from penstock.observe.recording import lost_line
from penstock.policy.exchange import Exchange
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.verdict import Why
from penstock.watch import bounds, runtime
from penstock.watch.holds import ENDING, RELOADED, Holds, Outcome
from penstock.watch.hub_child import HubChild
from penstock.watch.line_socket import LineSocket
from penstock.watch.log_tap import LogTap
from penstock.watch.process_facts import process_facts
from penstock.watch.settings import DashboardSettings
from penstock.watch.tap_line import TapHeader, cut_line_of, encode, line_of, own_line, short_record
from penstock.watch.tool_facts import ToolFacts

log = logging.getLogger("penstock")

Note = Callable[[str, dict[str, object]], None]
Replay = Callable[[Gate, bytes, str], Awaitable[dict[str, object]]]


class TapFacts(Struct):
    """What a tap says of its proxy, and what it must know of it."""

    name: str
    upstream: str
    transport: str
    config: str = ""
    rules: str = ""
    mask_keys: tuple[str, ...] = ()
    mask_patterns: tuple[str, ...] = ()
    choice: ToolFilter = ToolFilter()
    classes: Any = None  # MethodClasses, where there are rules
    defaults: Any = None  # Defaults, likewise
    rule_rows: list[dict[str, object]] = []


class Hub:
    """One hub that listens."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines: LineSocket | None = None
        self.lost = 0
        self.first_lost = 0
        self.last_lost = 0


class Dashboard:
    """A guest of the observers: sees every record, and stands before the gate with its breakpoints."""

    def __init__(self, settings: DashboardSettings, facts: TapFacts, note: Note, replay: Replay) -> None:
        self._settings = settings
        self._facts = facts
        self._note = note
        self._replay = replay
        self._started = time.time()
        self._run = os.urandom(6).hex()
        self._ring: deque[tuple[Record, int]] = deque()
        self._ring_bytes = 0
        self._hubs: dict[int, Hub] = {}
        self._numbers = 0
        self._tools = ToolFacts(facts.choice)
        self._socket: socket.socket | None = None
        self._path = ""
        self._child: HubChild | None = None
        self._gate: Gate | None = None
        self._log = LogTap(self._tell)
        self._tasks: set[asyncio.Task[None]] = set()
        self.holds = Holds(facts.name, self._tell, self._keep, facts.classes, facts.defaults)
        self._ticking: asyncio.TimerHandle | None = None

    # --- beginning and end -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Opens the tap, and starts a hub where one was asked for."""
        self._path = runtime.tap_path(self._facts.name, os.getpid())
        try:
            self._socket = runtime.listen_at(self._path)
        except OSError as why:
            raise ConfigError(f"Cannot open the tap {self._path}", why.strerror or str(why)) from None
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)
        logging.getLogger("penstock").addHandler(self._log)
        if self._settings.has_hub:
            self._child = HubChild(self._settings.host, self._settings.port, self._path)
            self._child.start()
        else:
            log.info("Live view: penstock watch, or penstock watch --web.")

    def around(self, gate: Gate) -> Gate:
        """The gate with breakpoints before it."""
        self._gate = HeldGate(gate, self.holds)
        return self._gate

    def rules_changed(self, rules: str) -> None:
        """Other rules are in force: what waits for a person was asked under the old ones."""
        self._facts.rules = rules
        self.holds.void(RELOADED)

    def ending(self) -> None:
        """The process ends: nobody is waited for any more."""
        self.holds.void(ENDING)

    def close(self) -> None:
        """Tells hubs good-bye and takes the socket away."""
        logging.getLogger("penstock").removeHandler(self._log)
        if self._ticking is not None:
            self._ticking.cancel()
        self._tell({"tap": "bye", "t": time.time()})
        for hub in list(self._hubs.values()):
            if hub.lines is not None:
                hub.lines.close()
        if self._socket is not None:
            try:
                asyncio.get_running_loop().remove_reader(self._socket.fileno())
            except RuntimeError:
                pass
            self._socket.close()
            self._socket = None
            try:
                os.unlink(self._path)
            except OSError:
                pass
        if self._child is not None:
            self._child.stop()

    # --- what hubs see -----------------------------------------------------------------------------------

    def saw(self, record: Record) -> None:
        """A message came by."""
        if record.method == "tools/list" and self._tools.is_news(record):
            self._tell(self._tools.facts or {})
        size = len(record.raw)
        if self._hubs:
            line = line_of(record)
            for hub in self._hubs.values():
                self._give(hub, record, line)
        kept = record if size <= bounds.RING_HEAD else short_record(record)
        self._ring.append((kept, size))
        self._ring_bytes += min(size, bounds.RING_HEAD)
        while len(self._ring) > bounds.RING_MESSAGES or self._ring_bytes > bounds.RING_BYTES:
            _, old = self._ring.popleft()
            self._ring_bytes -= min(old, bounds.RING_HEAD)

    def _give(self, hub: Hub, record: Record, line: bytes) -> None:
        lines = hub.lines
        if lines is None:
            return
        if hub.lost and lines.waiting < bounds.TAP_BYTES // 2:
            lost = lost_line(hub.last_lost, record.received, hub.lost, hub.first_lost, hub.last_lost)
            if lines.send(lost):
                hub.lost = 0
        if hub.lost or not lines.send(line):
            hub.first_lost = hub.first_lost if hub.lost else record.index
            hub.lost += 1
            hub.last_lost = record.index

    def _tell(self, facts: dict[str, object]) -> None:
        if self._hubs:
            line = own_line(facts)
            for hub in self._hubs.values():
                if hub.lines is not None:
                    hub.lines.send(line)

    def _keep(self, kind: str, facts: dict[str, object], exchange: Exchange) -> None:
        """Notes in recording and audit that somebody was asked, or has decided."""
        if self._gate is not None:
            why = Why(str(facts.get("rule", "")), kind, str(facts.get("how", "")))
            raw = encode({"penstock": kind, **facts})
            self._gate.said("penstock", "pass", raw, why, session=exchange.session)
        self._note(kind, {name: value for name, value in facts.items() if name not in ("was", "is")})

    # --- hubs --------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._socket is not None
        try:
            sock, _ = self._socket.accept()
        except OSError:
            return
        if not runtime.is_own(sock) or len(self._hubs) >= bounds.HUBS:
            sock.close()
            return
        self._numbers += 1
        hub = Hub(self._numbers)
        hub.lines = LineSocket(
            sock,
            lambda line: self._take(hub, line),
            lambda: self._gone(hub),
            bounds.TAP_BYTES + bounds.RING_BYTES,
            bounds.COMMAND_BYTES,
        )
        facts = self._facts
        header = TapHeader(
            "hello",
            name=facts.name,
            pid=os.getpid(),
            started=self._started,
            version=__version__,
            upstream=facts.upstream,
            transport=facts.transport,
            config=facts.config,
            rules=facts.rules,
            mask_keys=facts.mask_keys,
            mask_patterns=facts.mask_patterns,
            run=self._run,
        )
        hub.lines.send(own_line(header))
        for record, size in self._ring:
            is_cut = size > len(record.raw)
            hub.lines.send(cut_line_of(record, size) if is_cut else line_of(record))
        self._hubs[hub.number] = hub
        for line in self._log.kept:
            hub.lines.send(own_line(line))
        if self._tools.facts is not None:
            hub.lines.send(own_line(self._tools.facts))
        hub.lines.send(own_line({"tap": "rules", "rules": facts.rule_rows}))
        for held in self.holds.held.values():
            hub.lines.send(own_line({"tap": "held", **self.holds.shown(held)}))
        self.holds.tell_points()
        hub.lines.send(own_line({"tap": "ready"}))
        if self._ticking is None:
            self._tick()

    def _tick(self) -> None:
        """Says how the process and its children are, while anybody listens."""
        self._ticking = None
        if self._hubs:
            self._tell({"tap": "process", **process_facts(os.getpid()), "held": len(self.holds.held)})
            self._ticking = asyncio.get_running_loop().call_later(2.0, self._tick)

    def _gone(self, hub: Hub) -> None:
        self._hubs.pop(hub.number, None)
        loop = asyncio.get_running_loop()
        if any(point.hub == hub.number for point in self.holds.points.values()) or self.holds.held:
            loop.call_later(bounds.HUB_GONE_SECONDS, self._is_back_or_over, hub.number)

    def _is_back_or_over(self, number: int) -> None:
        self.holds.hub_gone(number, is_last=not self._hubs)

    # --- commands ----------------------------------------------------------------------------------------

    def _take(self, hub: Hub, line: bytes) -> None:
        try:
            command = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        what = command.get("do")
        if what == "replay":
            task = asyncio.get_running_loop().create_task(self._replay_call(hub, command))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        try:
            outcome = self._do(hub, str(what), command)
        except Exception:
            log.exception("A command of the live view failed.")
            outcome = 500, "It failed; see the log"
        self._answer(hub, command, {"code": outcome[0], "message": outcome[1]})

    def _do(self, hub: Hub, what: str, command: dict[str, Any]) -> Outcome:
        if what == "decide":
            return self.holds.decide(command)
        if what == "break":
            return self.holds.set_point(str(command.get("id")), str(command.get("filter")), hub.number)
        if what == "unbreak":
            return self.holds.take_point(str(command.get("id")))
        if what == "note":
            facts = {name: str(command.get(name, ""))[:200] for name in ("who", "role", "message")}
            self._note("reveal", {**facts})
            log.info("%s has looked at message %s unmasked.", facts["who"], facts["message"])
            return 200, "Done"
        return 400, "There is no such command"

    async def _replay_call(self, hub: Hub, command: dict[str, Any]) -> None:
        try:
            assert self._gate is not None
            raw = str(command.get("text", "")).encode("utf-8", "surrogateescape")
            work = self._replay(self._gate, raw, str(command.get("era", "")))
            facts = await asyncio.wait_for(work, bounds.REPLAY_SECONDS)
        except TimeoutError:
            facts = {"code": 504, "message": "The upstream took too long"}
        except Exception as why:
            log.warning("A call could not be replayed: %s", why)
            facts = {"code": 502, "message": str(why)[:300]}
        self._answer(hub, command, facts)

    def _answer(self, hub: Hub, command: dict[str, Any], facts: dict[str, object]) -> None:
        if hub.lines is not None:
            hub.lines.send(own_line({"tap": "answer", "n": command.get("n"), **facts}))
