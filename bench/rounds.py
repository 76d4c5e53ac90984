"""Targets side by side: every round asks each of them once, in turn, so that what the machine does meanwhile
befalls all alike. Ratios are taken within a round; what is told is the median over the rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.processes import reason
from bench.targets import Spec, Target, Upstream
from bench.workloads import Workload

Say = Callable[[str], None]
PEER_WARM_SECONDS = 2.0
PEER_SECONDS = 0.7  # a sample of a peer takes about so long: some are a thousand times slower than others


@dataclass(frozen=True)
class Step:
    """One measurement of a round."""

    workload: Workload
    in_flight: int
    count: int
    peer_count: int = 0  # how often peers are asked; 0: not at all
    only: tuple[str, ...] = ()  # the targets that can do it, if not all
    against: str = ""  # the step of the others that it is compared with, if not the same

    @property
    def key(self) -> str:
        return f"{self.workload.name} c={self.in_flight}"

    def count_for(self, spec: Spec) -> int:
        if self.only and spec.name not in self.only:
            return 0
        return self.peer_count if spec.is_peer else self.count


@dataclass(frozen=True)
class Group:
    """Targets that do the same for the same clients."""

    name: str
    title: str
    specs: Sequence[Spec]
    steps: Sequence[Step]
    reference: str  # the limit that ratios are taken to


def run_group(group: Group, rounds: int, work: Path, say: Say) -> dict[str, Any]:
    upstream = Upstream(work)
    targets: dict[str, Target] = {}
    failed: dict[str, dict[str, str]] = {}
    samples: dict[str, dict[str, list[dict[str, float] | None]]] = {}
    try:
        for spec in group.specs:
            samples[spec.name] = {}
            failed[spec.name] = {}
            try:
                targets[spec.name] = Target(spec, upstream, work)
            except Exception as why:
                failed[spec.name] = {step.key: f"does not start: {reason(why)}" for step in group.steps}
                say(f"  {group.name}: {spec.name} does not start: {why}")
        for number in range(rounds + 1):
            begun = time.monotonic()
            for step in group.steps:
                for spec in group.specs:
                    _measure(step, spec, targets, upstream, work, failed, samples, say)
            if number == 0:  # everybody has warmed up; nothing of it counts
                samples = {spec.name: {} for spec in group.specs}
                continue
            say(f"  {group.name}: round {number} of {rounds}, {time.monotonic() - begun:.0f} s")
    finally:
        for target in targets.values():
            target.end()
        upstream.program.end()
    return {
        "title": group.title,
        "reference": group.reference,
        "peers": [spec.name for spec in group.specs if spec.is_peer],
        "targets": {
            spec.name: {
                step.key: {"failed": failed[spec.name][step.key]}
                if step.key in failed[spec.name]
                else _summary(step, spec.name, group.reference, samples)
                for step in group.steps
                if step.count_for(spec)
            }
            for spec in group.specs
        },
    }


def _measure(
    step: Step,
    spec: Spec,
    targets: dict[str, Target],
    upstream: Upstream,
    work: Path,
    failed: dict[str, dict[str, str]],
    samples: dict[str, dict[str, list[dict[str, float] | None]]],
    say: Say,
) -> None:
    """One sample, or None in its place. A target that fails is started afresh and spared this step."""
    count = step.count_for(spec)
    if not count:
        return
    values = samples[spec.name].setdefault(step.key, [])
    target = targets.get(spec.name)
    if target is None or step.key in failed[spec.name]:
        values.append(None)
        return
    try:
        if spec.is_peer:
            count = min(count, _pace(target, step))
        sample, cpu, upstream_cpu = target.measure(step.workload, count, step.in_flight)
    except Exception as why:  # whatever a target does wrong is told of it, and the others go on
        failed[spec.name][step.key] = reason(why)
        values.append(None)
        say(f"  {spec.name}: {step.key} fails: {why}")
        target.end()
        del targets[spec.name]
        try:
            targets[spec.name] = Target(spec, upstream, work)
        except Exception as again:
            say(f"  {spec.name} does not start again: {again}")
        return
    values.append(
        {
            "p50": sample.p50,
            "p99": sample.p99,
            "rate": sample.rate,
            "cpu": cpu / count * 1e6,
            "busy": cpu / sample.seconds,
            "busy upstream": upstream_cpu / sample.seconds,
            "busy client": sample.client_cpu / sample.seconds,
            **({} if sample.first is None else {"first": sample.first}),
        }
    )


def _pace(target: Target, step: Step) -> int:
    """How many requests a sample of a peer has. The first time that is found out, and the peer warms up well:
    programs on Node are several times slower until their code is compiled."""
    least = 2 * step.in_flight
    if step.key not in target.paces:
        target.paces[step.key] = target.measure(step.workload, least, step.in_flight)[0].rate
        warm = min(2_000, int(PEER_WARM_SECONDS * target.paces[step.key]))
        if warm > least:
            target.paces[step.key] = target.measure(step.workload, warm, step.in_flight)[0].rate
    return max(least, int(PEER_SECONDS * target.paces[step.key]))


def _summary(
    step: Step,
    name: str,
    reference: str,
    samples: dict[str, dict[str, list[dict[str, float] | None]]],
) -> dict[str, Any]:
    """Medians, what is added over going direct, and the ratios to the reference, round by round."""
    mine = samples[name].get(step.key, [])
    key = step.against or step.key
    there = [one for one in mine if one is not None]
    if not there:
        return {"failed": "was not measured"}
    found: dict[str, Any] = {
        what: round(statistics.median(one[what] for one in there), 3 if what.startswith("busy") else 1)
        for what in ("p50", "p99", "rate", "cpu", "busy", "busy upstream", "busy client")
    }
    if all("first" in one for one in there):
        found["first"] = round(statistics.median(one["first"] for one in there), 1)
    for what in ("p50", "p99"):
        added = [a[what] - b[what] for a, b in _pairs(mine, samples.get("direct", {}).get(key, []))]
        if added and name != "direct":
            found[f"added {what}"] = round(statistics.median(added), 1)
    for other in {reference, "direct"} - {name}:
        for what in ("p50", "rate"):
            ratios = [a[what] / b[what] for a, b in _pairs(mine, samples.get(other, {}).get(key, []))]
            if ratios:
                found[f"{what} x {other}"] = round(statistics.median(ratios), 4)
                if other == reference:
                    found[f"{what} x {other}, rounds"] = [round(ratio, 4) for ratio in ratios]
    return found


def _pairs(
    mine: list[dict[str, float] | None], others: list[dict[str, float] | None]
) -> list[tuple[dict[str, float], dict[str, float]]]:
    return [(a, b) for a, b in zip(mine, others, strict=False) if a is not None and b is not None]
