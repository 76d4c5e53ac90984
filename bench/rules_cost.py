"""What rules cost, for each message: in this process, through the relay, between two ends in memory.

    python bench/rules_cost.py [--rounds N] [--exchanges N]

Every round times each set of rules once, in turn, so that whatever else the machine does befalls all of them
alike; what is shown is the median over the rounds, and the median of its ratio to a run without rules.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from in_memory import Pair, others, same


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
    seconds: dict[str, list[float]] = {name: [] for name in pairs}
    for number in range(options.rounds + 1):
        for name, pair in pairs.items():
            begun = time.perf_counter()
            for _ in range(options.exchanges):
                pair.exchange()
            if number:  # the first round is for warming up
                seconds[name].append((time.perf_counter() - begun) / options.exchanges)
    base = seconds["0 rules"]
    print(f"{'rules':<36} {'us/exchange':>12} {'ratio':>8}")
    for name, times in seconds.items():
        ratio = statistics.median(one / zero for one, zero in zip(times, base, strict=True))
        print(f"{name:<36} {statistics.median(times) * 1e6:>12.1f} {ratio:>8.2f}")


if __name__ == "__main__":
    main()
