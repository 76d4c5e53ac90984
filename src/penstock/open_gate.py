"""Which gate stands between clients and upstream: plain, with rules, with observers. Chosen once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from penstock.config.model import CommandUpstream, ProxyConfig, ReplayUpstream, SeveralUpstreams
from penstock.gate.gate import Gate
from penstock.policy.exchange import Session
from penstock.policy.tools.schema import SchemaCheck

if TYPE_CHECKING:  # loaded only where there are rules or observers
    from penstock.gate.record import Observer
    from penstock.gate.session_table import SessionTable
    from penstock.live_rules import LiveRules
    from penstock.peers import Peers


class OpenGate(Struct, frozen=True):
    """A gate, and the sessions, where it asks whose a message is."""

    gate: Gate
    sessions: SessionTable | None = None

    def new_session(self, session_id: bytes | None = None) -> Session:
        """The session of a client that has a link of its own."""
        return Session() if self.sessions is None else self.sessions.new(session_id)


def open_gate(
    config: ProxyConfig,
    live_rules: LiveRules | None,
    observers: Sequence[Observer] = (),
    fleet: Peers | None = None,
) -> OpenGate:
    """The gate that `config` asks for."""
    schema = SchemaCheck(config.validate) if config.validate not in (None, "off") else None
    gate = Gate(config.relayed, schema)
    if live_rules is not None:
        from penstock.gate.ruled import RuledGate

        ruled: RuledGate
        if fleet is not None and fleet.records is not None:
            from penstock.gate.shared_ruled import SharedRuledGate

            ruled = shared = SharedRuledGate(config.relayed, schema, live_rules.rules)
            shared.records = fleet.records
        else:
            ruled = RuledGate(config.relayed, schema, live_rules.rules)
        ruled.asker = next((one.asker for one in observers if one.asker is not None), None)
        gate = ruled
    gate.takes_batches = config.batch == "inspect"
    gate.answers_losses = config.on_crash == "answer"
    if live_rules is None and not observers:
        gate.passes_unread = config.validate == "off" and not gate.is_filtering
        return OpenGate(gate)
    sessions = _session_table(config)
    if observers:
        gate = _observed(gate, observers, sessions.new(), is_plain=live_rules is None)
        for observer in observers:
            gate = observer.around(gate)
    return OpenGate(gate, sessions)


def _observed(gate: Gate, observers: Sequence[Observer], own: Session, *, is_plain: bool) -> Gate:
    """The gate with its observers. Rules look at what those set: only a plain gate has the short way, but who
    wants nothing but calls has one before any gate."""
    keep_call = observers[0].keep_call if len(observers) == 1 else None
    if keep_call is not None:
        from penstock.gate.calls import CallsGate

        return CallsGate(gate, observers, own, keep_call)
    shortcut = observers[0].shortcut if len(observers) == 1 and is_plain else None
    if shortcut is None:
        from penstock.gate.observed import ObservedGate

        return ObservedGate(gate, observers, own)
    from penstock.gate.shortcut import ShortcutGate

    return ShortcutGate(gate, observers, own, shortcut)


def _session_table(config: ProxyConfig) -> SessionTable:
    import time

    from penstock import limits
    from penstock.gate.session_table import SessionTable, TrackedSession
    from penstock.state.memory import MemoryTable

    known: MemoryTable[bytes, TrackedSession] = MemoryTable(
        limits.STATE_SESSIONS,
        limits.STATE_SECONDS,
        time.monotonic,
        on_dropped=TrackedSession.end,
        is_in_use=lambda session: session.is_in_use,
    )
    return SessionTable(_name(config), known, config.profile)


def _name(config: ProxyConfig) -> str:
    """What stands for the upstream in the keys of what rules remember."""
    upstream = config.upstream
    if isinstance(upstream, CommandUpstream):
        return "\0".join(upstream.command)
    if isinstance(upstream, ReplayUpstream):
        return upstream.path
    if isinstance(upstream, SeveralUpstreams):
        return "\0".join(member.terms.name for member in upstream.members)
    return upstream.url.origin + upstream.url.target.decode()
