"""What the user is told about the catalog when it is there."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.tools.token_estimate import HOW_ESTIMATED
from penstock.wire.mcp.replies import printable

log = logging.getLogger("penstock")


def describe(catalog: ToolCatalog) -> Iterator[tuple[int, str]]:
    """Sentences with their log level: what is allowed, what is denied and why, what looks like a slip."""
    for warning in catalog.warnings:
        yield logging.WARNING, f"In the upstream's tool list {warning}."
    for remark in catalog.remarks:
        for line in remark.split("\n"):
            yield logging.WARNING, line
    if catalog.refusal is not None:
        yield logging.INFO, "The upstream has no tools."
        return
    saved = sum(tool.tokens for tool in catalog.denied)
    yield (
        logging.INFO,
        f"{_count(len(catalog.allowed), 'tool')} allowed, {len(catalog.denied)} denied, "
        f"about {saved:,} tokens saved ({HOW_ESTIMATED}).",
    )
    reasons: dict[str, list[str]] = {}
    for tool in catalog.denied:
        reasons.setdefault(str(tool.why), []).append(printable(tool.name))
    for why, names in reasons.items():
        yield logging.INFO, f"Denied ({why}): {', '.join(names)}."
    for pattern in catalog.unmatched:
        yield logging.WARNING, f"This pattern matches no tool: {pattern}"


def say_catalog(catalog: ToolCatalog) -> None:
    """Tells the user about a catalog."""
    for level, sentence in describe(catalog):
        log.log(level, "%s", sentence, extra={"is_wanted": True})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
