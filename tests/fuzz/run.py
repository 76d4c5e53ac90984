"""Fuzzes every target for a while, one after another; says what was found, and where it was kept."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from targets import SEEDS, TARGETS  # noqa: E402 - the path comes first

WORK = HERE.parent.parent / ".fuzz"
LENGTHS = {"gate": 512, "large": 400, "sse": 200, "http": 1024, "uri": 128, "filter": 256}
"""How long an input may become; what is fed byte by byte, or read twenty times, has to be short."""

HANG = 60
"""Seconds, of the clock: on a busy machine an input of 3 ms has taken 17."""


def fuzz(name: str, seconds: int) -> bool:
    """Whether nothing was found. What the fuzzer learns stays in .fuzz for the next run."""
    corpus, findings = WORK / "corpus" / name, WORK / "findings" / name
    for folder in (corpus, findings, SEEDS / name):
        folder.mkdir(parents=True, exist_ok=True)
    words = HERE / "words" / f"{name}.dict"
    command = [
        *(sys.executable, str(HERE / "fuzz_one.py"), name, f"-max_total_time={seconds}", f"-timeout={HANG}"),
        *(
            f"-artifact_prefix={findings}/",
            "-print_final_stats=1",
            f"-max_len={LENGTHS.get(name, 2048)}",
            "-rss_limit_mb=2048",
        ),
        *([f"-dict={words}"] if words.exists() else []),
        *(str(corpus), str(SEEDS / name)),
    ]
    print(f"{name}: {seconds} s ...", flush=True)
    log = WORK / f"{name}.log"
    with log.open("wb") as out:
        code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    said = log.read_text("utf-8", "replace")
    runs = re.findall(r"stat::number_of_executed_units: (\d+)", said)
    covered = re.findall(r"cov: (\d+)", said)
    print(
        f"{name}: {runs[-1] if runs else '?'} runs, {covered[-1] if covered else '?'} edges covered",
        flush=True,
    )
    if code != 0:
        print(f"{name}: FOUND SOMETHING. See .fuzz/{name}.log and .fuzz/findings/{name}.")
        print("  Copy the file to tests/fuzz/seeds, as found-WHAT, and fix what it shows.")
    return code == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("targets", nargs="*", default=TARGETS)
    options = parser.parse_args()
    clean = [fuzz(name, options.seconds) for name in options.targets]  # all of them, whatever the first finds
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
