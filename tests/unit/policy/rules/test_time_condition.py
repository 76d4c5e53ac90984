"""Hours and days are those of the place that the rule names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from scenes import NotedEffects, Pass, finish, loaded, request, rule, session

from penstock.policy.exchange import Exchange
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build, describe

CALL = request("tools/call", {"name": "t"})
OFFICE = {"from": "08:00", "to": "18:00", "days": "mon-fri", "zone": "UTC"}
NIGHT = {"from": "22:00", "to": "06:00", "days": ["fri"], "zone": "UTC"}


def _is_outside(when: str, **hours: object) -> bool:
    box = Interceptor(
        loaded({"rules": [rule({"block": "late"}, when=[{"time_outside": hours}])]}), NotedEffects()
    )
    wall = datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()
    context = Context(session(), "client", 100.0, Exchange.of(CALL, 100.0), wall=wall)
    return not isinstance(finish(box.on_client(CALL, context)).verdict, Pass)


@pytest.mark.parametrize(
    ("when", "hours", "is_outside"),
    [
        ("2026-11-16T08:00", OFFICE, False),  # a Monday
        ("2026-11-16T07:59:59", OFFICE, True),
        ("2026-11-16T17:59:59", OFFICE, False),
        ("2026-11-16T18:00", OFFICE, True),
        ("2026-11-21T12:00", OFFICE, True),  # a Saturday
        ("2026-11-20T22:00", NIGHT, False),  # Friday night ...
        ("2026-11-21T05:59", NIGHT, False),  # ... lasts until Saturday morning
        ("2026-11-21T06:00", NIGHT, True),
        ("2026-11-20T05:00", NIGHT, True),  # Thursday's night is not meant
        ("2026-11-21T23:00", NIGHT, True),
        ("2026-11-16T07:30", {**OFFICE, "zone": "Europe/Berlin"}, False),
        ("2026-07-13T06:30", {**OFFICE, "zone": "Europe/Berlin"}, False),  # summer there
        ("2026-11-16T06:30", {**OFFICE, "zone": "Europe/Berlin"}, True),
        ("2026-11-22T12:00", {"days": ["sat", "Sunday"], "zone": "UTC"}, False),
        ("2026-11-16T12:00", {"days": "sat-sun", "zone": "UTC"}, True),
        ("2026-11-16T23:59", {"from": "20:00", "to": "24:00", "zone": "UTC"}, False),
    ],
)
def test_hours_and_days(when: str, hours: dict[str, object], is_outside: bool) -> None:
    assert _is_outside(when, **hours) is is_outside


@pytest.mark.parametrize(
    "hours",
    [
        {},
        {"from": "08:00", "to": "08:00"},
        {"from": "8 o'clock"},
        {"from": 800},
        {"to": "24:01"},
        {"days": ["someday"]},
        {"days": []},
        {"zone": "Europe/Berln", "from": "08:00"},
    ],
)
def test_hours_that_mean_nothing_are_a_fault(hours: object) -> None:
    _, faults = build({"rules": [rule({"block": "x"}, when=[{"time_outside": hours}])]})
    assert faults


def test_a_zone_that_is_misspelt_is_guessed() -> None:
    _, faults = build({"rules": [rule({"block": "x"}, when=[{"time_outside": {"zone": "Europe/Berln"}}])]})
    assert 'did you mean "Europe/Berlin"?' in str(faults[0])


def test_it_is_told_in_words() -> None:
    (line, *_) = describe(loaded({"rules": [rule({"block": "x"}, when=[{"time_outside": OFFICE}])]}))
    assert "the time is not 08:00 to 18:00 on mon, tue, wed, thu, fri (UTC)" in line
