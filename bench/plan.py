"""What is measured together, and how often: the pairs of transports with their targets and steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.growth import FEW, MANY, Places
from bench.peers import peers_for
from bench.relay import relay_spec
from bench.rounds import Group, Step
from bench.targets import Spec, direct, nginx, nginx_binary, penstock
from bench.workloads import (
    BASE64_1,
    BIG_1,
    BIG_10,
    BIG_64,
    CALL,
    DENIED,
    EVENT_1,
    JSON_1,
    LIST,
    MODERN_CALL,
    STREAM,
    STRUCTURED_1,
    UPLOAD_1,
    WORDS_1,
)

FRONTS = {"http": "Streamable HTTP", "stdio": "stdio", "sse": "legacy SSE"}
PAIRS = [(front, back) for front in FRONTS for back in FRONTS]
MINE = ("penstock",)


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int
    scale: float  # of the number of requests
    starts: int
    calls: int  # between two looks at the memory
    sessions: int
    settle: float  # seconds before a look at the memory
    growth: float  # of the number of requests in the growth part
    growth_rounds: int
    places: Places = MANY
    pairs: tuple[str, ...] = ()  # only these


FULL = Effort(
    rounds=7, scale=1.0, starts=7, calls=10_000, sessions=1_000, settle=0.5, growth=1.0, growth_rounds=5
)
QUICK = Effort(
    rounds=3, scale=0.15, starts=3, calls=2_000, sessions=200, settle=0.1, growth=0.1, growth_rounds=2
)
SMOKE = Effort(
    rounds=1,
    scale=0.003,
    starts=1,
    calls=16,
    sessions=5,
    settle=0.0,
    growth=0.004,
    growth_rounds=1,
    places=FEW,
    pairs=("http-http", "stdio-stdio"),
)


def groups(work: Path, effort: Effort, has_peers: bool) -> list[Group]:
    """One for each pair of transports; the four without the legacy transport are measured in full."""
    return [
        Group(
            name=f"{front}-{back}",
            title=f"{FRONTS[front]} to {FRONTS[back]}",
            specs=_specs(front, back, work, has_peers),
            steps=_steps(front, back, effort),
            reference=_reference(front, work).name,
        )
        for front, back in PAIRS
    ]


def _reference(front: str, work: Path) -> Spec:
    """The limit: what only copies. Where there is none, going direct."""
    if front == "stdio":
        return relay_spec(work) or direct(front)
    return nginx(front) if nginx_binary() else direct(front)


def _specs(front: str, back: str, work: Path, has_peers: bool) -> list[Spec]:
    """The limit is the same in all pairs with one front, so that all are compared with the same."""
    specs = [direct(front)]
    limit = _reference(front, work)
    if limit.name != "direct":
        specs.append(limit)
    specs.append(penstock(front, back))
    return specs + (peers_for(front, back) if has_peers else [])


def _steps(front: str, back: str, effort: Effort) -> list[Step]:
    def many(count: int) -> int:
        return max(4, int(count * effort.scale))

    def few(count: int) -> int:
        return max(2, int(count * effort.scale))

    steps = [
        Step(CALL, 1, many(3000), many(200)),
        Step(CALL, 16, many(6000), many(320)),
    ]
    if "sse" in (front, back):
        return [*steps, Step(LIST, 1, many(500), few(30))]
    steps += [
        Step(CALL, 64, many(6000)),
        Step(LIST, 1, many(1000), few(40)),
        Step(LIST, 16, many(2000)),
        Step(DENIED, 1, many(2000), only=MINE, against="call c=1"),
        Step(DENIED, 16, many(4000), only=MINE, against="call c=16"),
        Step(BIG_64, 1, many(400)),
        Step(BIG_1, 1, few(60), few(5)),
        *(Step(kind, 1, few(40)) for kind in (JSON_1, STRUCTURED_1, WORDS_1, BASE64_1)),
        *([Step(EVENT_1, 1, few(40))] if back == "http" else []),
        Step(BIG_10, 1, few(10), few(2)),
        Step(UPLOAD_1, 1, few(20)),
        Step(STREAM, 1, many(500)),
        Step(STREAM, 16, many(1000)),
    ]
    if (front, back) == ("http", "http"):
        steps += [Step(MODERN_CALL, 1, many(2000)), Step(MODERN_CALL, 16, many(5000))]
    return steps
