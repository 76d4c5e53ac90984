"""docs/performance.md and its plots, made from bench/results.json and from nothing else.

python -m bench.page
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench.plot import added_plot, growth_plot
from bench.report import growth_table, memory_table, pair_table, promise_table, start_table
from bench.sentences import growth_sentences

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results.json"
DOCS = ROOT / "docs"


def pages(results: dict[str, Any]) -> dict[str, str]:
    """The files below docs/ and what stands in them."""
    return {
        "performance.md": page(results),
        "performance-added.svg": added_plot(results),
        "performance-growth.svg": growth_plot(results),
    }


def page(results: dict[str, Any]) -> str:
    machine = results["machine"]
    peers = ", ".join(f"{name} {version}" for name, version in results["peer versions"].items())
    parts = [
        "# Performance",
        "",
        "What Penstock adds, measured beside going direct, a plain proxy that does nothing, and other MCP proxies.",
        "This page is written by `make bench` from `bench/results.json`; do not edit it.",
        "",
        "## Where and how",
        "",
        f"Measured on {machine['processor']} with {machine['cores']} cores and {machine['memory']} of memory, "
        f"{machine['system']}, {machine['python']}, nginx {machine['nginx']}, Node {machine['node']}, "
        f"Penstock {machine['penstock']} ({machine['commit']}), in {max(1, round(results['seconds'] / 60))} minutes; the load average before was {results['load before']}. "
        + (f"Peers: {peers}." if peers else "No peers were installed (`make bench-peers`).")
        + (f" {results['remark']}" if "remark" in results else ""),
        "",
        "- Run it yourself: `make bench`; `make bench-peers` first, to compare with peers. `make bench-quick` takes two",
        "  minutes and writes nothing.",
        f"- All targets of a table run at the same time and are asked in turn, {results['rounds']} rounds after one to "
        "warm up.",
        "  Ratios are taken within a round; every figure is a median over the rounds. Absolute times move with the",
        "  machine, ratios much less.",
        "- The upstream is one thread that answers from memory, with 100 tools; Penstock filters and 10 of the 100 are",
        "  denied. " + _limits(results),
        "- The load client is a closed loop on raw keep-alive connections with c requests in flight, and looks at every",
        "  answer. `+p50` and `+p99` are microseconds over going direct. `CPU` is processor time of the target's processes",
        "  for one request. `busy` is how much of one core the target, the upstream and the load client used.",
        "- `call` is an allowed call with a short answer, `denied` a call of a hidden tool (compared with a call that is",
        "  allowed), `list` is `tools/list`, `1 MB` and `10 MB` are results, `1 MB up` is an argument, `stream` is a",
        "  result with ten progress notifications before it, `modern` is revision 2026-07-28. Large results are one text of",
        "  letters, unless it is said that they are JSON written as text, records in `structuredContent`, words that are",
        "  not ASCII or an image in base64; `over SSE` is a text that comes as an event. p50 and p99 are those of the last",
        "  byte of an answer, and the median of the first byte stands before them, where one request is in flight.",
        "",
        "## What was promised",
        "",
        promise_table(results),
        "## What is added to a call",
        "",
        "![What each target adds to a call, for every pair of transports](performance-added.svg)",
        "",
        *[pair_table(group) for group in results["groups"].values()],
        start_table(results),
        memory_table(results),
        "Memory is that of the target's whole process tree without the upstream. Peak is the highest resident memory",
        "while five results of that size passed, above what it was before. Idle sessions keep their connection open.",
        "",
        "## How it grows",
        "",
        "![Time for one message against tools, rules, size and sessions](performance-growth.svg)",
        "",
        *[f"- {sentence}" for sentence in growth_sentences(results)],
        "",
        growth_table(results),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _limits(results: dict[str, Any]) -> str:
    """What the limits are, as far as this machine had them."""
    names = {group["reference"] for group in results["groups"].values()}
    known = {
        "nginx": "nginx is a plain reverse proxy with one worker.",
        "relay": "The relay for stdio is a few lines of C that copy bytes.",
        "socat": "socat stands in for a plain relay over stdio.",
    }
    told = [text for name, text in known.items() if name in names]
    return " ".join(
        [*told, "None of these reads a message."] if told else ["No plain proxy was there to compare with."]
    )


def as_json(results: dict[str, Any]) -> str:
    """The results as they are kept: a line for each figure, and one for the figures of all rounds."""
    text = json.dumps(results, indent=1)
    return re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def write(results: dict[str, Any]) -> None:
    for name, text in pages(results).items():
        (DOCS / name).write_text(text)


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text()))
