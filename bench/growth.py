"""How the cost of a message grows: with tools, with rules, with its size, with open sessions."""

from __future__ import annotations

import socket
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import rules_cost
from bench.handshake import open_http_session
from bench.lines import connect
from bench.processes import reason
from bench.rounds import Say
from bench.targets import Spec, Target, Upstream, direct, penstock
from bench.workloads import CALL, LIST, Workload, sized, upload


@dataclass(frozen=True)
class Places:
    """Where on each line the cost is measured."""

    tools: tuple[int, ...] = (10, 100, 1_000, 10_000)
    results: tuple[int, ...] = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    arguments: tuple[int, ...] = (100, 1_000, 10_000, 100_000, 1_000_000)
    sessions: tuple[int, ...] = (1, 10, 100, 900)
    rules: tuple[int, ...] = (0, 1, 10, 100, 1_000)


FEW = Places((10, 100), (100, 10_000), (100, 10_000), (1, 5), (0, 10))
MANY = Places()

Point = tuple[str, int, Callable[[], float]]  # which line, where on it, and how to measure it once


def run_growth(places: Places, rounds: int, scale: float, work: Path, say: Say) -> dict[str, Any]:
    """Microseconds for one message, each line a dictionary from the number that grows."""
    found: dict[str, Any] = {}
    for name, part in (("tools", _tools), ("size", _sizes), ("sessions", _sessions)):
        try:
            found[name] = part(places, rounds, scale, work)
        except Exception as why:
            found[name] = {"failed": reason(why)}
            say(f"  growth with {name}: {why}")
        say(f"  growth with {name}: measured")
    exchanges = max(10, int(500 * scale))
    found["rules"] = rules_cost.measure(rounds, exchanges, places.rules)
    say("  growth with rules: measured")
    return found


def _interleaved(points: list[Point], rounds: int) -> dict[str, dict[str, float]]:
    """The median of every point over the rounds, each round through all of them."""
    values: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for line, at, once in points:
            values.setdefault((line, at), []).append(once())
    found: dict[str, dict[str, float]] = {}
    for (line, at), times in values.items():
        found.setdefault(line, {})[str(at)] = round(statistics.median(times), 1)
    return found


def _p50(target: Target, workload: Workload, count: int) -> Callable[[], float]:
    return lambda: target.measure(workload, count, 1)[0].p50


def _tools(places: Places, rounds: int, scale: float, work: Path) -> dict[str, dict[str, float]]:
    """The upstream has more and more tools; a tenth of them is denied."""
    upstreams: list[Upstream] = []
    targets: list[Target] = []
    points: list[Point] = []
    try:
        for count in places.tools:
            upstreams.append(Upstream(work, count))
            for pair in ("http", "stdio"):
                target = Target(penstock(pair, pair), upstreams[-1], work)
                targets.append(target)
                points.append((f"call, {pair} to {pair}", count, _p50(target, CALL, _few(400, scale))))
            lists = max(2, min(_few(200, scale), int(20_000 * scale) // count))
            points.append(("list, http to http", count, _p50(targets[-2], LIST, lists)))
        return _interleaved(points, rounds)
    finally:
        _end(targets, upstreams)


def _sizes(places: Places, rounds: int, scale: float, work: Path) -> dict[str, dict[str, float]]:
    """Results and arguments of more and more bytes, through Penstock and direct."""
    upstream = Upstream(work)
    targets: list[Target] = []
    points: list[Point] = []
    specs: list[Spec] = [
        direct("http"),
        penstock("http", "http"),
        direct("stdio"),
        penstock("stdio", "stdio"),
    ]
    try:
        for spec in specs:
            target = Target(spec, upstream, work)
            targets.append(target)
            pair = f"{spec.front} to {spec.back}"
            for size in places.results:
                count = max(2, min(_few(300, scale), int(30_000_000 * scale) // size))
                points.append(
                    (f"result, {spec.name}, {pair}", size, _p50(target, sized(f"{size}", size), count))
                )
            for size in places.arguments:
                count = max(2, min(_few(300, scale), int(10_000_000 * scale) // size))
                points.append(
                    (f"arguments, {spec.name}, {pair}", size, _p50(target, upload(f"{size}", size), count))
                )
        return _interleaved(points, rounds)
    finally:
        _end(targets, [upstream])


def _sessions(places: Places, rounds: int, scale: float, work: Path) -> dict[str, dict[str, float]]:
    """Calls in one session while others are open, each with its connection, and say nothing."""
    upstream = Upstream(work)
    targets: list[Target] = []
    held: list[socket.socket] = []
    points: list[Point] = []
    try:
        for count in places.sessions:
            target = Target(penstock("http", "http"), upstream, work)
            targets.append(target)
            for _ in range(count - 1):
                held.append(connect(target.port))
                open_http_session(target.port, target.path, held[-1])
            points.append(("call, http to http", count, _p50(target, CALL, _few(400, scale))))
        return _interleaved(points, rounds)
    finally:
        for sock in held:
            sock.close()
        _end(targets, [upstream])


def _few(count: int, scale: float) -> int:
    return max(3, int(count * scale))


def _end(targets: list[Target], upstreams: list[Upstream]) -> None:
    for target in targets:
        target.end()
    for upstream in upstreams:
        upstream.program.end()
