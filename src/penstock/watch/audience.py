"""The hubs that listen to one proxy: what each is told, and what they may ask for. Loaded with the first.

Nobody waits for a hub: what it does not take in time is dropped from its view and counted. Messages are
written for it some milliseconds after they have passed, many at a time: they pass no later for being watched.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import __version__
from penstock.gate.record import Passed, told
from penstock.observe.record import Record
from penstock.observe.recording import lost_line
from penstock.watch import bounds
from penstock.watch.line_socket import LineSocket
from penstock.watch.process_facts import process_facts
from penstock.watch.ring import CutRecord
from penstock.watch.tap_line import TapHeader, cut_line_of, line_of, own_line

if TYPE_CHECKING:
    from penstock.watch.dashboard import Dashboard
    from penstock.watch.holds import Outcome

log = logging.getLogger("penstock")

_TICK_SECONDS = 2.0
_AT_ONCE = 32  # lines written in one turn of the loop: less than a millisecond


class Hub:
    """One hub that listens."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines: LineSocket | None = None
        self.lost = 0
        self.first_lost = 0
        self.last_lost = 0

    def give(self, record: Record, line: bytes) -> None:
        """Sends the record, or counts it where there is no room."""
        lines = self.lines
        if lines is None:
            return
        if self.lost and lines.waiting < bounds.TAP_BYTES // 2:
            lost = lost_line(self.last_lost, record.received, self.lost, self.first_lost, self.last_lost)
            if lines.send(lost):
                self.lost = 0
        if self.lost or not lines.send(line):
            self.first_lost = self.first_lost if self.lost else record.index
            self.lost += 1
            self.last_lost = record.index

    def tell(self, facts: dict[str, Any] | msgspec.Struct) -> None:
        """Sends a line that is no message."""
        if self.lines is not None:
            self.lines.send(own_line(facts))


class Audience:
    """All of them."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard
        self._hubs: dict[int, Hub] = {}
        self._numbers = 0
        self._loop = asyncio.get_running_loop()
        self._keep = dashboard.ring.append
        self._pending: deque[Passed | Record] = deque()
        self._pending_bytes = 0
        self._is_due = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._hubs)

    def keep(self, passed: Passed) -> None:
        """A small message passed: it is for whoever comes later as well."""
        self._keep(passed)
        self._pending.append(passed)
        self._pending_bytes += len(passed[0])
        if not self._is_due or self._pending_bytes > bounds.TAP_PENDING_BYTES:
            self._plan()

    def saw(self, record: Record) -> None:
        """A message came by."""
        self._pending.append(record)
        self._pending_bytes += len(record.raw)
        self._plan()

    def _plan(self) -> None:
        """Sees to it that what is pending is written soon, or now where it is much."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_later(bounds.TAP_SECONDS, self._write_some)
        elif self._pending_bytes > bounds.TAP_PENDING_BYTES:
            self._write(len(self._pending))

    def _write_some(self) -> None:
        """Writes a few, and the others after whatever else is to be done."""
        self._write(_AT_ONCE)
        self._is_due = bool(self._pending)
        if self._is_due:
            self._loop.call_soon(self._write_some)

    def _write(self, most: int) -> None:
        pending = self._pending
        for _ in range(min(most, len(pending))):
            record = told(pending.popleft())
            self._pending_bytes -= len(record.raw)
            line = line_of(record)
            for hub in self._hubs.values():
                hub.give(record, line)

    def tell(self, facts: dict[str, object]) -> None:
        """Something else is to be known, after what has passed until now."""
        self._write(len(self._pending))
        for hub in self._hubs.values():
            hub.tell(facts)

    def close(self) -> None:
        """Says good-bye."""
        self._write(len(self._pending))
        if self._ticking is not None:
            self._ticking.cancel()
        for hub in list(self._hubs.values()):
            if hub.lines is not None:
                hub.lines.close()

    # --- coming and going --------------------------------------------------------------------------------

    def join(self, sock: socket.socket) -> None:
        """One more hub: it is told what there is, and then whatever comes."""
        if len(self._hubs) >= bounds.HUBS:
            sock.close()
            return
        self._write(len(self._pending))  # for the others; the newcomer gets it from the ring
        self._numbers += 1
        hub = Hub(self._numbers)
        hub.lines = LineSocket(
            sock,
            lambda line: self._take(hub, line),
            lambda: self._gone(hub),
            bounds.TAP_BYTES + bounds.RING_BYTES,
            bounds.COMMAND_BYTES,
        )
        self._greet(hub)
        self._hubs[hub.number] = hub
        self._dashboard.attended(True)
        if self._ticking is None:
            self._tick()

    def _greet(self, hub: Hub) -> None:
        dashboard = self._dashboard
        facts = dashboard.facts
        hub.tell(
            TapHeader(
                "hello",
                name=facts.name,
                pid=os.getpid(),
                started=dashboard.started,
                version=__version__,
                upstream=facts.upstream,
                transport=facts.transport,
                config=facts.config,
                rules=facts.rules,
                mask_keys=facts.mask_keys,
                mask_patterns=facts.mask_patterns,
                run=dashboard.run,
            )
        )
        assert hub.lines is not None
        for record in dashboard.ring:
            piece = cut_line_of(record) if isinstance(record, CutRecord) else line_of(record)
            hub.lines.send(piece)
        for line in (*dashboard.log.kept, *dashboard.log.alerts):
            hub.tell(line)
        if dashboard.tools is not None and dashboard.tools.facts is not None:
            hub.tell(dashboard.tools.facts)
        hub.tell({"tap": "rules", "rules": facts.rule_rows})
        holds = dashboard.maybe_holds
        if holds is not None:
            for held in holds.held.values():
                hub.tell({"tap": "held", **holds.shown(held)})
            hub.tell(holds.points_facts())
        hub.tell({"tap": "ready"})

    def _tick(self) -> None:
        """Says how the process and its children are, while anybody listens."""
        self._ticking = None
        if self._hubs:
            holds = self._dashboard.maybe_holds
            held = len(holds.held) if holds is not None else 0
            self.tell({"tap": "process", **process_facts(os.getpid()), "held": held})
            self._ticking = self._loop.call_later(_TICK_SECONDS, self._tick)

    def _gone(self, hub: Hub) -> None:
        self._hubs.pop(hub.number, None)
        if not self._hubs:
            self._dashboard.attended(False)
        holds = self._dashboard.maybe_holds
        if holds is not None and (holds.is_of(hub.number) or holds.held):
            self._loop.call_later(bounds.HUB_GONE_SECONDS, self._is_back_or_over, hub.number)

    def _is_back_or_over(self, number: int) -> None:
        self._dashboard.holds.hub_gone(number, is_last=not self._hubs)

    # --- commands ----------------------------------------------------------------------------------------

    def _take(self, hub: Hub, line: bytes) -> None:
        try:
            command = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        what = command.get("do")
        if what == "replay":
            task = self._loop.create_task(self._replay(hub, command))
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
        holds = self._dashboard.holds
        if what == "decide":
            return holds.decide(command)
        if what == "break":
            return holds.set_point(str(command.get("id")), str(command.get("filter")), hub.number)
        if what == "unbreak":
            return holds.take_point(str(command.get("id")))
        if what == "note":
            facts = {name: str(command.get(name, ""))[:200] for name in ("who", "role", "message")}
            self._dashboard.note("reveal", {**facts})
            log.info("%s has looked at message %s unmasked.", facts["who"], facts["message"])
            return 200, "Done"
        return 400, "There is no such command"

    async def _replay(self, hub: Hub, command: dict[str, Any]) -> None:
        try:
            raw = str(command.get("text", "")).encode("utf-8", "surrogateescape")
            work = self._dashboard.replay(raw, str(command.get("era", "")))
            facts = await asyncio.wait_for(work, bounds.REPLAY_SECONDS)
        except TimeoutError:
            facts = {"code": 504, "message": "The upstream took too long"}
        except Exception as why:
            log.warning("A call could not be replayed: %s", why)
            facts = {"code": 502, "message": str(why)[:300]}
        self._answer(hub, command, facts)

    def _answer(self, hub: Hub, command: dict[str, Any], facts: dict[str, object]) -> None:
        hub.tell({"tap": "answer", "n": command.get("n"), **facts})
