"""The section `anomalies`: which baseline sessions are compared with, and how much may be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from penstock.config.check import Findings, Section
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.policy.learned.baseline import Baseline


class Anomalies(Struct, frozen=True):
    """What to tell of."""

    baseline: Any  # a Baseline: frozen while we run
    budget: float
    watch: tuple[str, ...]
    file: str | None = None  # of alerts
    learns_into: str | None = None  # the baseline's own file

    @property
    def known(self) -> Baseline:
        """The baseline."""
        return cast("Baseline", self.baseline)


def read_anomalies(section: Section | None, findings: Findings) -> Anomalies | None:
    """What the section asks for; None where there is none, or it is faulty."""
    if section is None:
        return None
    if "baseline" not in section:
        findings.add(("anomalies",), "anomalies needs a baseline, which penstock baseline writes")
        return None
    from penstock.learn.alerts import check_kinds, parse_budget
    from penstock.learn.baseline_file import load_baseline

    key = "baseline"
    try:
        baseline = load_baseline(str(section["baseline"]))
        if section.get("group_by", baseline.group_by) != baseline.group_by:
            made = f"by {baseline.group_by}" if baseline.group_by else "for all clients together"
            findings.add(("anomalies", "group_by"), f"the baseline was made {made}")
        key = "budget"
        budget = parse_budget(str(section.get("budget", "1/500 sessions")), "anomalies.budget")
        key = "watch"
        watch = check_kinds(cast("list[str]", section.get("watch", [])), "anomalies.watch")
    except ConfigError as error:
        findings.add_error(("anomalies", key), error)
        return None
    alert = cast(Section, section.get("alert") or {})
    learns_into = str(section["baseline"]) if section.get("learn") else None
    return Anomalies(baseline, budget, watch, cast("str | None", alert.get("file")), learns_into)
