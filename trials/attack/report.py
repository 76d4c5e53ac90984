"""What people read: a line for every attack that went wrong, a table, and the page in docs."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable

from trials.attack.elsewhere import ELSEWHERE
from trials.attack.rows import BAD, DEAD, LEAK, NOISE, Result

CLIENTS = ("stdio", "sse", "streamable")
GOOD = ("refused", "dropped", "passed untouched", "answered here", "held")


def by_attack(results: Iterable[Result]) -> dict[tuple[str, str], list[Result]]:
    """The results of each attack, in the order of the rows."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result.row, result.what), []).append(result)
    return dict(sorted(found.items(), key=lambda item: (int(item[0][0]), item[0][1])))


def verdict_of(results: Iterable[Result]) -> str:
    """One word for several: the worst, or all that there were."""
    verdicts = Counter(result.verdict for result in results)
    for word in (LEAK, DEAD, NOISE):
        if word in verdicts:
            return word
    return " or ".join(word for word in GOOD if word in verdicts) or "-"


def _client(result: Result) -> str:
    return result.cell.split(">")[0]


def _columns(results: list[Result]) -> list[str]:
    direct = [result for result in results if result.cell.startswith("direct")]
    through = [result for result in results if not result.cell.startswith("direct")]
    words = [verdict_of(result for result in through if _client(result) == client) for client in CLIENTS]
    leaks = sum(result.verdict == LEAK for result in direct)
    return [*words, f"{LEAK} {leaks}/{len(direct)}" if leaks else "no leak" if direct else "-"]


def table(results: list[Result]) -> str:
    """The table for people."""
    lines = [f"{'row':>4} {'attack':56} {'from stdio':18} {'from SSE':18} {'from HTTP':18} direct"]
    for (row, what), found in by_attack(results).items():
        words = [f"{word[:18]:18}" for word in _columns(found)]
        lines.append(
            f"{row:>4} {what.encode('ascii', 'backslashreplace').decode()[:56]:56} {' '.join(words)}".rstrip()
        )
    return "\n".join(lines)


def summary(results: list[Result]) -> str:
    """One line."""
    through = [result for result in results if not result.cell.startswith("direct")]
    counts = Counter(result.verdict for result in through)
    words = ", ".join(f"{counts[word]} {word}" for word in (*GOOD, *BAD) if counts[word] or word in BAD)
    cells = len({result.cell for result in through})
    leaks = sum(result.verdict == LEAK for result in results) - counts[LEAK]
    direct = len(results) - len(through)
    return (
        f"{len(by_attack(through))} attacks, {len(through)} shots in {cells} cells: {words}. "
        f"Without a proxy: {leaks} of {direct} shots leak."
    )


def page(results: list[Result], missing: Iterable[str] = ()) -> str:
    """docs/attacks.md. `missing` are cells that could not be had, and why."""
    cells = list(dict.fromkeys(result.cell for result in results if not result.cell.startswith("direct")))
    lines = [
        "# Attacks",
        "",
        "This page is written by `make attack`, which fires every attack below at a running Penstock and exits with 1",
        "if one succeeds. Numbers are rows of the threat catalogue that this project keeps; 201 to 216 are what a review with",
        "the source in hand had found, R1 to R16.",
        "",
        "**How.** For each cell (client transport > upstream transport, protocol version) one Penstock with",
        "`--deny '^(write|delete)_'` stands before a recording upstream that runs whatever it can make out and keeps every",
        "byte it gets. In a live session each attack is fired, with a second session open beside it. One judge reads all",
        "bytes that reached the upstream as many careless readers would (last or first of two names, any case, width and",
        "encoding, lines ended by CR or anything else, chunks, gzip) and looks for a call of a denied tool. Another reads",
        "all bytes that the clients were shown, escapes undone and events joined, and looks for hidden names outside the one",
        "plain refusal, and for traces, paths and rule texts of ours. Then an allowed call must work in both sessions, and",
        "the bystander must have heard nothing else. `ruled` cells have rules too, and there the attacks are on a tool that",
        "is listed and that a rule blocks. `behind nginx` and `behind haproxy` cells have that reverse proxy before Penstock,",
        "set to let through as much as it can; it keeps its connections to Penstock and shares them among all clients. All",
        "raw HTTP rows are fired through it, and a request that the two read differently would show in the next call, the",
        "bystander's too. There a refusal may be the reverse proxy's own. In `across eras` cells the upstream speaks only the",
        "era that the client does not, and everything is translated.",
        "",
        "**Verdicts.** refused: told so, nothing passed on. dropped: nothing passed on, nothing said. passed untouched: by",
        "design, the same bytes, and harmless to every reader. answered here: from the catalog. held: within its limit of",
        "memory. LEAK, NOISE (wrong words), DEAD (something stopped working) would be failures. The last column is the same",
        "attack without a proxy: it shows that the judges see what leaks.",
        "",
        f"**Last run.** Python {platform.python_version()}, {platform.system()}. {summary(results)}",
        "",
        "| row | attack | from stdio | from SSE | from Streamable HTTP | without a proxy |",
        "|---|---|---|---|---|---|",
    ]
    for (row, what), found in by_attack(results).items():
        shown = what.encode("ascii", "backslashreplace").decode().replace("|", "\\|")[:80]
        lines.append(f"| {row} | `{shown}` | {' | '.join(_columns(found))} |")
    measured = [result for result in results if result.figure]
    if measured:
        lines += [
            "",
            "## Measured",
            "",
            "The cell that took most memory, for each. A message is counted as often as it is there at once; what the process",
            "takes up at rest is told beside it, and has a limit of its own. What another session waits for is mostly the upstream, one Python process",
            "that builds all of it in memory; how long Penstock itself was silent is asked of its `/healthz` meanwhile.",
            "",
            "| row | what | cell | measured |",
        ]
        lines.append("|---|---|---|---|")
        for row, what in dict.fromkeys((result.row, result.what) for result in measured):
            worst = max((one for one in measured if one.what == what), key=lambda one: one.figure)
            lines.append(f"| {row} | {what} | {worst.cell} | {worst.why} |")
    lines += ["", "Cells: " + "; ".join(cells) + "."]
    if missing:
        lines += ["", "Skipped: " + "; ".join(missing) + "."]
    lines += ["", "## Not in this table", ""]
    lines += ["| rows | proven by |", "|---|---|"]
    lines += [f"| {rows} | {where} |" for rows, where in ELSEWHERE]
    return "\n".join(lines) + "\n"
