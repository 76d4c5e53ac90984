"""How several upstreams are, a line each, for people and for scripts."""

from __future__ import annotations

from penstock.relay.adapters.aggregate.hub import Hub
from penstock.relay.adapters.aggregate.member import Breaker, Member, State
from penstock.relay.adapters.aggregate.view import View
from penstock.wire.mcp.replies import one_line


def status_lines(hub: Hub, now: float) -> list[str]:
    """One line for each upstream, in the order of trust, with what the widest profile shows of it: one that
    only some profiles have is down all the same."""
    views = sorted(hub.views, key=lambda view: -len(view.members))
    lines = []
    for member in hub.members.values():
        view = next((one for one in views if member in one.members), views[0])
        lines.append(one_line(_line(member, view, now)))
    return lines


def _line(member: Member, view: View, now: float) -> str:
    tools = view.tools
    era = "M" if member.speaks_modern else "L"
    transport = (member.known.transport if member.known is not None else None) or "-"
    left_out = sum(server == member.name for server, _ in tools.left_out)
    line = (
        f"{member.name} {member.state} {era} {transport} links={member.links} "
        f"tools={tools.shown.get(member.name, 0)} hidden={tools.hidden.get(member.name, 0)} "
        f"renamed={tools.renamed.get(member.name, 0)} left_out={left_out} restarts={member.restarts}"
    )
    if member.state in (State.DOWN, State.NEEDS_AUTH):
        if member.breaker is not Breaker.CLOSED:
            line += f" breaker={member.breaker}"
        line += f' next_try={max(0.0, member.retry_at - now):.1f}s error="{member.error}"'
    return line
