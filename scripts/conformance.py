"""Runs the official MCP conformance suites directly and through Penstock, and names what was lost on the way.

    scripts/node_setup                                  once
    .venv/bin/python scripts/conformance.py             everything
    .venv/bin/python scripts/conformance.py --short     what CI runs
    .venv/bin/python scripts/conformance.py --targets stdio --scenario server-stateless     one thing, closely

The suites call a scenario passed when no check in it failed, so one that checked nothing has passed as well.
What is compared here is therefore each successful check of the direct run: behind a proxy it is kept or lost.

Exit: 0 all kept, 1 something was lost, 2 wrong use, 3 this machine lacks Node or the packages.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODE_MODULES = ROOT / ".peers" / "node" / "node_modules"
FIXTURE = ROOT / "tests" / "upstreams" / "conformance_server.py"
BEGIN, END = "<!-- conformance:begin -->", "<!-- conformance:end -->"

READY_SECONDS = 30  # a server on the SDK needs one or two seconds to start, more on a busy machine
SUITE_SECONDS = 600  # a round takes seconds; only a proxy that hangs gets near this
STOP_SECONDS = 10  # Penstock gives its own children five

CROSS = {" over the newer era": "modern", " over the older era": "legacy"}
"""Behind the name of an upstream: it speaks only that era, and the suites of the other one are run."""
_UPSTREAMS = ("http", "sse", "stdio")
TARGETS = ("direct", *_UPSTREAMS, *(name + over for over in CROSS for name in _UPSTREAMS))


@dataclass(frozen=True)
class Suite:
    name: str
    package: str
    revision: str | None  # of the specification; None: the suite knows only one way to run
    checks: int  # that succeed directly: fewer, and it is the measuring that is broken

    @property
    def index(self) -> Path:
        return NODE_MODULES / self.package / "dist" / "index.js"

    def arguments(self, scenario: str | None) -> list[str]:
        if scenario is not None:
            # A frozen set cannot be asked for one scenario, so name its revision instead.
            version = [] if self.revision is None else ["--spec-version", self.revision]
            return ["--scenario", scenario, *version]
        return ["--suite", "all"] if self.revision is None else ["--requirements", self.revision]

    def scored(self) -> set[str] | None:
        """The scenarios that the revision requires; None when all count."""
        if self.revision is None:
            return None
        listing = (NODE_MODULES / self.package / "requirements" / f"{self.revision}.yaml").read_text()
        section = re.search(r"^server:\n((?:  - .*\n)+)", listing, re.MULTILINE)
        if section is None:
            raise SystemExit(f"conformance: no server scenarios in the requirements of {self.revision}")
        return set(re.findall(r"  - (\S+)", section[1]))


STABLE = Suite("0.1.16", "@modelcontextprotocol/conformance", None, 44)
LEGACY = Suite("0.2.0-alpha.12, 2025-11-25", "conformance-next", "2025-11-25", 84)
MODERN = Suite("0.2.0-alpha.12, 2026-07-28", "conformance-next", "2026-07-28", 164)
SUITES = (STABLE, LEGACY, MODERN)
# Starting Node costs a second and a whole frozen set takes four to seven: picking scenarios one by one would
# be slower than running all of them. The stable suite asks nothing that the legacy set does not ask as well.
SHORT_SUITES = (LEGACY, MODERN)

SLOW_TARGETS = frozenset(name + over for over in CROSS for name in ("sse", "stdio"))

# What the upstream does not have on this transport cannot be kept. It is shown, and does not count as lost.
EVENT_IDS = "the event ids and the retry time are the upstream's own, and only its HTTP transport has them"
NO_EVENT_IDS = "the newer era has no event ids, so a stream cannot be taken up again"
NO_STATE = "answers that come without the state of a call are not answers to anything that was asked"
UNAVOIDABLE = {
    ("stdio", "server-sse-polling"): EVENT_IDS,
    ("sse", "server-sse-polling"): EVENT_IDS,
    **{
        (f"{name} over the older era", "input-required-result-ignore-extra-params"): NO_STATE
        for name in _UPSTREAMS
    },
    **{(target, "server-sse-polling"): NO_EVENT_IDS for target in TARGETS if "newer" in target},
}

# The suites also judge clients: there Penstock stands between a client of one era and the suite's server, of
# the other. What is about authorization is the client's own.
JUDGED = {
    ("legacy", "2026-07-28"): (
        "tools_call request-metadata sep-2322-client-request-state http-standard-headers http-custom-headers "
        "http-invalid-tool-headers json-schema-ref-no-deref"
    ).split(),
    ("modern", "2025-11-25"): "initialize tools_call elicitation-sep1034-client-defaults sse-retry".split(),
}
DRIVER = ROOT / "tests" / "e2e" / "clients" / "judged.py"

Check = tuple[str, str, str]  # scenario, id, name: not unique, a scenario may try one rule several times


@dataclass
class Outcome:
    """What one suite said about one target."""

    kept: Counter[Check] = field(default_factory=Counter)
    passed: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)
    complaints: dict[Check, str] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, scenario: str, checks: list[dict[str, object]]) -> None:
        self.ran.add(scenario)
        if not any(check["status"] == "FAILURE" for check in checks):
            self.passed.add(scenario)
        for check in checks:
            key = (scenario, str(check["id"]), str(check["name"]))
            if check["status"] == "SUCCESS":
                self.kept[key] += 1
            elif check["status"] != "INFO" or check.get("errorMessage"):
                words = str(check.get("errorMessage") or "").strip().partition("\n")[0]
                self.complaints.setdefault(key, f"{check['status']}: {words}")


@dataclass(frozen=True)
class Loss:
    check: Check
    complaint: str
    excuse: str | None


def losses(direct: Outcome, through: Outcome, target: str) -> list[Loss]:
    """Every check that succeeded directly and not through the proxy, with what the suite said instead."""
    found = []
    for check in sorted((direct.kept - through.kept).elements()):
        scenario = check[0]
        complaint = through.complaints.get(check)
        if complaint is None:
            # When a scenario breaks off, its checks are missing and the reason stands under another name.
            others = [words for key, words in through.complaints.items() if key[0] == scenario]
            complaint = f"not reported; {others[0]}" if others else "not reported"
        found.append(Loss(check, complaint, UNAVOIDABLE.get((target, scenario))))
    return found


def kept_of(direct: Outcome, through: Outcome) -> int:
    return (direct.kept & through.kept).total()


# --- Processes ------------------------------------------------------------------------------------------


def say(words: str) -> None:
    print(f"conformance: {words}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process group of its own, with stderr in `log`; the whole group is gone afterwards."""
    with log.open("wb") as stderr:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        end_group(child)


def end_group(child: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, sign)
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        # The leader is gone and collected; whoever is left in its group gets the second signal.


def address_in(log: Path, path: str, child: subprocess.Popen[bytes], other_than: str | None = None) -> str:
    """The address that the process says it listens on.

    A proxy may well name its upstream's address first, so that one is passed over.
    """
    pattern = re.compile(rf"http://127\.0\.0\.1:\d+{re.escape(path)}\b")
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        for found in pattern.findall(log.read_text(errors="replace")):
            if found != other_than:
                return found
        if child.poll() is not None:
            break
        time.sleep(0.02)
    state = "exited" if child.poll() is not None else "said nothing"
    said = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise SystemExit(f"conformance: {shlex.join(child.args)} {state} before it named its address\n{said}")


@contextlib.contextmanager
def serving(target: str, penstock: list[str], work: Path) -> Iterator[str]:
    """The URL to test for this target; everything behind it is started, and stopped afterwards."""
    name = target.partition(" ")[0]
    era = CROSS.get(target.removeprefix(name), "both")
    fixture = [sys.executable, str(FIXTURE), "--era", era, "--transport"]
    if era == "legacy":
        penstock = [*penstock, "--era", "bridge"]
    with contextlib.ExitStack() as stack:
        upstream_url = None
        if name == "stdio":
            upstream = ["--", *fixture, "stdio"]
        else:
            transport, path = ("sse", "/sse") if name == "sse" else ("http", "/mcp")
            log = work / f"{target}-upstream.log"
            server = stack.enter_context(running([*fixture, transport, "--port", "0"], log))
            upstream_url = address_in(log, path, server)
            upstream = ["--upstream", upstream_url]
        if target == "direct":
            assert upstream_url is not None
            yield upstream_url
            return
        log = work / f"{target}-penstock.log"
        proxy = stack.enter_context(running([*penstock, "--listen", "127.0.0.1:0", *upstream], log))
        yield address_in(log, "/mcp", proxy, other_than=upstream_url)
        if proxy.poll() is not None:
            say(f"[{target}] the proxy ended by itself with {proxy.returncode}; it said:")
            sys.stderr.write("".join(log.read_text(errors="replace").splitlines(keepends=True)[-15:]))


def run_suite(suite: Suite, url: str, results: Path, scenarios: list[str]) -> Outcome:
    outcome = Outcome()
    node = NODE_MODULES / ".bin" / "node"
    began = time.monotonic()
    for scenario in scenarios or [None]:
        command = [str(node), str(suite.index), "server", "--url", url, "--output-dir", str(results)]
        results.mkdir(parents=True, exist_ok=True)
        with running([*command, *suite.arguments(scenario)], results / "suite.log") as child:
            try:
                child.wait(SUITE_SECONDS)
            except subprocess.TimeoutExpired:
                say(f"{suite.name} did not end within {SUITE_SECONDS} s; what it has done so far counts")
    outcome.seconds = time.monotonic() - began
    for report in results.glob("*/checks.json"):
        # The suite names the directory server-SCENARIO-TIME.
        named = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z", report.parent.name)
        if named is not None:
            outcome.add(named[1], json.loads(report.read_text()))
    return outcome


def judge_clients(work: Path) -> dict[tuple[str, str], list[str]]:
    """Which scenarios for clients passed, by the client's era and the server's revision."""
    passed: dict[tuple[str, str], list[str]] = {}
    for (era, revision), scenarios in JUDGED.items():
        other = "modern" if era == "legacy" else "legacy"
        for scenario in scenarios:
            command = [str(NODE_MODULES / ".bin" / "node"), str(LEGACY.index), "client", "--command"]
            command += [shlex.join([sys.executable, str(DRIVER), era, other]), "--scenario", scenario]
            command += ["--spec-version", revision, "--timeout", "60000"]
            log = work / f"client-{era}-{scenario}.log"
            with running(command, log) as child:
                if child.wait(SUITE_SECONDS) == 0:
                    passed.setdefault((era, revision), []).append(scenario)
                else:
                    say(f"[{era} client] {scenario} failed; see {log}")
    return passed


# --- Report ---------------------------------------------------------------------------------------------


@dataclass
class Row:
    target: str
    suite: Suite
    direct: Outcome
    outcome: Outcome

    @property
    def losses(self) -> list[Loss]:
        return losses(self.direct, self.outcome, self.target)

    @property
    def scenarios(self) -> str:
        scored = self.suite.scored() or self.direct.ran
        counted = scored & self.direct.ran
        return f"{len(self.outcome.passed & counted)}/{len(counted)}"

    @property
    def checks(self) -> str:
        return f"{kept_of(self.direct, self.outcome)}/{self.direct.kept.total()}"

    @property
    def newly_failed(self) -> list[str]:
        """Scenarios that passed directly and fail here, though they may have lost no successful check."""
        return sorted(self.direct.passed - self.outcome.passed)


def table(rows: list[Row]) -> str:
    lines = ["| target | suite | scenarios | checks kept |", "| --- | --- | --- | --- |"]
    lines += [f"| {row.target} | {row.suite.name} | {row.scenarios} | {row.checks} |" for row in rows]
    return "\n".join(lines)


def lost_lines(rows: list[Row], *, unavoidable: bool) -> list[str]:
    """One line for each scenario and reason, which names every check that was lost for it."""
    lines = []
    for row in rows:
        by_reason: dict[tuple[str, str], Counter[str]] = {}
        for loss in row.losses:
            if (loss.excuse is not None) == unavoidable:
                scenario, check, _ = loss.check
                reason = loss.excuse or loss.complaint
                by_reason.setdefault((scenario, reason), Counter())[check] += 1
        for (scenario, reason), checks in by_reason.items():
            names = [
                f"`{check}`" + (f" ({times} times)" if times > 1 else "") for check, times in checks.items()
            ]
            lines.append(f"- {row.target}, {row.suite.name}, {scenario}: {', '.join(names)}: {reason}")
    return lines


def versions() -> str:
    node = subprocess.run(
        [NODE_MODULES / ".bin" / "node", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    installed = [f"{name} {importlib.metadata.version(name)}" for name in ("penstock", "mcp")]
    python = ".".join(map(str, sys.version_info[:3]))
    return ", ".join([*installed, f"Python {python}", f"Node {node.removeprefix('v')}"])


def client_table(passed: dict[tuple[str, str], list[str]]) -> str:
    lines = ["| judged as a client | suite | scenarios without authorization |", "| --- | --- | --- |"]
    for (era, revision), scenarios in JUDGED.items():
        kept = len(passed.get((era, revision), []))
        who = {"legacy": "older", "modern": "newer"}
        name = f"a client of the {who[era]} era over the suite's server of the other"
        lines.append(f"| {name} | 0.2.0-alpha.12, {revision} | {kept}/{len(scenarios)} |")
    return "\n".join(lines)


def report(rows: list[Row], passed: dict[tuple[str, str], list[str]] | None = None) -> str:
    """The generated part of the document."""
    parts = [f"Run on {datetime.date.today().isoformat()} with {versions()}.", table(rows)]
    if passed is not None:
        parts.append(client_table(passed))
    lost = lost_lines(rows, unavoidable=False)
    parts.append("Lost:\n\n" + "\n".join(lost) if lost else "Nothing was lost that could have been kept.")
    if excused := lost_lines(rows, unavoidable=True):
        parts.append("Not there to be kept on these transports:\n\n" + "\n".join(excused))
    return "\n\n".join(parts)


def replace_between_markers(document: str, generated: str) -> str:
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"it needs the lines {BEGIN} and {END}, in this order")
    return f"{before}{BEGIN}\n{generated}\n{END}{after}"


# --- Command line ---------------------------------------------------------------------------------------


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--targets", default=",".join(TARGETS), help="upstreams to try (default: %(default)s)"
    )
    parser.add_argument("--short", action="store_true", help="leave out the stable suite, as CI does")
    parser.add_argument("--scenario", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--penstock", metavar="CMD", help="the proxy to judge, without its upstream options")
    parser.add_argument("--write", metavar="FILE", type=Path, help="put the table between the file's markers")
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="leave logs and the suites' own results here"
    )
    chosen = parser.parse_args()
    chosen.targets = [target for target in chosen.targets.split(",") if target]
    if unknown := set(chosen.targets) - set(TARGETS):
        parser.error(f"unknown target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if chosen.write is not None and (chosen.short or chosen.scenario):
        parser.error("--write is for the figures of a whole run")
    if chosen.write is not None:
        try:
            replace_between_markers(chosen.write.read_text(), "")
        except (OSError, ValueError) as why:
            # Said now, rather than after the minutes that the run takes.
            parser.error(f"cannot write {chosen.write}: {why}")
    return chosen


def run(chosen: argparse.Namespace, work: Path) -> list[Row]:
    penstock = shlex.split(chosen.penstock) if chosen.penstock else [sys.executable, "-m", "penstock"]
    suites = SHORT_SUITES if chosen.short else SUITES
    if chosen.short and chosen.targets == list(
        TARGETS
    ):  # there each session starts a child of its own, and every one takes seconds to start
        chosen.targets = [target for target in chosen.targets if target not in SLOW_TARGETS]
    direct: dict[Suite, Outcome] = {}
    rows = []
    # The direct run is what all others are held against, so it is always made.
    for target in ["direct", *(target for target in chosen.targets if target != "direct")]:
        with serving(target, penstock, work) as url:
            for suite in suites:
                if " over " in target and (suite is MODERN) is ("newer" in target):
                    continue
                outcome = run_suite(
                    suite, url, work / target / suite.name.replace(", ", "-"), chosen.scenario
                )
                row = Row(target, suite, direct.setdefault(suite, outcome), outcome)
                say(f"[{target}] {suite.name}: {row.checks} checks, {outcome.seconds:.1f} s")
                rows.append(row)
    return rows


def main() -> int:
    chosen = parse()
    setup = subprocess.run([ROOT / "scripts" / "node_setup"])
    if setup.returncode != 0:
        return setup.returncode
    # A plain `kill` must leave no servers behind either: let it unwind the stack.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        work = chosen.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
        work.mkdir(parents=True, exist_ok=True)
        rows = run(chosen, work)
        is_whole = not chosen.short and not chosen.scenario and chosen.targets == list(TARGETS)
        passed = judge_clients(work) if is_whole else None
    # A scenario asked for by name may be unknown to some of the suites.
    rows = [row for row in rows if row.direct.ran]
    if not rows:
        say(f"no suite knows {', '.join(chosen.scenario)}" if chosen.scenario else "the suites ran nothing")
        return 2
    say(f"{len(rows)} rounds in {time.monotonic() - began:.0f} s")
    print(report(rows, passed))
    if chosen.write is not None:
        chosen.write.write_text(replace_between_markers(chosen.write.read_text(), report(rows, passed)))
    if not chosen.scenario:
        for row in rows:
            if row.target == "direct" and row.outcome.kept.total() < row.suite.checks:
                say(f"directly {row.suite.name} should keep {row.suite.checks} checks: the fixture is broken")
                return 1
    avoidable = lost_lines(rows, unavoidable=False)
    failed = [
        f"{row.target}: {scenario}"
        for row in rows
        for scenario in row.newly_failed
        if (row.target, scenario) not in UNAVOIDABLE
    ]
    if failed:
        say("scenarios that passed directly and fail here: " + "; ".join(failed))
    unjudged = passed is not None and any(len(passed.get(key, [])) < len(JUDGED[key]) for key in JUDGED)
    return 1 if avoidable or failed or unjudged else 0


if __name__ == "__main__":
    sys.exit(main())
