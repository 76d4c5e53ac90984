"""What learning costs: alerts while traffic passes, shadow sets, and suggestions over a recording.

    python -m bench.learning_cost [--latency] [--rounds N] [--calls N]

Counted are the instructions of one call from stdio to stdio, with what is done after it in a thread, as
`bench.instructions` counts them: alerts beside nothing, a shadow set beside the same set in force. With
--latency the median latency too, of variants that run at the same time and are measured in turn, in many
short rounds ("off again" says how far to trust it). The targets are those that it all was planned with.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from bench import instructions  # noqa: E402
from bench.targets import Target, Upstream, penstock  # noqa: E402
from bench.workloads import CALL  # noqa: E402
from sessions import START, RecordingMaker  # type: ignore[import-not-found]  # noqa: E402

CPU = {"alerts": ("file", 1.08), "shadow": ("live", 1.1)}
P50 = {"alerts": ("off", 1.02)}
MESSAGES_A_SECOND = 10_000
EXCHANGES = 50, 150
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
    sets = [{"name": "now", "share": 100}, {"name": "next", "file": str(work / "set.json"), "shadow": True}]
    return {
        "off": [],
        "off again": [],
        "file": config("file", {"interceptor": {"rules": []}}),  # one that has no rules, but may get some
        "record": ["--record", str(work / "record.jsonl")],
        "alerts": config("alerts", {"anomalies": {"baseline": str(work / "b"), "budget": "1/2"}}),
        "live": config("live", {"interceptor": {"rules": _rules()}}),
        "shadow": config("shadow", {"interceptor": {"rules": []}, "variants": {"sets": sets}}),
    }


def count() -> bool:
    """Counts instructions and prints their table; False when a target is missed."""
    is_met = True
    with tempfile.TemporaryDirectory() as place:
        variants = options(Path(place))
        for what, ask in CALLS.items():
            counts: dict[str, int] = {}
            print(f"Instructions of one call with {what}, stdio to stdio")
            for name, words in variants.items():
                if name in ("off again", "record"):
                    continue  # there for the latency
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


def measure(front: str, back: str, rounds: int, calls: int) -> bool:
    """Measures the latency over one pair and prints its table; False when a target is missed."""
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        upstream = Upstream(work)
        targets: dict[str, Target] = {}
        try:
            for name, words in options(work).items():
                spec = penstock(front, back, *words, name=name.replace(" ", "-"))
                targets[name] = Target(spec, upstream, work)
            p50s: dict[str, list[float]] = {name: [] for name in targets}
            for _ in range(rounds):
                for name, target in targets.items():
                    p50s[name].append(target.measure(CALL, calls, 1)[0].p50)
        finally:
            for target in targets.values():
                target.end()
            upstream.program.end()
    print(f"\n{front} to {back}, {rounds} rounds of {calls} calls, one at a time: median latency")
    is_met = True
    for name in targets:
        beside, most = P50.get(name, ("off", 0.0))
        ratio = _ratio(p50s, name, beside)
        is_met &= not most or ratio <= most
        print(f"{name:<12} {ratio:>7.3f} of {beside:<6} {most or ''}")
    return is_met


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
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--latency", action="store_true")
    chosen = parser.parse_args()
    met = [count(), suggest()]
    met += [measure("stdio", "stdio", chosen.rounds, chosen.calls)] if chosen.latency else []
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
