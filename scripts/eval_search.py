"""How often the tool search finds what is wanted: recall at 5 over questions with known answers.

    python scripts/eval_search.py [--tools FILE] [--questions FILE] [--limit N]

The files are JSON: a list of objects with `name` and `description`, and a list of objects with `query` and
`wanted`, names of tools of which one must be found. Without them, the set in tests/data is used. Code 1 when
the recall is below 0.70.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from penstock.policy.several.bm25 import Index

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "search"
LEAST = 0.70


def recall(
    tools: list[dict[str, str]], questions: list[dict[str, object]], limit: int
) -> tuple[float, list[str]]:
    """The share of questions for which a wanted tool is found, and the questions for which none is."""
    index = Index((tool["name"], tool.get("description", "")) for tool in tools)
    missed = []
    for question in questions:
        wanted = question["wanted"]
        assert isinstance(wanted, list)
        if not set(index.search(str(question["query"]), limit)) & set(wanted):
            missed.append(str(question["query"]))
    return 1 - len(missed) / len(questions), missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=Path, default=DATA / "tools.json")
    parser.add_argument("--questions", type=Path, default=DATA / "questions.json")
    parser.add_argument("--limit", type=int, default=5)
    options = parser.parse_args()
    tools, questions = (json.loads(path.read_text()) for path in (options.tools, options.questions))
    found, missed = recall(tools, questions, options.limit)
    print(f"{len(tools)} tools, {len(questions)} questions, recall@{options.limit} {found:.2f}")
    for query in missed:
        print(f"  not found: {query}")
    many = [
        {"name": f"{tool['name']}_{number}", **tool}
        for number in range(2000 // len(tools) + 1)
        for tool in tools
    ]
    index = Index((tool["name"], tool["description"]) for tool in many[:2000])
    start = time.perf_counter()
    for question in questions:
        index.search(str(question["query"]), options.limit)
    print(f"{(time.perf_counter() - start) / len(questions) * 1000:.2f} ms a search among 2,000 tools")
    return 0 if found >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
