"""What is quickly said to be usual is what the long way says nothing of, and leaves the session the same."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from penstock.learn.alerts import Alarm, Alert, p_value
from penstock.learn.baseline_file import calibrate
from penstock.learn.events import Event
from penstock.learn.scores import SessionScores, learn, score
from penstock.learn.usual import SeenCall
from penstock.policy.learned.baseline import KINDS, Baseline, Model
from penstock.policy.learned.features import places_of_value, stem_of

START = 1_790_000_000.0
TOOLS = ("search", "read", "send", "rows", "fetch", "write")


class SlowAlarm(Alarm):
    """One that takes nothing the quick way."""

    def taken(self, session: str, client: str, calls: Sequence[SeenCall]) -> int:
        return 0


class CountingAlarm(Alarm):
    """One that says how often the quick way was enough."""

    quick = 0

    def taken(self, session: str, client: str, calls: Sequence[SeenCall]) -> int:
        count = super().taken(session, client, calls)
        self.quick += count
        return count


def taken_at_once(alarm: Alarm, events: list[Event]) -> list[Alert]:
    """The alerts where the calls of a session that follow each other are handed over together."""
    alerts: list[Alert] = []
    waiting: list[Event] = []
    plain = [event for event in events if not event.is_answer or event.is_error]
    for event, following in zip(plain, [*plain[1:], None], strict=True):
        waiting.append(event)
        is_calls = not event.is_answer and not event.is_stopped
        if (
            is_calls
            and following is not None
            and (following.session, following.client) == (event.session, event.client)
            and not (following.is_answer or following.is_stopped)
        ):
            continue
        while waiting:
            calls = [(one.tool, one.arguments, one.size, one.time) for one in waiting]
            count = alarm.taken(event.session, event.client, calls) if is_calls else 0
            for one in waiting[count : count + 1]:
                alerts += alarm.take(one)
            waiting = waiting[count + 1 :]
    return alerts


def arguments_of(chance: random.Random, is_odd: bool) -> Any:
    """Arguments as they come: flat and deep, with and without places, now and then none at all."""
    tail = int(chance.paretovariate(0.7 if is_odd else 3))
    flat: dict[str, Any] = {
        "path": f"/data/p{tail}/x/notes-{chance.random()}.txt",
        "to": f"a{chance.random()}@d{tail}.example, b@d{tail + 1}.example",
        "url": f"https://www.H{tail}.example:80/{chance.random()}",
        "site": f"h{tail}.org/x",
        "account": f"{10_000_000 + tail}",
        "iban": f"DE{10 + tail % 80}ABCDEFGHI{tail}",
        "windows": f"C:\\data\\p{tail}\\x.txt",
        "text": "no place, however long " * chance.randint(0, 4),
        "n": chance.choice([1, 2.5, True, None]),
    }
    chosen = {name: flat[name] for name in chance.sample(sorted(flat), chance.randint(0, 4))}
    drawn = chance.random()
    if drawn < 0.1:
        return {"inner": chosen, "list": [f"/data/p{tail}/y/z", {"host": f"https://h{tail}.example"}, 1]}
    if drawn < 0.13:
        return chance.choice([None, [], "text", 7, ["https://one.example"]])
    if drawn < 0.15:
        return {f"n{number}": f"/data/p{number}/x" for number in range(chance.choice([150, 230, 300]))}
    if is_odd and drawn < 0.3:
        chosen[f"extra{chance.randint(1, 30)}"] = "x" * chance.choice([1, 4_000])
    return chosen


def events_of(chance: random.Random, session: str, number: int, is_odd: bool) -> list[Event]:
    """The calls of one session, and their answers."""
    when = START + number * 600 + chance.gauss(12, 3) * 3600
    made = []
    for index in range(1 + int(chance.expovariate(0.1 if is_odd else 0.2))):
        tool = TOOLS[min(int(chance.expovariate(0.7)), len(TOOLS) - 1)]
        if is_odd and chance.random() < 0.1:
            tool = f"new{chance.randint(1, 3)}"
        when += chance.expovariate(0.5 if is_odd else 0.05)
        size = chance.randint(20, 5_000 if is_odd else 600)
        client = chance.choice(["", "c", "d"])
        arguments = arguments_of(chance, is_odd)
        is_stopped = is_odd and chance.random() < 0.02
        made.append(Event(session, client, when, index, tool, False, arguments, size, is_stopped=is_stopped))
        is_error = chance.random() < (0.3 if is_odd else 0.05)
        made.append(Event(session, client, when + 0.01, index, tool, True, is_error=is_error))
    return made


def model_of(chance: random.Random, sessions: int) -> Model:
    model = Model(sessions=sessions)
    for number in range(sessions):
        state = SessionScores()
        for event in events_of(chance, f"t{number}", number, False):
            learn(model, event, state)
    for number in range(sessions):
        state = SessionScores()
        for event in events_of(chance, f"c{number}", number, False):
            score(model, event, state)
        calibrate(model, state)
    return model


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("watch", [KINDS, ("place", "rate", "spread")])
def test_the_quick_way_and_the_long_way_say_the_same(seed: int, watch: tuple[str, ...]) -> None:
    chance = random.Random(seed)
    group_by = "client_name" if seed % 2 else ""
    groups = {name: model_of(chance, 60) for name in (("c", "d") if group_by else ("",))}
    if seed == 2:
        groups[""].full |= {"sequence", "place"}
    baseline = Baseline("baseline", group_by=group_by, groups=groups)
    quick, slow = CountingAlarm(baseline, 1 / 3, watch), SlowAlarm(baseline, 1 / 3, watch)
    together = CountingAlarm(baseline, 1 / 3, watch)
    events = [
        event
        for number in range(80)
        for event in events_of(chance, f"s{number}", number, is_odd=number % 2 == 1)
    ]
    said: list[list[Alert]] = [alarm.take(event) for alarm in (quick, slow) for event in events]
    assert said[: len(events)] == said[len(events) :]
    assert sum(map(len, said)) > 20
    assert taken_at_once(together, events) == [alert for alerts in said[: len(events)] for alert in alerts]
    assert quick.alerted == slow.alerted == together.alerted
    for number in range(80):
        one, *others = (alarm._sessions[f"s{number}"] for alarm in (slow, quick, together))
        assert [structs.asdict(other) for other in others] == 2 * [structs.asdict(one)]
    calls = sum(not event.is_answer for event in events)
    assert min(quick.quick, together.quick) > calls / 8  # else nothing was compared


PIECES = [
    *"aZ9.-_+@/\\: ~'\"\u00e9\n\t\u0131\u212a\u0663",
    "www.",
    "x.example",
    "b.com",
    "://",
    "C:",
    "12345678",
]


@pytest.mark.parametrize("seed", range(3))
def test_the_stem_of_a_text_names_the_same_places(seed: int) -> None:
    chance = random.Random(seed)
    stems = 0
    for _ in range(20_000):
        text = "".join(chance.choices(PIECES, k=chance.randint(1, 9)))
        text += chance.choice(["", "/d/e/f.txt", "@d.example", "x" * 300, "y" * 60 + "@d.example"])
        stem = stem_of(text)
        stems += stem not in ("", text)
        assert not stem or list(places_of_value(stem)) == list(places_of_value(text)), (text, stem)
    assert stems > 2_000  # else nothing was compared


@pytest.mark.parametrize("budget", [1 / 2, 1 / 9, 0.03, 0.5 - 1e-12])
def test_nobody_hears_of_a_score_up_to_the_least(budget: float) -> None:
    chance = random.Random(5)
    for count in (0, 1, 3, 17, 40):
        scores = sorted(float(chance.randint(0, 6)) for _ in range(count))
        model = Model(calibration={"rate": scores})
        alarm = Alarm(Baseline(groups={"": model}), budget, ("rate",))
        least = alarm._least(model, "rate")
        for value in {*scores, *(one + 0.001 for one in scores), 0.5, 99.0}:
            p = p_value(model, "rate", value)
            assert (p is not None and p <= budget) == (value > least), (value, least, p)
        assert alarm._least(model, "size") == math.inf


def test_what_is_kept_for_the_quick_way_is_bounded() -> None:
    chance = random.Random(1)
    model = model_of(chance, 20)
    alarm = Alarm(Baseline(groups={"": model}), 1 / 2, ("rate",))
    for number in range(6_000):
        flat = {f"name{number}": f"https://h{number}.example/"}
        deep = {"deep": [f"https://h{number}.example/"]}
        for arguments in (flat, deep):
            alarm.take(Event(f"s{number % 50}", "", START, number, "fetch", False, arguments, 9))
        alarm.take(Event("s", "", START, number, f"tool{number}", False, {}, 9))
        if number % 500:
            continue
        (usual,) = alarm._usual.values()
        assert usual is not None
        kept = [
            table
            for tool in usual._tools.values()
            for table in (tool.shapes, *tool.texts.values(), tool.places, tool.deep, tool.after)
        ]
        assert len(usual._tools) + sum(map(len, kept)) <= 16_384
