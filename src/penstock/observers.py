"""Who observes: one row for each observer that a configuration can ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.config.model import CommandUpstream, FileConfig, ProxyConfig, UrlUpstream

if TYPE_CHECKING:  # loaded only where somebody observes
    from penstock.gate.record import Observer

Opener = Callable[[ProxyConfig], "Observer | None"]


def _open_watching(config: ProxyConfig) -> Observer | None:
    """Recording, audit, metrics, traces, and each message as a line of the log."""
    if config.observe is None and config.log_level != "debug" and config.dashboard is None:
        return None
    from penstock.observe.settings import ObserveSettings
    from penstock.observe.watching import Surroundings, Watching
    from penstock.short_name import short_name

    rules = config.interceptor
    around = Surroundings(
        rules=f"sha256:{config.digest.hex()}" if config.digest else "",
        held=tuple(_held_values(config)),
        choice=config.choice,
        is_http=config.listen is not None,
        is_debug=config.log_level == "debug",
    )
    if rules is not None:
        around.classes = rules.classes
    if isinstance(config.upstream, UrlUpstream):
        around.address, around.port = config.upstream.url.host, config.upstream.url.port
    settings = (config.observe or ObserveSettings()).with_own_files(short_name(config))
    watching = Watching(settings, around)
    if config.dashboard is not None:
        from penstock.open_dashboard import open_dashboard

        watching.guests.append(open_dashboard(config, watching.note))
    return watching


def _held_values(config: ProxyConfig) -> list[str]:
    """Values of ours that must show up in nothing that is kept: headers and variables for the upstream."""
    upstream = config.upstream
    if isinstance(upstream, UrlUpstream):
        return [value.decode("utf-8", "replace") for _, value in upstream.headers]
    return [value for _, value in upstream.env] if isinstance(upstream, CommandUpstream) else []


def _open_anomalies(config: ProxyConfig) -> Observer | None:
    """Alerts about sessions that are unusual."""
    if config.anomalies is None:
        return None
    from penstock.learn.alerting import Alerting

    asked = config.anomalies
    return Alerting(asked.known, asked.budget, asked.watch, asked.file, asked.learns_into)


def _open_shadows(config: ProxyConfig) -> Observer | None:
    """Rule sets that judge on paper what has passed."""
    if config.variants is None or not config.variants.shadows:
        return None
    from penstock.commands.backtest_run import Judge, settled
    from penstock.learn.shadows import JudgedLine, JudgeLine, Shadowing
    from penstock.observe.recording import Line
    from penstock.policy.verdict import Hold, Verdict, Wait

    def judge_of(rules: FileConfig) -> JudgeLine:
        judge = Judge(rules)

        def judged(line: Line) -> JudgedLine | Awaitable[JudgedLine] | None:
            verdict = judge.ask(line)
            if isinstance(verdict, Wait | Hold):
                return later(line, verdict)
            return None if verdict is None else word(line, verdict)

        async def later(line: Line, verdict: Verdict) -> JudgedLine:
            return word(line, await settled(verdict))

        def word(line: Line, verdict: Verdict) -> JudgedLine:
            found = judge.worded(line, verdict)
            return found.word, found.rule

        return judged

    return Shadowing([(one.name, judge_of(one.config)) for one in config.variants.shadows if one.config])


ROWS: tuple[Opener, ...] = (_open_watching, _open_anomalies, _open_shadows)
"""Each gives back its observer, or None when the configuration does not ask for it. What the observer needs
is imported inside, so that nobody pays for it who did not ask."""


def _count_shadows(observers: list[Observer]) -> None:
    """Lets the metrics, where there are some, tell what shadow sets find."""
    from penstock.learn.shadows import Shadowing
    from penstock.observe.watching import Watching

    for watching in observers:
        for shadows in observers:
            if isinstance(watching, Watching) and isinstance(shadows, Shadowing):
                differs, judged = (
                    "What a shadow set would have decided otherwise.",
                    "Messages that they judged.",
                )
                watching.counters.append(("penstock_shadow_differences", differs, shadows.read_differences))
                watching.counters.append(("penstock_shadow_judged", judged, shadows.read_judged))


async def open_observers(config: ProxyConfig) -> list[Observer]:
    """The observers that `config` asks for. Raises ConfigError when one of them cannot do its work."""
    found = [observer for row in ROWS if (observer := row(config)) is not None]
    if config.variants is not None and config.variants.shadows:
        _count_shadows(found)
    for observer in found:
        await observer.start()
    return found
