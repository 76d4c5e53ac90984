"""The tap in the proxy: where hubs of the same user find it, and what it keeps for those that come later.

While nobody listens it appends to a small ring, and nothing more is loaded: who listens is in `audience`,
what waits for a person in `holds`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from msgspec import Struct

from penstock.errors import ConfigError
from penstock.gate.gate import Gate
from penstock.gate.holdable import HoldableGate
from penstock.gate.record import Shortcut
from penstock.observe.record import Record
from penstock.policy.exchange import Exchange
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.watch import bounds, runtime
from penstock.watch.log_tap import LogTap
from penstock.watch.ring import Ring
from penstock.watch.settings import DashboardSettings

if TYPE_CHECKING:  # loaded when somebody listens, holds a message, lists tools or wants a hub of our own
    from penstock.gate.held import HumanWait
    from penstock.watch.audience import Audience
    from penstock.watch.holds import Holds
    from penstock.watch.hub_child import HubChild
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


class Dashboard:
    """A guest of the observers: sees every record, and stands before the gate with its breakpoints."""

    def __init__(self, settings: DashboardSettings, facts: TapFacts, note: Note, replay: Replay) -> None:
        self._settings = settings
        self.facts = facts
        self.note = note
        self._replay = replay
        self.started = time.time()
        self.run = os.urandom(6).hex()
        self.ring = Ring()
        self._shortcut = Shortcut(int, self.ring.append, bounds.RING_HEAD)
        self.log = LogTap(self._tell)
        self.tools: ToolFacts | None = None
        self.maybe_holds: Holds | None = None
        self._audience: Audience | None = None
        self._socket: socket.socket | None = None
        self._path = ""
        self._child: HubChild | None = None
        self._gate: HoldableGate | None = None  # the newest
        self._gates: WeakSet[HoldableGate] = WeakSet()  # each profile has its own, and a reload makes others

    # --- beginning and end -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Opens the tap, and starts a hub where one was asked for."""
        self._path = runtime.tap_path(self.facts.name, os.getpid())
        try:
            self._socket = runtime.listen_at(self._path)
        except OSError as why:
            raise ConfigError(f"Cannot open the tap {self._path}", why.strerror or str(why)) from None
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)
        logging.getLogger("penstock").addHandler(self.log)
        if self._settings.has_hub:
            from penstock.watch.hub_child import HubChild

            self._child = HubChild(self._settings.host, self._settings.port, self._path)
            self._child.start()
        else:
            log.info("Live view: penstock watch, or penstock watch --web.")

    def around(self, gate: Gate) -> Gate:
        """The gate, where breakpoints can be put before it."""
        self._gate = made = HoldableGate(gate)
        self._gates.add(made)
        if self.maybe_holds is not None:
            made.hold_for(self.maybe_holds)
        return made

    def rules_changed(self, rules: str) -> None:
        """Other rules are in force: what waits for a person was asked under the old ones."""
        self.facts.rules = rules
        if self.maybe_holds is not None:
            self.maybe_holds.void_reloaded()

    def ending(self) -> None:
        """The process ends: nobody is waited for any more."""
        if self.maybe_holds is not None:
            self.maybe_holds.void_ending()

    def close(self) -> None:
        """Tells hubs good-bye and takes the socket away."""
        logging.getLogger("penstock").removeHandler(self.log)
        self._tell({"tap": "bye", "t": time.time()})
        if self._audience is not None:
            self._audience.close()
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

    # --- what comes by -----------------------------------------------------------------------------------

    def shortcut(self, number: Callable[[], int]) -> Shortcut:
        """Where small messages that pass go straight to: while nobody listens, the ring itself."""
        self._shortcut.number = number
        return self._shortcut

    def attended(self, is_attended: bool) -> None:
        """Somebody listens from now on, or nobody any more."""
        assert self._audience is not None
        self._shortcut.keep = self._audience.keep if is_attended else self.ring.append

    def saw(self, record: Record) -> None:
        """A message came by."""
        if self._audience:
            self._audience.saw(record)
        self.ring.add(record)
        if record.method == "tools/list" and record.kind == "response":
            self._look_at_list(record)

    def _look_at_list(self, record: Record) -> None:
        if self.tools is None:
            from penstock.watch.tool_facts import ToolFacts

            self.tools = ToolFacts(self.facts.choice)
        if self.tools.is_news(record) and self._audience and self.tools.facts is not None:
            self._audience.tell(self.tools.facts)

    def _tell(self, facts: dict[str, object]) -> None:
        if self._audience:
            self._audience.tell(facts)

    def _accept(self) -> None:
        assert self._socket is not None
        try:
            sock, _ = self._socket.accept()
        except OSError:
            return
        if not runtime.is_own(sock):
            sock.close()
            return
        if self._audience is None:
            from penstock.watch.audience import Audience

            self._audience = Audience(self)
        self._audience.join(sock)

    # --- what waits for a person -------------------------------------------------------------------------

    @property
    def holds(self) -> Holds:
        """What waits for a person, made when it is first asked for; breakpoints stand from then on."""
        if self.maybe_holds is None:
            from penstock.watch.holds import Holds

            facts = self.facts
            made = Holds(facts.name, self._tell, self._keep, self._said, facts.classes, facts.defaults)
            self.maybe_holds = made
            for gate in self._gates:
                gate.hold_for(made)
        return self.maybe_holds

    @property
    def asker(self) -> Dashboard:
        """Who asks people where a rule wants them asked."""
        return self

    def hold(self, wait: HumanWait, kind: str, approval: Any = None) -> None:
        """Keeps a message until somebody decides."""
        self.holds.hold(wait, kind, approval)

    def _keep(self, kind: str, facts: dict[str, object], exchange: Exchange) -> None:
        """Notes in recording and audit that somebody was asked, or has decided."""
        from penstock.policy.verdict import Why
        from penstock.watch.tap_line import encode

        if self._gate is not None:
            why = Why(str(facts.get("rule", "")), kind, str(facts.get("how", "")))
            raw = encode({"penstock": kind, **facts})
            self._gate.said("penstock", "pass", raw, why, session=exchange.session)
        self.note(kind, {name: value for name, value in facts.items() if name not in ("was", "is")})

    def _said(self, raw: bytes, exchange: Exchange) -> None:
        """Notes in recordings what a client was told while its call waits."""
        if self._gate is not None:
            self._gate.said("penstock", "pass", raw, None, session=exchange.session)

    async def replay(self, raw: bytes, era: str) -> dict[str, object]:
        """What a call comes to that is made once more."""
        assert self._gate is not None
        return await self._replay(self._gate, raw, era)
