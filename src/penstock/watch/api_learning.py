"""The part of the API that shows what was learned: alerts, patterns over time, suggested rules, variants.

Nothing here puts anything in force. What is found out in a process of its own is asked for with POST.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock.watch import bounds
from penstock.watch.instance import Instance
from penstock.watch.requests import Refused, whole
from penstock.watch.studies import Study

if TYPE_CHECKING:
    from penstock.watch.api import Answer, Call
    from penstock.watch.hub import Hub

_NAMES = "(alerts|suggestions|variants)"
ROUTES = (
    ("GET", "stats", "view", "stats"),
    ("GET", "alerts", "view", "alerts"),
    ("GET", "patterns", "view", "patterns"),
    ("GET", f"studies/{_NAMES}", "view", "study"),
    ("POST", f"studies/{_NAMES}", "control", "begin_study"),
    ("DELETE", f"studies/{_NAMES}", "control", "stop_study"),
)


class LearningCalls:
    """What `Api` answers about what was learned."""

    _hub: Hub

    def _stats(self, call: Call) -> Answer:
        seconds = whole(call.query.get("seconds"), 3600)
        return 200, {"minutes": self._hub.store.minutes(seconds), "now": time.time()}

    def _alerts(self, call: Call) -> Answer:
        study = self._hub.studies.all["alerts"]
        found = alerts_of(self._hub)
        return 200, {
            "alerts": found[: bounds.ALERTS],
            "total": len(found),
            "study": study.facts() if self._hub.studies.baseline else None,
            "source": self._hub.source,
        }

    def _patterns(self, call: Call) -> Answer:
        by, of = call.query.get("by", "tool"), call.query.get("of")
        if by not in ("tool", "client"):
            raise Refused(400, "by", "It is by tool or by client")
        patterns = self._hub.patterns
        facts = {**patterns.facts(by, of or None), "news": patterns.news(), "reading": self._hub.reading}
        return 200, facts

    def _study(self, call: Call) -> Answer:
        return 200, self._shown(self._hub.studies.all[call.words[0]])

    def _begin_study(self, call: Call) -> Answer:
        hub, name = self._hub, call.words[0]
        config = next((one.header.config for one in hub.instances.values() if one.header.config), "")
        if name == "alerts" and not hub.studies.baseline:
            raise Refused(422, "baseline", "Name a baseline: penstock watch FILE --baseline FILE")
        if name == "variants" and not (hub.studies.config or config):
            raise Refused(422, "config", "Name a configuration: penstock watch FILE --config FILE")
        return 200, self._shown(hub.studies.start(name, config))

    def _stop_study(self, call: Call) -> Answer:
        return 200, self._shown(self._hub.studies.stop(call.words[0]))

    def _shown(self, study: Study) -> dict[str, object]:
        """How it stands and what it has found, masked; examples of messages with their rows."""
        hub = self._hub
        result = masked(hub, study.result)
        if study.name == "variants" and isinstance(result, dict):
            examples = [differs for one in result["sets"] for differs in one["differs"]]
            rows = seqs_of(hub, {hub.studies.place(index) for one in examples for index in one["examples"]})
            for one in examples:
                one["seqs"] = [rows.get(hub.studies.place(index), 0) for index in one["examples"]]
        said = [masked(hub, text) for text in study.said]
        files = hub.studies.files
        return {**study.facts(), "said": said, "result": result, "files": files}


def alerts_of(hub: Hub) -> list[dict[str, Any]]:
    """All alerts, newest first: those that proxies have raised, and those of a recording."""
    found: list[tuple[Instance | None, dict[str, Any]]] = [
        (one, alert) for one in hub.instances.values() for alert in one.alerts
    ]
    found += [(None, alert) for alert in hub.studies.all["alerts"].result or ()]
    places: list[tuple[str, int]] = []
    out: list[dict[str, Any]] = []
    for instance, alert in found:
        index = int(alert.get("seen_first", 0))
        if instance is None:
            place = hub.studies.place(index, str(alert.get("session", "")))
        else:
            place = (instance.path, index)
        places.append(place)
        shown = {**masked(hub, alert), "proxy": instance.header.name if instance is not None else ""}
        out.append({**shown, "file": place[0] if instance is None else ""})
    rows = seqs_of(hub, set(places))
    for shown, place in zip(out, places, strict=True):
        shown["seq"] = rows.get(place, 0)
    out.sort(key=lambda alert: str(alert.get("at", "")), reverse=True)
    return out


def seqs_of(hub: Hub, places: set[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The rows of these messages, by where they came from and their number there; those gone are left out."""
    found = {("", row): row for source, row in places if not source}  # of what is kept here, it is the row's
    wanted = {index for _, index in places}
    if wanted:
        for row in hub.store.rows:
            if row.index in wanted and (row.source, row.index) in places:
                found[row.source, row.index] = row.seq
    return found


def masked(hub: Hub, value: Any) -> Any:
    """The value without what any of the proxies calls a secret."""
    for instance in hub.instances.values():
        value = instance.masker.value(value)
    return value
