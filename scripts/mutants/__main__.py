"""Changes the gate in one place at a time and sees whether the tests notice.

Run it with `make mutants`, or for some modules only: `python scripts/mutants wire/mcp/ids`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from mutation import Mutant, Mutation
from report import Score, judged, maybe_saved, row, save, write
from trial import KILLED, ROOT, SOURCE, STILLBORN, SURVIVED, module_name, share, trial, watch
from watching import EVERYWHERE, Watcher, importers

GATE = """
    wire/json/ambiguity wire/json/nesting wire/json/fast_path wire/json/large_result wire/mcp/message
    wire/mcp/ids wire/json/splice
    wire/mcp/replies wire/mcp/ndjson wire/json/json_walk wire/json/member_names wire/http/bodies
    wire/mcp/routing_headers wire/mcp/mcp_headers policy/tools/tool_gate policy/tools/tool_lists
    policy/tools/tool_filter policy/tools/catalog policy/verdict policy/patterns/patterns wire/http/sse
    wire/http/http1 wire/http/chunked gate/pending relay/tool_list_pages relay/batch_replies
    gate/gate gate/ruled gate/observed gate/carry gate/batch_verdicts gate/session_table policy/exchange
    downstream/mcp_head downstream/passthrough_verdicts policy/tools/upstream_tools relay/catalogs
    relay/kept_lists gate/gate_around gate/task_wait gate/held gate/holdable gate/shared_ruled gate/unwrapped
    gate/variants gate/client_name gate/shortcut gate/calls relay/session_relay relay/multiplexer
    wire/json/arrival wire/mcp/progress_events
    bridge/codes bridge/envelope bridge/legacy_face bridge/legacy_results bridge/listeners
    bridge/modern_face bridge/modern_results bridge/parked bridge/questions bridge/subscriptions
""".split()
TESTS = sorted((ROOT / "tests" / "unit").rglob("test_*.py"))
GOAL = 90.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=GATE, help="as in wire/ids; all of the gate if none")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the figures of all modules there")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--page-only", action="store_true", help="try nothing, write what is known")
    parser.add_argument("--survivors", action="store_true", help="only those that survived the last time")
    options = parser.parse_args()
    if options.list:
        for name in options.modules:
            print(*(mutant.key for mutant in Mutation(_path(name)).mutants), sep="\n")
        return 0
    if not options.page_only:
        _try_all(options.modules, options.survivors)
    scores = [score for name in GATE if (score := maybe_saved(name)) is not None]
    if options.write:
        write(options.write, scores, [name for name in GATE if maybe_saved(name) is None])
    made = sum(score.made for score in scores)
    percent = 100 * sum(score.killed for score in scores) / made if made else 0.0
    print(f"{percent:.1f} % of {made} mutants in {len(scores)} modules killed; the goal is {GOAL:.0f} %.")
    return 0 if percent >= GOAL else 1


def _try_all(modules: list[str], is_only_survivors: bool) -> None:
    tests = {name: importers(module_name(_path(name)), TESTS) for name in modules}
    print("Seeing which tests reach which lines ...", flush=True)
    files = sorted({str(path.relative_to(ROOT)) for paths in tests.values() for path in paths})
    for name, paths in tests.items():
        if not paths:
            raise SystemExit(f"{name}: no unit test imports it.")
    watcher, needed = watch([_path(name) for name in modules], files)
    share(needed)
    for name, own in tests.items():
        score = _Trials(name, own, watcher).run(is_only_survivors)
        save(score)
        print(row(score, judged().get(name, {})), flush=True)


def _path(name: str) -> Path:
    return SOURCE / "penstock" / f"{name}.py"


class _Trials:
    """All mutants of one module."""

    def __init__(self, name: str, files: list[Path], watcher: Watcher) -> None:
        self._name = name
        self._mutation = Mutation(_path(name))
        self._files = [str(path.relative_to(ROOT)) for path in files]
        self._watcher = watcher
        self._killers: Counter[str] = Counter()

    def run(self, is_only_survivors: bool) -> Score:
        mutants = self._mutation.mutants
        score = Score(self._name)
        last = maybe_saved(self._name) if is_only_survivors else None
        if last is not None:
            mutants = [mutant for mutant in mutants if mutant.key in last.survivors]
            score.counts = last.counts
            del score.counts[SURVIVED]
        everything = self._tests(None)
        if trial(self._mutation, None, everything, self._patience(everything), Counter()) != SURVIVED:
            raise SystemExit(f"{self._name}: its tests fail on the code as it is.")
        for place, mutant in enumerate(mutants, 1):
            self._try(mutant, score)
            if place % 50 == 0:
                print(f"  {self._name}: {place} of {len(mutants)}", flush=True)
        for key in judged().get(self._name, {}):
            if key not in score.survivors:
                print(f"  not a survivor, take it out of equivalent.toml: {key}")
        return score

    def _try(self, mutant: Mutant, score: Score) -> None:
        tests = self._tests(mutant)
        outcome = SURVIVED
        if tests:
            outcome = trial(self._mutation, mutant, tests, self._patience(tests), self._killers)
        score.counts[outcome] += 1
        if outcome == SURVIVED:
            score.survivors.append(mutant.key)
        if outcome not in (KILLED, STILLBORN):
            print(f"  {outcome}: {self._name}:{mutant.lines[0]} {mutant.key}", flush=True)

    def _patience(self, tests: list[str]) -> float:
        # The watched run was slower than this one will be, much slower where it was long; the rest is for
        # starting up.
        return min(120.0, 10 + 3 * sum(self._watcher.seconds[test] for test in tests))

    def _tests(self, mutant: Mutant | None) -> list[str]:
        """The tests that run the changed lines; all that are about the module, where its import runs them."""
        path = str(self._mutation.path)
        lines = {(path, line) for line in (mutant.lines if mutant else ())}
        is_at_import = mutant is None or not (
            self._mutation.import_lines.isdisjoint(mutant.lines) and self._watcher.imported.isdisjoint(lines)
        )
        lines.add(EVERYWHERE)
        wanted = []
        for test, seen in self._watcher.reached.items():
            file = test.partition("::")[0]
            if file in self._files and (is_at_import or not lines.isdisjoint(seen)):
                # What has noticed much so far comes first, then what is quick.
                order = (self._files.index(file), -self._killers[test], self._watcher.seconds[test])
                wanted.append((order, test))
        return [test for _, test in sorted(wanted)]


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.path.insert(0, str(SOURCE))  # this tree's code, wherever Penstock may be installed from
    sys.exit(main())
