"""`penstock tools` for several servers behind one door: whose each tool is, and why one is not there."""

from __future__ import annotations

import asyncio
import sys

from msgspec import Struct, structs

from penstock import limits
from penstock.commands.results import columns, json_text
from penstock.config.model import ProxyConfig, SeveralUpstreams
from penstock.net.warden import Warden
from penstock.open_several import open_hub
from penstock.policy.tools.token_estimate import HOW_ESTIMATED
from penstock.relay.adapters.aggregate.view import View
from penstock.wire.mcp.replies import printable


class _Row(Struct, frozen=True):
    name: str  # what clients see
    server: str
    own: str
    tokens: int
    why: str = ""  # why it is not there

    @property
    def state(self) -> str:
        return "denied" if self.why else "allowed"


async def show_several(config: ProxyConfig, form: str) -> int:
    """Asks every server for its tools and prints what clients would see of them."""
    warden = Warden()
    hub = open_hub(_patient(config), warden, learns=True)
    view = hub.new_view(config.choice)
    settled = asyncio.Event()
    try:
        hub.start()
        hub.when_settled(settled.set)
        await settled.wait()
        sys.stdout.write(_FORMS[form](_rows(view)))
        sys.stdout.flush()
        return 0 if any(member.known is not None for member in view.members) else 1
    finally:
        await hub.close()
        warden.dismiss()


def _patient(config: ProxyConfig) -> ProxyConfig:
    """The same with time for every server: who asks whose each tool is wants to see all of them, and not only
    those of quick servers."""
    upstream = config.upstream
    assert isinstance(upstream, SeveralUpstreams)
    seconds = max(upstream.terms.lists.wait_seconds, limits.CONNECT_SECONDS)
    lists = structs.replace(upstream.terms.lists, wait_seconds=seconds)
    terms = structs.replace(upstream.terms, lists=lists)
    return structs.replace(config, upstream=structs.replace(upstream, terms=terms))


def _rows(view: View) -> list[_Row]:
    tools = view.tools
    rows = []
    for tool in tools.catalog.allowed:
        owner = tools.owners[tool.name]
        rows.append(_Row(tool.name, owner.member, owner.own, tool.tokens))
    for denied in tools.catalog.denied:
        owner = tools.denied[denied.name]
        rows.append(_Row(denied.name, owner.member, owner.own, denied.tokens, str(denied.why)))
    for member in view.members:
        for hidden in view.hidden_of(member):
            rows.append(_Row("-", member.name, hidden.name, hidden.tokens, str(hidden.why)))
    rows += [_Row("-", server, own, 0, "its name is taken") for server, own in tools.left_out]
    return rows


def _table(rows: list[_Row]) -> str:
    cells = [("TOOL", "SERVER", "ITS NAME THERE", "", "TOKENS", "WHY")]
    cells += [
        (printable(row.name), row.server, printable(row.own), row.state, f"{row.tokens:,}", row.why)
        for row in rows
    ]
    lines = columns(cells, numbers=(4,))
    kept = [row for row in rows if not row.why]
    lines += ["", f"{len(kept)} allowed, about {sum(row.tokens for row in kept):,} tokens ({HOW_ESTIMATED})"]
    return "\n".join(lines) + "\n"


def _json(rows: list[_Row]) -> str:
    found = [
        {
            "name": row.name,
            "server": row.server,
            "own_name": row.own,
            "tokens": row.tokens,
            "why": row.why or None,
        }
        for row in rows
    ]
    allowed = [row for row in found if row["why"] is None]
    denied = [row for row in found if row["why"] is not None]
    report = {"allowed": allowed, "denied": denied}
    return json_text(report)


def _names(rows: list[_Row]) -> str:
    return "".join(f"{printable(row.name)}\n" for row in rows if not row.why)


_FORMS = {"table": _table, "json": _json, "names": _names}
