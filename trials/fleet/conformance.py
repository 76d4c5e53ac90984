"""`python -m trials.fleet.conformance`: the official MCP suites at one instance and at three behind nginx.

The upstream is a command, so each of the three has its own children; nginx sends each request to the next
instance. What is compared is every check with its outcome. Prints a table, and exits with 1 when a check
differs that may not, 3 where Node, nginx or Redis is not installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from fleet import NGINX, Balancer, Instances, shared  # type: ignore[import-not-found]
from gate import ROOT  # type: ignore[import-not-found]
from redis_server import PROGRAM, RedisServer  # type: ignore[import-not-found]
from scripts_by_name import load_script  # type: ignore[import-not-found]

_HEARD_ELSEWHERE = frozenset(
    f"sep-2575-server-sends-{what}-list-changed-on-subscription" for what in ("tools", "prompts")
)
"""A list that was changed in one child is no news of the others: who listens hears its own child only."""


def differences(one: Any, several: Any) -> list[str]:
    """Every check that ended otherwise, in words."""
    lines = [f"kept by one instance only: {check}" for check in (one.kept - several.kept).elements()]
    lines += [f"kept by several only: {check}" for check in (several.kept - one.kept).elements()]
    for check in sorted(one.complaints.keys() | several.complaints.keys()):
        was, now = one.complaints.get(check), several.complaints.get(check)
        if was is None or now is None:
            lines.append(f"{check}: {was} / {now}")
    lines += [f"passed by one of them only: {scenario}" for scenario in sorted(one.passed ^ several.passed)]
    return lines


def main() -> int:
    setup = subprocess.run([ROOT / "scripts" / "node_setup"])
    if setup.returncode or NGINX is None or PROGRAM is None:
        print("This needs Node, nginx and redis-server.", file=sys.stderr)
        return 3
    driver = load_script("conformance")
    work = Path(tempfile.mkdtemp())
    words = ["--", sys.executable, str(driver.FIXTURE), "--era", "both", "--transport", "stdio"]
    found = []
    with RedisServer(work) as redis:
        document = {"shared": shared(redis.url), "peer": {"listen": "127.0.0.1:0", "drain": "1s"}}
        for number, suite in enumerate(driver.SUITES):
            outcomes = []
            for count in (1, 3):
                place = work / f"{number}-{count}"
                place.mkdir()
                with (
                    Instances(place, words, document, count=count) as fleet,
                    Balancer(place, fleet.ports) as balancer,
                ):
                    url = f"http://127.0.0.1:{fleet.ports[0] if count == 1 else balancer.port}/mcp"
                    outcomes.append(driver.run_suite(suite, url, place / "results", []))
            one, several = outcomes
            differing = differences(one, several)
            found += [line for line in differing if not any(name in line for name in _HEARD_ELSEWHERE)]
            total = several.kept.total()
            print(
                f"{suite.name:<28} one instance {one.kept.total():>4} checks, {len(one.passed)} of "
                f"{len(one.ran)} scenarios; three behind nginx {total:>4}, {len(several.passed)} of "
                f"{len(several.ran)}; {len(differing)} differ",
                *differing,
                sep="\n  ",
                flush=True,
            )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
