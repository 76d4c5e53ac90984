"""Everything that watches one run: opened before the upstream starts, closed after it has ended."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable

from penstock.errors import ConfigError
from penstock.observe import bounds
from penstock.observe.auditor import Auditor
from penstock.observe.masking import Masker
from penstock.observe.metrics import Metrics
from penstock.observe.record import Record
from penstock.observe.recorder import Recorder
from penstock.observe.settings import ObserveSettings
from penstock.observe.tap import Tap, Watcher
from penstock.observe.writing import Queue, WriterThread
from penstock.policy.rules.method_classes import MethodClasses

log = logging.getLogger("penstock")


class Watching:
    """The tap with what is behind it. Raises ConfigError where a file cannot be written."""

    def __init__(
        self,
        settings: ObserveSettings,
        rules: str = "",
        held: Iterable[str] = (),
        classes: MethodClasses = MethodClasses(),  # noqa: B008  # frozen
    ) -> None:
        """`rules` is the hash of the rules in force, `held` are values of ours that must not be kept."""
        self.settings = settings
        held = [*held, *(os.environ.get(name, "") for name in settings.mask.values_of)]
        self.masker = Masker(settings.mask, held)
        self._queues: list[Queue] = []
        self.recorder: Recorder | None = None
        self.auditor: Auditor | None = None
        self.metrics: Metrics | None = None
        if settings.record is not None:
            mask = self.masker if settings.record.mask else None
            self.recorder = Recorder(settings.record, rules, mask)
            self._queues.append(Queue("recording", self.recorder, blocks=settings.record.blocks))
        if settings.audit is not None:
            self.auditor = Auditor(settings.audit, self.masker, rules, classes)
            self.auditor.begin()
            self._queues.append(Queue("audit", self.auditor, blocks=settings.audit.blocks))
        self.tap = Tap(self.recorder.last_index if self.recorder is not None else 0)
        self._thread: WriterThread | None = None

    @property
    def refusing(self) -> str | None:
        """Which of them keeps traffic from passing now: `record`, `audit`, or none."""
        for queue in self._queues:
            if queue.is_refusing:
                return "record" if queue.name == "recording" else "audit"
        return None

    def start(self) -> None:
        """Begins to write. After this, records may come."""
        self._say_what_is_kept()
        if self._queues:
            self._thread = WriterThread(self._queues)
            for queue in self._queues:
                self.tap.add(self._audited(queue) if queue.sink is self.auditor else queue.add)
            thread = self._thread
            self.tap.add(lambda record: thread.told())
        if self.settings.metrics is not None:
            self.metrics = Metrics()
            self.metrics.counters.append(
                ("penstock_lost_records", "Records that could not be written.", self._lost_records)
            )
            self.tap.add(self.metrics.saw)

    def _audited(self, queue: Queue) -> Watcher:
        auditor = self.auditor
        assert auditor is not None

        def add(record: Record) -> None:
            if auditor.keeps(record):
                queue.add(record)

        return add

    def _lost_records(self) -> list[tuple[dict[str, str], float]]:
        return [({"sink": queue.name}, queue.lost) for queue in self._queues]

    def _say_what_is_kept(self) -> None:
        if self.recorder is not None and self.settings.record is not None:
            how = "masked" if self.settings.record.mask else "unmasked, secrets in messages included"
            log.info("Recording every message to %s (%s).", self.recorder.path, how)
        if self.auditor is not None:
            log.info("Writing the audit to %s.", self.auditor.path)

    def rules_changed(self, rules: str) -> None:
        """Other rules are in force from now on."""
        if self.auditor is not None:
            self.auditor.note("reload", {"rules": rules})

    def close(self) -> None:
        """Writes what waits and lets go of the files."""
        if self._thread is not None:
            self._thread.close(bounds.SINK_CLOSE_SECONDS)
            self._thread = None


def open_watching(
    settings: ObserveSettings, rules: str, held: Iterable[str], classes: MethodClasses
) -> Watching:
    """What watches this run."""
    try:
        return Watching(settings, rules, held, classes)
    except OSError as why:
        raise ConfigError("Cannot keep what was asked for", str(why.strerror or why)) from None
