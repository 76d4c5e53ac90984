"""`penstock tools`: what the filter makes of an upstream's tools, for people and for programs."""

from __future__ import annotations

import logging
import sys

from penstock.commands.results import columns, json_text
from penstock.commands.waiting import told_when_long
from penstock.config.model import ProxyConfig, SeveralUpstreams
from penstock.net.warden import Warden
from penstock.open_links import open_upstream
from penstock.policy.tools.catalog import ToolCatalog, view
from penstock.policy.tools.token_estimate import HOW_ESTIMATED
from penstock.relay.upstream_probe import UpstreamProbe
from penstock.wire.mcp.replies import printable

log = logging.getLogger("penstock")


async def show(config: ProxyConfig, form: str, tokenizer: str = "estimate") -> int:
    """Asks the upstream for its tools and prints them to stdout."""
    if isinstance(config.upstream, SeveralUpstreams):
        from penstock.commands.several_tools import show_several

        return await show_several(config, form)
    count, how = None, HOW_ESTIMATED
    if tokenizer != "estimate":
        from penstock.commands.tokenizer import HOW_COUNTED, counted, maybe_counter

        count = maybe_counter()
        how = HOW_ESTIMATED if count is None else HOW_COUNTED
    warden = Warden()
    link = open_upstream(config, warden, is_first=True)
    try:
        with told_when_long(config.upstream):
            await link.connect()
            _, tools = await UpstreamProbe(link, config.tools_seconds).learn()
        catalog = view(tools, config.choice)
        if count is not None:
            catalog = counted(catalog, count)
        _print(catalog, form, how)  # first: some upstreams take seconds to leave
    finally:
        await link.close()
        warden.dismiss()
    return 0


def _print(catalog: ToolCatalog, form: str, how: str) -> None:
    for warning in catalog.warnings:
        log.warning("In the upstream's tool list %s.", warning)
    for line in (line for remark in catalog.remarks for line in remark.split("\n")):
        log.warning("%s", line)
    for pattern in catalog.unmatched:
        log.warning("This pattern matches no tool: %s", pattern)
    sys.stdout.write({"table": as_table, "json": as_json, "names": as_names}[form](catalog, how))
    sys.stdout.flush()


def list_digest(catalog: ToolCatalog) -> str:
    """A name for the list that clients see: equal lists, equal digests, in whatever spelling."""
    from penstock.policy.tools.tool_lock import digest_of_value
    from penstock.wire.json.canonical import read

    return digest_of_value([read(tool.raw) for tool in catalog.allowed])


def as_names(catalog: ToolCatalog, how: str = HOW_ESTIMATED) -> str:
    """The names of the allowed tools, one a line."""
    return "".join(f"{printable(tool.name)}\n" for tool in catalog.allowed)


def as_json(catalog: ToolCatalog, how: str = HOW_ESTIMATED) -> str:
    """Everything, for programs."""
    report = {
        "digest": list_digest(catalog),
        "allowed": [{"name": tool.name, "tokens": tool.tokens} for tool in catalog.allowed],
        "denied": [
            {"name": tool.name, "tokens": tool.tokens, "option": tool.why.option, "pattern": tool.why.pattern}
            for tool in catalog.denied
        ],
        "unmatched_patterns": list(catalog.unmatched),
        "tokens": {
            "allowed": sum(tool.tokens for tool in catalog.allowed),
            "denied": sum(tool.tokens for tool in catalog.denied),
            "note": how,
        },
    }
    return json_text(report)


def as_table(catalog: ToolCatalog, how: str = HOW_ESTIMATED) -> str:
    """A table for people, with a total."""
    rows = [(printable(tool.name), "allowed", f"{tool.tokens:,}", "") for tool in catalog.allowed]
    rows += [(printable(tool.name), "denied", f"{tool.tokens:,}", str(tool.why)) for tool in catalog.denied]
    lines = columns([("TOOL", "", "TOKENS", "WHY"), *rows], numbers=(2,))
    kept = sum(tool.tokens for tool in catalog.allowed)
    saved = sum(tool.tokens for tool in catalog.denied)
    lines.append("")
    lines.append(
        f"{len(catalog.allowed)} allowed, about {kept:,} tokens; "
        f"{len(catalog.denied)} denied, about {saved:,} tokens saved ({how})"
    )
    return "\n".join(lines) + "\n"
