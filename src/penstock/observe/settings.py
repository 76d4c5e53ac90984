"""What the sections `record`, `audit`, `metrics`, `telemetry` and `mask` and their options ask for."""

from __future__ import annotations

import argparse
import os
from typing import Any

from msgspec import Struct, structs

from penstock.errors import ConfigError, UsageError
from penstock.observe import bounds
from penstock.observe.file_names import in_folder
from penstock.wire.http.url import parse_listen, parse_url

Section = dict[str, Any]

SECTIONS = ("record", "audit", "metrics", "telemetry", "mask")


class RecordSettings(Struct, frozen=True):
    """The `record` section."""

    file: str
    rotate: int = bounds.RECORD_ROTATE_BYTES
    keep: int = bounds.RECORD_KEEP
    mask: bool = False
    blocks: bool = False  # on_failure: block


class AuditSettings(Struct, frozen=True):
    """The `audit` section."""

    file: str
    rotate: int = bounds.AUDIT_ROTATE_BYTES
    keep: int = bounds.AUDIT_KEEP
    blocks: bool = False  # on_failure: block
    sync: str = "second"
    args: str = "masked"  # or none
    outcomes: bool = False
    key_file: str | None = None
    mode: int = 0o600


class MaskSettings(Struct, frozen=True):
    """The `mask` section: what is masked beside what always is."""

    keys: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    values_of: tuple[str, ...] = ()  # names of environment variables whose values are secret


class TelemetrySettings(Struct, frozen=True):
    """The `telemetry` section."""

    otlp: str | None = None  # else what OTEL_EXPORTER_OTLP_ENDPOINT says
    headers: tuple[tuple[str, str], ...] = ()
    inject: bool = False  # propagate: inject
    content: bool = False
    session_ids: bool = False


class ObserveSettings(Struct, frozen=True):
    """Everything that watches."""

    record: RecordSettings | None = None
    audit: AuditSettings | None = None
    metrics: tuple[str, int] | None = None
    telemetry: TelemetrySettings | None = None
    mask: MaskSettings = MaskSettings()

    def with_own_files(self, name: str) -> ObserveSettings:
        """The same, with a file of this process in each folder that was named."""
        record, audit = self.record, self.audit
        if record is not None:
            record = structs.replace(record, file=in_folder(record.file, name))
        if audit is not None:
            audit = structs.replace(audit, file=in_folder(audit.file, name))
        return structs.replace(self, record=record, audit=audit)


def make_settings(options: argparse.Namespace | None, sections: dict[str, Section]) -> ObserveSettings:
    """The settings of a file's sections with the options on top. Raises ConfigError."""
    record, audit = dict(sections.get("record") or {}), dict(sections.get("audit") or {})
    telemetry = sections.get("telemetry")
    listen = (sections.get("metrics") or {}).get("listen")
    if options is not None:
        record.update({"file": options.record} if options.record is not None else {})
        audit.update({"file": options.audit} if options.audit is not None else {})
        listen = parse_listen(options.metrics) if options.metrics is not None else listen
        if options.otel is not None:
            telemetry = {**(telemetry or {}), **({"otlp": options.otel} if options.otel else {})}
    settings = ObserveSettings(
        record=_record(record) if record else None,
        audit=_audit(audit) if audit else None,
        metrics=listen,
        telemetry=None if telemetry is None else _telemetry(telemetry),
        mask=_mask(sections.get("mask") or {}),
    )
    _refuse_one_file(settings)
    return settings


def _refuse_one_file(settings: ObserveSettings) -> None:
    files = [os.path.abspath(one.file) for one in (settings.record, settings.audit) if one is not None]
    if len(set(files)) < len(files):
        raise UsageError("The recording and the audit are one file", "Give each its own")


def _record(section: Section) -> RecordSettings:
    if "file" not in section:
        raise ConfigError("record has no file", "Say where: record: {file: PATH}, or --record PATH")
    made = RecordSettings(
        section["file"], mask=bool(section.get("mask")), blocks=section.get("on_failure") == "block"
    )
    return structs.replace(made, **_rotation(section))


def _audit(section: Section) -> AuditSettings:
    if "file" not in section:
        raise ConfigError("audit has no file", "Say where: audit: {file: PATH}, or --audit PATH")
    sync = section.get("sync", "second")
    made = AuditSettings(
        section["file"],
        blocks=section.get("on_failure") == "block" or sync == "record",
        sync=sync,
        args=section.get("args", "masked"),
        outcomes=bool(section.get("outcomes")),
        key_file=section.get("key_file"),
        mode=0o640 if section.get("mode") in ("0640", "640", 640, 0o640) else 0o600,
    )
    return structs.replace(made, **_rotation(section))


def _rotation(section: Section) -> dict[str, int]:
    return {name: section[name] for name in ("rotate", "keep") if name in section}


def _telemetry(section: Section) -> TelemetrySettings:
    if section.get("otlp"):
        parse_url(section["otlp"])  # what is no URL would be told only when the first spans are lost
    return TelemetrySettings(
        otlp=section.get("otlp"),
        headers=tuple((section.get("headers") or {}).items()),
        inject=section.get("propagate") == "inject",
        content=bool(section.get("content")),
        session_ids=bool(section.get("session_ids")),
    )


def _mask(section: Section) -> MaskSettings:
    from penstock.policy.patterns.patterns import compile_pattern

    for pattern in section.get("patterns") or ():
        compile_pattern(pattern, "mask.patterns")
    return MaskSettings(
        keys=tuple(section.get("keys") or ()),
        patterns=tuple(section.get("patterns") or ()),
        values_of=tuple(section.get("values_of") or ()),
    )
