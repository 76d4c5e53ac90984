"""What an upstream says of itself in one session: its name, its instructions, its tools and its prompts."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, structs

from penstock import limits
from penstock.commands.waiting import told_when_long
from penstock.config.model import CommandUpstream, ProxyConfig, UrlUpstream
from penstock.net.warden import Warden
from penstock.open_links import open_upstream
from penstock.policy.tools.catalog import ToolCatalog, view
from penstock.relay.upstream_probe import UpstreamProbe
from penstock.wire.json.ambiguity import elements, members, readable


class UpstreamOffer(Struct, frozen=True):
    """One session's answers, each definition as the upstream wrote it."""

    catalog: ToolCatalog
    greeting: dict[str, Any]
    prompts: dict[str, bytes]

    @property
    def tools(self) -> dict[str, bytes]:
        """The kept tools by name."""
        return {tool.name: tool.raw for tool in self.catalog.allowed}

    @property
    def server(self) -> dict[str, str]:
        """Name and version, where it tells them."""
        info = self.greeting.get("serverInfo")
        info = info if isinstance(info, dict) else {}
        return {key: info[key] for key in ("name", "version") if isinstance(info.get(key), str)}

    @property
    def instructions(self) -> str | None:
        """What it wants models to know."""
        text = self.greeting.get("instructions")
        return text if isinstance(text, str) else None


async def ask_upstream(config: ProxyConfig) -> UpstreamOffer:
    """Holds one session with the upstream. Raises UpstreamError."""
    # The lock and the budget are what is asked about here, so they do not decide what is seen.
    choice = structs.replace(config.choice, lock=None, budget=None, order="upstream")
    warden = Warden()
    try:
        link = open_upstream(config, warden)
        try:
            with told_when_long(config.upstream):
                await link.connect()
                probe = UpstreamProbe(link, config.tools_seconds)
                _, tools = await probe.learn()
            greeting = msgspec.json.decode(readable(probe.greeting or b"{}"))
            return UpstreamOffer(view(tools, choice), greeting, await _prompts(probe, greeting))
        finally:
            await link.close()
    finally:
        warden.dismiss()


async def _prompts(probe: UpstreamProbe, greeting: dict[str, Any]) -> dict[str, bytes]:
    capabilities = greeting.get("capabilities")
    if not isinstance(capabilities, dict) or "prompts" not in capabilities:
        return {}
    out: dict[str, bytes] = {}
    cursor: Any = None
    for _ in range(limits.LIST_PAGES):
        answer = await probe.ask("prompts/list", {} if cursor is None else {"cursor": cursor})
        if "result" not in answer.envelope:
            break
        page = members(answer.envelope["result"])
        for raw in elements(page["prompts"]) if "prompts" in page else []:
            name = msgspec.json.decode(readable(members(raw)["name"]))
            out.setdefault(str(name), raw)
        cursor = msgspec.json.decode(page["nextCursor"]) if "nextCursor" in page else None
        if cursor is None:
            break
    return out


def upstream_words(config: ProxyConfig) -> list[str] | str:
    """The upstream as it may be written down: no variables, no headers, no query."""
    upstream = config.upstream
    if isinstance(upstream, CommandUpstream):
        return list(upstream.command)
    if isinstance(upstream, UrlUpstream):
        return upstream.url.origin + upstream.url.target.partition(b"?")[0].decode()
    return "a recording"
