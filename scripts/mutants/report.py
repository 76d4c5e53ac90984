"""The page about mutants: figures by module, and what survived and why."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trial import KILLED, ROOT, SOURCE, STILLBORN, SURVIVED, TIMED_OUT

JUDGED = Path(__file__).parent / "equivalent.toml"
LAST_RUNS = ROOT / ".mutants"
FIGURES = Path(__file__).parent / "figures.json"
"""What the page was last written from: a fresh clone, which has run nothing, still knows it."""
_KIND = "sha256:"  # before the marks there, since a bare digest looks like a secret to whoever looks for some
MARK = "<!-- figures: written by make mutants -->"


@dataclass
class Score:
    """What became of the mutants of one module."""

    module: str
    counts: Counter[str] = field(default_factory=Counter)
    survivors: list[str] = field(default_factory=list)

    @property
    def made(self) -> int:
        return self.counts.total() - self.counts[STILLBORN]

    @property
    def killed(self) -> int:
        return self.counts[KILLED] + self.counts[TIMED_OUT]

    def percent(self) -> float:
        return 100 * self.killed / self.made if self.made else 100.0


def save(score: Score) -> None:
    """Keeps the result for a later page, with a mark of the code it is about."""
    LAST_RUNS.mkdir(exist_ok=True)
    _kept_at(score.module).write_text(json.dumps(_kept(score), indent=1))


def maybe_saved(module: str) -> Score | None:
    """The last result for a module, of a run in this checkout or of another's that came with it, if its
    code is still the same."""
    here = _kept_at(module)
    for kept in (json.loads(here.read_text()) if here.exists() else None, _figures().get(module)):
        if kept is not None and kept["code"].removeprefix(_KIND) == _code_mark(module):
            return Score(module, Counter(kept["counts"]), kept["survivors"])
    return None


def _figures() -> dict[str, Any]:
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def _kept(score: Score, kind: str = "") -> dict[str, Any]:
    return {"code": kind + _code_mark(score.module), "counts": score.counts, "survivors": score.survivors}


def _kept_at(module: str) -> Path:
    return LAST_RUNS / (module.replace("/", "-") + ".json")


def _code_mark(module: str) -> str:
    return hashlib.sha256((SOURCE / "penstock" / f"{module}.py").read_bytes()).hexdigest()


def judged() -> dict[str, dict[str, str]]:
    """Survivors that change nothing anybody can see, by module, each with its reason."""
    return tomllib.loads(JUDGED.read_text()) if JUDGED.exists() else {}


def row(score: Score, known: dict[str, str]) -> str:
    equivalent = sum(key in known for key in score.survivors)
    return (
        f"| `{score.module}` | {score.made} | {score.killed} | {score.percent():.1f} % "
        f"| {equivalent} | {len(score.survivors) - equivalent} |"
    )


_HEAD = [
    "| module | mutants | killed | killed of all | survived, judged equivalent | survived, not judged |",
    "|---|---:|---:|---:|---:|---:|",
]


def _older(page: Path, untried: list[str]) -> list[str]:
    """What the page says of modules that were changed since they were tried, and which never were."""
    rows = {line.split("`")[1]: line for line in page.read_text().splitlines() if line.startswith("| `")}
    changed = [rows[name] for name in untried if name in rows]
    never = ", ".join(f"`{name}`" for name in untried if name not in rows)
    lines = ["", "Changed since they were tried:", "", *_HEAD, *changed] if changed else []
    return lines + (["", f"Not tried: {never}. `make mutants` tries them all."] if never else [])


def write(page: Path, scores: list[Score], untried: list[str]) -> None:
    """Puts the figures at the end of `page`, after its introduction, and beside the tool for whoever writes
    it next; `untried` has none yet."""
    known = judged()
    total = Score("all of them")
    for score in scores:
        total.counts += score.counts
    lines = [
        *_HEAD,
        *(row(score, known.get(score.module, {})) for score in scores),
    ]
    judged_count = sum(key in known.get(score.module, {}) for score in scores for key in score.survivors)
    open_count = total.counts[SURVIVED] - judged_count
    lines.append(
        f"| **all** | {total.made} | {total.killed} | **{total.percent():.1f} %** | {judged_count} "
        f"| {open_count} |"
    )
    lines += _older(page, untried)
    lines += ["", "## Survivors judged equivalent", ""]
    for score in scores:
        reasons = known.get(score.module, {})
        found = [key for key in score.survivors if key in reasons]
        if found:
            lines += [f"`{score.module}`", ""]
            lines += [f"- `` {key} ``  \n  {reasons[key]}" for key in found] + [""]
    lines += ["## Survivors that are not judged", ""]
    rest = [
        f"- `{score.module}`: `` {key} ``"
        for score in scores
        for key in score.survivors
        if key not in known.get(score.module, {})
    ]
    lines += rest or ["None."]
    head = page.read_text().partition(MARK)[0]
    page.write_text(head + MARK + "\n\n" + "\n".join(lines).rstrip() + "\n")
    FIGURES.write_text(json.dumps({score.module: _kept(score, _KIND) for score in scores}, indent=1) + "\n")
