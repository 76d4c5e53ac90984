"""What learning costs: alerts while traffic passes, shadow sets, and suggestions over a recording.

    python -m bench.learning_cost [instructions] [time] [suggest] [--rounds N] [--calls N]

Calls go from stdio to stdio: alerts beside the same file without them, a shadow set beside the same set in
force. Instructions are counted as `bench.instructions` does, with what is done after the call in a thread.
Processor time is that of the whole process on one core, kernel and thread included, and latency the median;
both are ratios, of variants that run at the same time and are measured in turn, round by round ("again" is
the first once more, and says how far to trust them). The targets are those that it all was planned with.
"""

from __future__ import annotations

import argparse
import compileall
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from bench import instructions  # noqa: E402
from bench.messages import call_tail  # noqa: E402
from bench.targets import Spec, Target, Upstream, penstock  # noqa: E402
from bench.workloads import Workload  # noqa: E402
from penstock.observe import bounds  # noqa: E402
from sessions import START, RecordingMaker  # type: ignore[import-not-found]  # noqa: E402

CPU = {"alerts": ("file", 1.08), "alerts too": ("record", 1.08), "shadow": ("live", 1.1)}
P50 = {"alerts": 1.02}
MESSAGES_A_SECOND = 10_000
EXCHANGES = 50, 150
_IDLE = 0.002  # seconds of the processor in a second: whoever spends less waits
_TICKS = 10  # of processor time in a second and a half: whoever spends less waits


def _arguments(number: int) -> dict[str, object]:
    """Texts that come once and places that come again: a call has two of them, and a word and a number."""
    return {
        "kind": ("bug", "feature", "question")[number % 3],
        "path": f"/data/project/{number % 7}/{number}.txt",
        "to": f"a{number}@d{number % 5}.example",
        "amount": number * 7 % 170,
    }


def _usual(path: Path) -> None:
    """A recording of what is called here, so that it is usual: with one argument, and with four."""
    with RecordingMaker(path) as made:
        for number in range(400):
            for step in range(5):
                arguments = {"path": "a/b"} if step % 2 else _arguments(number * 5 + step)
                made.call(f"s{number}", START + number * 60 + step, "short", arguments)


def call_of_four(number: int) -> bytes:
    """A call as that recording has them."""
    params = {"name": "short", "arguments": _arguments(number)}
    message = {"jsonrpc": "2.0", "id": 100_000 + number, "method": "tools/call", "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


def _recording(path: Path, sessions: int) -> int:
    """A recording of calls; how many messages it has."""
    count = 0
    with RecordingMaker(path) as made:
        for number in range(sessions):
            for step in range(5):
                arguments = _arguments(number * 5 + step)
                made.call(f"s{number}", START + number * 60 + step, f"tool_{step}", arguments)
                count += 2
    return count


def _rules() -> list[dict[str, object]]:
    """Twenty rules, of which most look at the arguments."""
    return [
        {
            "id": f"r{number}",
            "conditions": [
                {"tool": "*"},
                {"param_matches": {"field": "arguments.**", "pattern": f"odd{number}"}},
            ],
            "actions": [{"block": "no"}],
        }
        for number in range(20)
    ]


CALLS: dict[str, Callable[[int], bytes]] = {
    "one argument": instructions.call,
    "four arguments": call_of_four,
}


class _FourArguments(Workload):
    """Calls with four arguments, as often as asked: no text comes twice in a run."""

    def request(self, number: int) -> bytes:
        params = {"name": "short", "arguments": _arguments(next(_NUMBERS))}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        return json.dumps(message, separators=(",", ":")).encode()


_NUMBERS = itertools.count()
WORKLOADS = {
    "one argument": Workload("one", call_tail("short", b'{"path":"a/b"}'), tool="short"),
    "four arguments": _FourArguments("four", b"", tool="short"),
}


def options(work: Path) -> dict[str, list[str]]:
    """The options of each variant."""
    _usual(work / "usual.jsonl")
    words = [
        sys.executable,
        "-m",
        "penstock",
        "baseline",
        str(work / "usual.jsonl"),
        "--out",
        str(work / "b"),
    ]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def config(name: str, tree: dict[str, object]) -> list[str]:
        (work / f"{name}.json").write_text(json.dumps(tree))
        return ["--config", str(work / f"{name}.json")]

    config("set", {"interceptor": {"rules": _rules()}})
    file = config("file", {})  # which may get rules
    alerts = config("alerts", {"anomalies": {"baseline": str(work / "b"), "budget": "1/2"}})
    sets = [{"name": "now", "share": 100}, {"name": "next", "file": str(work / "set.json"), "shadow": True}]
    return {
        "off": [],
        "file": file,
        "alerts": alerts,
        "record": [*file, "--record", str(work / "record.jsonl")],
        "alerts too": [*alerts, "--record", str(work / "too.jsonl")],
        "live": config("live", {"interceptor": {"rules": _rules()}}),
        "shadow": config("shadow", {"interceptor": {"rules": []}, "variants": {"sets": sets}}),
    }


def count() -> bool:
    """Counts instructions and prints their table; False when a target is missed."""
    compileall.compile_dir(str(ROOT / "src"), quiet=1)  # else a module loaded late counts as calls
    is_met = True
    with tempfile.TemporaryDirectory() as place:
        variants = options(Path(place))
        for what, ask in CALLS.items():
            counts: dict[str, int] = {}
            print(f"Instructions of one call with {what}, stdio to stdio")
            for name, words in variants.items():
                way = instructions.Way(partial(_over_stdio, ask, words), *EXCHANGES)
                found = counts[name] = instructions.count(way)
                beside, most = CPU.get(name, ("off", 0.0))
                ratio = found / counts[beside]
                is_met &= not most or ratio <= most
                print(f"{name:<12} {found:>9,} {ratio:>7.3f} of {beside:<6} {most or ''}", flush=True)
    return is_met


def _over_stdio(ask: Callable[[int], bytes], words: list[str], calls: int, counted: Path) -> None:
    instructions.over_stdio(ask, calls, counted, *words, after=_until_idle)


def _until_idle(pid: int) -> None:
    """Waits until the thread has done what is left to it: at the end of a run it would be given up."""
    until = time.monotonic() + instructions.START_SECONDS
    spent = -_TICKS
    while time.monotonic() < until:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        now = int(fields[11]) + int(fields[12])
        if now - spent < _TICKS:
            return
        spent = now
        time.sleep(1.5)


def measure(rounds: int, calls: int) -> bool:
    """Measures processor time and latency and prints their table; False when a target is missed."""
    is_met = True
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        variants = options(work)
        upstream = Upstream(work)
        try:
            for what, workload in WORKLOADS.items():
                for beside, name in (("file", "alerts"), ("live", "shadow")):
                    words = {beside: variants[beside], "again": variants[beside], name: variants[name]}
                    is_met &= _measured(what, workload, words, rounds, calls, upstream, work)
        finally:
            upstream.program.end()
    return is_met


def _measured(
    what: str,
    workload: Workload,
    words: dict[str, list[str]],
    rounds: int,
    calls: int,
    upstream: Upstream,
    work: Path,
) -> bool:
    """One table: the first of `words` is what the others are compared with."""
    cpus: dict[str, list[float]] = {name: [] for name in words}
    p50s: dict[str, list[float]] = {name: [] for name in words}
    targets: dict[str, Target] = {}
    try:
        for name, more in words.items():
            targets[name] = Target(_on_one_core(penstock("stdio", "stdio", *more, name=name)), upstream, work)
        for number in range(-1, rounds):
            order = list(targets) if number % 2 else list(reversed(targets))
            for name in order:
                cpu, p50 = _round(targets[name], workload, calls)
                if number >= 0:  # the first is for what is done once
                    cpus[name].append(cpu)
                    p50s[name].append(p50)
    finally:
        for target in targets.values():
            target.end()
    print(f"\nCalls with {what}, stdio to stdio, {rounds} rounds of {calls}, one at a time")
    print(f"{'':<8} {'cpu us':>8} {'ratio':>7} {'':<5} {'p50 us':>8} {'ratio':>7}")
    beside, *_ = words
    is_met = True
    for name in words:
        most, most_p50 = CPU.get(name, ("", 0.0))[1], P50.get(name, 0.0)
        cpu, p50 = _ratio(cpus, name, beside), _ratio(p50s, name, beside)
        is_met &= not (most and cpu > most) and not (most_p50 and p50 > most_p50)
        spent, took = statistics.median(cpus[name]), statistics.median(p50s[name])
        print(
            f"{name:<8} {spent:>8.1f} {cpu:>7.3f} {most or '':<5} {took:>8.1f} {p50:>7.3f} {most_p50 or ''}",
            flush=True,
        )
    return is_met


def _on_one_core(spec: Spec) -> Spec:
    """The same, where Penstock does not look again before it sleeps: that takes whatever time is left."""
    command = spec.command
    assert command is not None
    return replace(spec, command=lambda place: [sys.executable, "-c", _ONE_CORE, *command(place)])


_ONE_CORE = (
    "import os, sys\n"
    "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def _round(target: Target, workload: Workload, calls: int) -> tuple[float, float]:
    """Microseconds of the processor, kernel and threads included, for each call, and the median latency."""
    before = target.cpu()
    sample = target.measure(workload, calls, 1)[0]
    now = target.cpu()
    spent = now - 1
    while now - spent > _IDLE:  # until the thread has done what is left to it
        time.sleep(2 * bounds.LEARN_SECONDS)
        spent, now = now, target.cpu()
    warming = max(1, calls // 20)  # calls that `measure` begins with
    return (now - before) / (calls + warming) * 1e6, sample.p50


def _ratio(values: dict[str, list[float]], name: str, beside: str) -> float:
    """The median of the ratios, round by round."""
    return statistics.median(one / other for one, other in zip(values[name], values[beside], strict=True))


def suggest() -> bool:
    """How many messages a second `penstock suggest` goes through, start and all passes included."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "r.jsonl"
        count = _recording(path, 20_000)
        began = _spent()
        words = [sys.executable, "-m", "penstock", "suggest", str(path), "--out", str(Path(place) / "s.yaml")]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        took = _spent() - began
    print(f"\nsuggest: {count:,} messages in {took:.1f} s of a processor, {count / took:,.0f} a second")
    return count / took >= MESSAGES_A_SECOND


def _spent() -> float:
    """Processor time of the commands that were run so far: others use the machine too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description="What alerts, shadow sets and suggestions cost.")
    parser.add_argument("what", nargs="*", help="instructions, time or suggest; all of them without a word")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--calls", type=int, default=1_000)
    chosen = parser.parse_args()
    ways = {
        "instructions": count,
        "time": lambda: measure(chosen.rounds, chosen.calls),
        "suggest": suggest,
    }
    met = [ways[what]() for what in chosen.what or ways]
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
