"""What a configuration says of how Penstock runs, watches and learns, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.config.model import FileConfig

_DOWN = {
    "block": "what needs it is blocked",
    "divide": "each instance has its part",
    "local": "each instance has its own",
    "off": "there are none",
}


def summarize_running(config: FileConfig) -> Iterator[str]:
    """A line for each thing that is not as it would be without a word. No secrets."""
    if config.workers != 1:
        count = "one process a core" if config.workers == 0 else f"{config.workers} processes"
        yield f"Workers: {count} on one port."
    if config.shared is not None:
        shared = config.shared
        used = ", ".join(sorted(shared.use))
        yield f"Shared through Redis, as {shared.namespace}: {used}. While it cannot be asked:"
        for name, word in (
            ("limits", shared.limits_down),
            ("caches", shared.caches_down),
            ("state", shared.state_down),
        ):
            if name in shared.use:
                yield f"  {name}: {_DOWN[word]}"
    if config.peer is not None:
        yield f"Other instances reach this one at {config.peer.address}."
    if config.dashboard is not None:
        from penstock.watch.settings import dashboard_settings

        has_hub = dashboard_settings(config.dashboard).has_hub
        where = f"in a browser at {config.dashboard}" if has_hub else "for penstock watch"
        yield f"Live view: {where}."
    if config.anomalies is not None:
        watched, among = ", ".join(config.anomalies.watch), round(1 / config.anomalies.budget)
        yield f"Unusual sessions: told of, at most one in {among:,} wrongly ({watched})."
    if config.variants is not None:
        names = ", ".join(one.name for one in config.variants.live)
        shadows = ", ".join(one.name for one in config.variants.sets if one.is_shadow)
        more = f"; {shadows} only watch" if shadows else ""
        yield f"Rule sets, dealt out by {config.variants.split_by}: {names}{more}."
