"""What rules cost, for each message: in this process, through the relay, between two ends in memory.

    python -m bench.rules_cost [--rounds N] [--exchanges N]

Every round times each set of rules once, in turn, so that whatever else the machine does befalls all of them
alike; what is shown is the median over the rounds, and the median of its ratio to a run without rules.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from bench.sentences import OTHERS, SAME
from in_memory import Pair, others, same  # type: ignore[import-not-found]

LEAST = 5  # exchanges in a round, however long they take
LONGEST_SECONDS = 0.3  # of one set of rules in a round, if that many were done


def times(pairs: dict[str, Pair], rounds: int, exchanges: int) -> dict[str, list[float]]:
    """Seconds for one exchange, for every round; the first round is for warming up."""
    seconds: dict[str, list[float]] = {name: [] for name in pairs}
    for number in range(rounds + 1):
        for name, pair in pairs.items():
            done, begun, now = 0, time.perf_counter(), 0.0
            while done < exchanges and (done < LEAST or now - begun < LONGEST_SECONDS):
                pair.exchange()
                done += 1
                now = time.perf_counter()
            if number:
                seconds[name].append((now - begun) / done)
    return seconds


def measure(rounds: int, exchanges: int, counts: Sequence[int]) -> dict[str, dict[str, float]]:
    """Microseconds for one exchange, by the number of rules, for both kinds."""
    pairs = {
        f"{kind}|{count}": Pair(make(count))
        for kind, make in ((OTHERS, others), (SAME, same))
        for count in counts
    }
    found: dict[str, dict[str, float]] = {OTHERS: {}, SAME: {}}
    for name, seconds in times(pairs, rounds, exchanges).items():
        kind, _, count = name.partition("|")
        found[kind][count] = round(statistics.median(seconds) * 1e6, 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Times one request and its answer under various rules.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--exchanges", type=int, default=1000, help="in each round, for each set of rules")
    options = parser.parse_args()
    pairs = {
        "no configuration": Pair(None),
        "0 rules": Pair([]),
        **{f"{n} that name other methods": Pair(others(n)) for n in (10, 100, 1000)},
        **{f"{n} that name it, and do not hold": Pair(same(n)) for n in (1, 10, 100)},
    }
    seconds = times(pairs, options.rounds, options.exchanges)
    base = seconds["0 rules"]
    print(f"{'rules':<36} {'us/exchange':>12} {'ratio':>8}")
    for name, values in seconds.items():
        ratio = statistics.median(one / zero for one, zero in zip(values, base, strict=True))
        print(f"{name:<36} {statistics.median(values) * 1e6:>12.1f} {ratio:>8.2f}")


if __name__ == "__main__":
    main()
