"""Everything that watches one run: opened before the upstream starts, closed after it has ended."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from penstock.gate.gate import Gate
from penstock.gate.record import Observer, Shortcut
from penstock.observe import bounds
from penstock.observe.record import Record
from penstock.observe.settings import ObserveSettings
from penstock.observe.tap import Tap, Watcher
from penstock.policy.tools.tool_filter import ToolFilter

if TYPE_CHECKING:  # each is loaded where it is asked for: the live view alone needs none of them
    from penstock.gate.held import Asker
    from penstock.observe.auditor import Auditor
    from penstock.observe.masking import Masker
    from penstock.observe.recorder import Recorder
    from penstock.observe.writing import Queue, WriterThread
    from penstock.policy.rules.method_classes import MethodClasses

log = logging.getLogger("penstock")

ReadCounts = Callable[[], Iterable[tuple[dict[str, str], float]]]


class Surroundings(Struct):
    """What those who watch must know of the run."""

    rules: str = ""  # the hash of the rules in force
    held: tuple[str, ...] = ()  # values of ours that must not be kept
    classes: MethodClasses | None = None  # where rules name some
    is_http: bool = False  # whether clients come by HTTP
    is_debug: bool = False  # whether each message is a line of the log
    choice: ToolFilter = ToolFilter()  # which tools clients see
    address: str = ""  # of the upstream, where it has one
    port: int = 0


class Guest(Protocol):
    """Somebody else who watches, by the same numbers: the live view."""

    async def start(self) -> None: ...

    @property
    def asker(self) -> Asker: ...

    def saw(self, record: Record) -> None: ...

    def shortcut(self, number: Callable[[], int]) -> Shortcut: ...

    def around(self, gate: Gate) -> Gate: ...

    def rules_changed(self, rules: str) -> None: ...

    def ending(self) -> None: ...

    def close(self) -> None: ...


class Watching(Observer):
    """The tap with what is behind it. Raises ConfigError where a file cannot be written."""

    def __init__(self, settings: ObserveSettings, around: Surroundings) -> None:
        self.settings = settings
        self._around = around
        held = [*around.held, *(os.environ.get(name, "") for name in settings.mask.values_of)]
        self._held = held
        self._queues: list[Queue[Record]] = []
        self.recorder: Recorder | None = None
        self.auditor: Auditor | None = None
        self._open_files()
        self.tap = Tap(self.recorder.last_index if self.recorder is not None else 0)
        self.saw = self.tap.saw  # type: ignore[method-assign]  # a call fewer for each message
        self._thread: WriterThread | None = None
        self.guests: list[Guest] = []
        self._read_custom: Callable[[], Iterable[tuple[str, float]]] = list
        self.counters: list[tuple[str, str, ReadCounts]] = []  # of other observers

    @cached_property
    def masker(self) -> Masker:
        """What is kept without secrets is kept through this."""
        from penstock.observe.masking import Masker

        return Masker(self.settings.mask, self._held)

    def _open_files(self) -> None:
        record, audit = self.settings.record, self.settings.audit
        if record is None and audit is None:
            return
        from penstock.observe.writing import Queue

        if record is not None:
            from penstock.observe.recorder import Recorder

            mask = self.masker if record.mask else None
            self.recorder = Recorder(record, self._around.rules, mask)
            self._queues.append(Queue("recording", self.recorder, blocks=record.blocks))
        if audit is not None:
            from penstock.observe.auditor import Auditor
            from penstock.policy.rules.method_classes import MethodClasses

            classes = self._around.classes or MethodClasses()
            self.auditor = Auditor(audit, self.masker, self._around.rules, classes)
            self.auditor.begin()
            self._queues.append(Queue("audit", self.auditor, blocks=audit.blocks))

    def around(self, gate: Gate) -> Gate:
        """A gate that stops what must be kept and cannot be, or that tells the upstream of our span."""
        for guest in self.guests:
            gate = guest.around(gate)
        audit, telemetry = self.settings.audit, self.settings.telemetry
        is_synced = audit is not None and audit.sync == "record"
        injects = telemetry is not None and telemetry.inject
        if not (injects or any(queue.blocks for queue in self._queues)):
            return gate
        from penstock.observe.watched_gate import WatchedGate

        return WatchedGate(gate, self, is_synced=is_synced, injects=injects)

    def refusing(self) -> str | None:
        """Which of them keeps traffic from passing now: `record`, `audit`, or none."""
        for queue in self._queues:
            if queue.is_refusing:
                return "record" if queue.name == "recording" else "audit"
        return None

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits for the disk that clients must wait for it too."""
        return any(queue.blocks and queue.is_crowded for queue in self._queues)

    async def written(self) -> bool:
        """Waits until the disk has everything; False when it does not take it."""
        if self._thread is None:
            return True
        try:
            return await asyncio.wait_for(self._thread.written(), bounds.SINK_WAIT_SECONDS)
        except TimeoutError:
            return False

    async def start(self) -> None:
        """Begins to write and to listen. After this, records may come."""
        if self.settings.telemetry is not None:
            from penstock.observe.tracing import Tracing

            self.tap.add(Tracing().saw)  # before everybody: they write its ids down
            self._add_exporter()
        if self.settings.metrics is not None:
            await self._serve_metrics(*self.settings.metrics)
        if self._around.is_debug:
            from penstock.observe.debug_log import DebugLog

            self.tap.add(DebugLog(self.masker).saw)
        self._say_what_is_kept()
        if self._queues:
            from penstock.observe.writing import WriterThread

            thread = self._thread = WriterThread(self._queues)
            for queue in self._queues:
                self.tap.add(self._audited(queue) if queue.sink is self.auditor else queue.add)
            self.tap.add(lambda record: thread.told())
        for guest in self.guests:
            await guest.start()
            self.tap.add(guest.saw)

    def note(self, kind: str, facts: dict[str, object]) -> None:
        """Writes down what people did, where there is an audit."""
        if self.auditor is not None:
            self.auditor.note(kind, facts)
            if self._thread is not None:
                self._thread.told()

    def saw(self, record: Record) -> None:
        """A message came by. (An instance has the tap's own method in this place.)"""
        self.tap.saw(record)

    def _audited(self, queue: Queue[Record]) -> Watcher:
        auditor = self.auditor
        assert auditor is not None

        def add(record: Record) -> None:
            if auditor.keeps(record):
                queue.add(record)

        return add

    def _add_exporter(self) -> None:
        from penstock.observe.exporter import Orders
        from penstock.observe.exporting import ExporterSink
        from penstock.observe.spans import SpanSettings
        from penstock.observe.writing import Queue

        telemetry = self.settings.telemetry
        assert telemetry is not None
        around = self._around
        spans = SpanSettings(
            content=telemetry.content,
            session_ids=telemetry.session_ids,
            transport="tcp" if around.is_http else "pipe",
            address=around.address,
            port=around.port,
            upstream_transport="tcp" if around.address else "pipe",
        )
        orders = Orders(telemetry.otlp, dict(telemetry.headers), spans, self.settings.mask, list(self._held))
        self._queues.append(Queue("traces", ExporterSink(orders)))

    async def _serve_metrics(self, host: str, port: int) -> None:
        from penstock.observe.metrics import Metrics
        from penstock.observe.metrics_server import MetricsServer

        metrics = Metrics(self._around.choice)
        metrics.counters.append(
            ("penstock_custom", "What rules count (the metric action).", self._custom_counts)
        )
        metrics.counters.append(
            ("penstock_lost_records", "Records that could not be written.", self._lost_records)
        )
        metrics.counters += self.counters
        server = MetricsServer(metrics)
        shown, chosen = await server.listen(host, port)
        shown = f"[{shown}]" if ":" in shown else shown
        log.info("Metrics on http://%s:%d/metrics.", shown, chosen)
        self.tap.add(metrics.saw)

    def _custom_counts(self) -> list[tuple[dict[str, str], float]]:
        return [({"name": name}, total) for name, total in self._read_custom()]

    def count_custom(self, read: Callable[[], Iterable[tuple[str, float]]]) -> None:
        """Rules may count things of their own."""
        self._read_custom = read

    def _lost_records(self) -> list[tuple[dict[str, str], float]]:
        return [({"sink": queue.name}, queue.lost) for queue in self._queues]

    def _say_what_is_kept(self) -> None:
        if self.recorder is not None and self.settings.record is not None:
            how = "masked" if self.settings.record.mask else "unmasked, secrets in messages included"
            log.info("Recording every message to %s (%s).", self.recorder.path, how)
        if self.auditor is not None:
            log.info("Writing the audit to %s.", self.auditor.path)

    @property
    def shortcut(self) -> Shortcut | None:
        """Straight to the live view, where nobody else watches."""
        if len(self.guests) != 1 or self.tap.is_shared or self._queues:
            return None
        return self.guests[0].shortcut(self.tap.number)

    def rules_changed(self, rules: str) -> None:
        """Other rules are in force from now on."""
        if self.auditor is not None:
            self.auditor.note("reload", {"rules": rules})
        for guest in self.guests:
            guest.rules_changed(rules)

    @property
    def asker(self) -> Asker | None:
        """Who asks people, where there is a live view."""
        return next((guest.asker for guest in self.guests), None)

    def ending(self) -> None:
        """Nobody is waited for any more."""
        for guest in self.guests:
            guest.ending()

    def close(self) -> None:
        """Writes what waits and lets go of the files."""
        for guest in self.guests:
            guest.close()
        if self._thread is not None:
            self._thread.close(bounds.SINK_CLOSE_SECONDS)
            self._thread = None
