"""What was learned, in the live view: alerts, patterns over time, suggested rules and variants."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chromium import CHROMIUM, Chromium
from gate import SAMPLE, Gate
from live import Hub, until
from sessions import START, RecordingMaker, penstock

CANARY = "sk-ant-api03-" + "Zq7" * 16
NAUGHTY = "<img src=x onerror=window.hit=1>\u202e"
DAY = 86_400
CONFIG = """
variants:
  salt: nov
  sets:
    - {name: now, share: 90}
    - {name: strict, file: strict.yaml, share: 10}
"""
STRICT = "interceptor: {rules: [{id: no-mail, conditions: [{tool: send_email}], actions: [{block: no}]}]}\n"
EMPTY = "interceptor: {rules: []}\n"


class Days(RecordingMaker):
    """Sessions of three weeks, by two clients; a third comes in the last one."""

    who = ""

    def line(self, session: str, when: float, sender: str, kind: str, message: Any, **more: Any) -> int:
        return super().line(session, when, sender, kind, message, **{**more, "client": self.who})

    def fill(self, chance: random.Random) -> None:
        for number in range(400):
            when = START + number * 21 * DAY / 400
            self.who = "nightly" if number % 4 == 0 else "editor"
            variant = "strict" if number % 10 == 0 else "now"
            for step in range(chance.randint(1, 4)):
                tool = chance.choice(("search", "send_email", "read_file"))
                arguments = {"kind": chance.choice(("a", "b")), "password": CANARY, "text": CANARY}
                is_error = chance.random() < 0.1
                self.call(f"s{number}", when + step, tool, arguments, is_error=is_error, variant=variant)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("learned")
    with Days(work / "usual.jsonl") as made:
        made.fill(random.Random(1))
    with Days(work / "today.jsonl") as made:
        made.fill(random.Random(2))
        last = START + 21 * DAY
        made.who = NAUGHTY
        made.call("odd", last, "search", {"kind": "a", "password": CANARY, "text": CANARY})
        made.call("odd", last + 1, NAUGHTY, {"to": "me@evil.example", "password": CANARY})
    penstock("baseline", str(work / "usual.jsonl"), "--out", str(work / "b"))
    (work / "penstock.yaml").write_text(EMPTY + CONFIG)
    (work / "strict.yaml").write_text(STRICT)
    lines = [
        f"{role} {role} {hashlib.sha256(f'token-{role}'.encode()).hexdigest()}"
        for role in ("view", "approve")
    ]
    (work / "users").write_text("\n".join(lines))
    return work


@pytest.fixture(scope="module")
def hub(work: Path) -> Iterator[Hub]:
    words = ["--baseline", str(work / "b"), "--budget", "1/10", "--config", str(work / "penstock.yaml")]
    with Hub(str(work / "today.jsonl"), *words, "--users", str(work / "users")) as found:
        until(lambda: found.get("patterns")["reading"]["is_done"], found.said)
        yield found


def studied(hub: Hub, name: str) -> Any:
    """What a study has found."""
    status, value = hub.call("POST", f"studies/{name}", {})
    assert status == 200, value
    return until(lambda: (now := hub.get(f"studies/{name}"))["state"] != "running" and now, hub.said)


def recorded_calls(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return [line for line in lines if line["kind"] == "request"]


def test_every_alert_leads_to_its_message(hub: Hub, work: Path) -> None:
    until(lambda: hub.get("alerts")["study"]["state"] == "done", hub.said)
    found = hub.get("alerts")["alerts"]
    words = ["anomalies", str(work / "today.jsonl"), "--baseline", str(work / "b"), "--budget", "1/10"]
    lines = penstock(*words, "--format", "json", code=3).stdout.splitlines()
    assert {(one["session"], one["why"]) for one in found} == {
        (one["session"], one["why"]) for one in map(json.loads, lines)
    }
    assert {"tool", "place"} <= {one["kind"] for one in found if one["session"] == "odd"}
    calls = {call["i"]: call for call in recorded_calls(work / "today.jsonl")}
    for one in found:
        message = hub.get(f"messages/{one['seq']}")
        call = calls[one["seen_first"]] if one["kind"] != "errors" else None
        if call is not None:
            assert message["session"] == call["s"] == one["session"]
            assert message["tool"] == call["msg"]["params"]["name"]
        assert "tools/call" in penstock("why", one["file"], str(one["seen_first"])).stdout


def test_patterns_are_the_counts_of_the_recording(hub: Hub, work: Path) -> None:
    calls = recorded_calls(work / "today.jsonl")
    found = hub.get("patterns?by=tool")
    assert found["calls"] == len(calls)
    assert {row["name"]: row["calls"] for row in found["rows"]} == Counter(
        call["msg"]["params"]["name"] for call in calls
    )
    hours = Counter(
        (time.gmtime(call["t"]).tm_wday, time.gmtime(call["t"]).tm_hour)
        for call in calls
        if call["msg"]["params"]["name"] == "search"
    )
    (row,) = [row for row in found["rows"] if row["name"] == "search"]
    assert {(at // 24, at % 24): count for at, count in enumerate(row["week"]) if count} == hours
    days = Counter(int(call["t"]) // DAY * DAY for call in calls if call["msg"]["params"]["name"] == "search")
    assert {day: count for day, count in zip(found["days"], row["days"], strict=True) if count} == days
    nightly = hub.get("patterns?by=tool&of=nightly")
    assert sum(row["calls"] for row in nightly["rows"]) == sum(call["client"] == "nightly" for call in calls)
    clients = hub.get("patterns?by=client")
    assert {row["name"] for row in clients["rows"]} == {"nightly", "editor", NAUGHTY}
    assert sum(row["errors"] for row in clients["rows"]) == sum(row["errors"] for row in found["rows"]) > 0
    assert hub.call("GET", "patterns?by=path")[0] == 400


def test_what_is_new_since_last_week_is_what_was_never_before(hub: Hub) -> None:
    news = hub.get("patterns")["news"]
    assert news["is_known"]
    assert {(one["client"], one["tool"]) for one in news["new"]} == {(NAUGHTY, "search"), (NAUGHTY, NAUGHTY)}
    assert {one["tool"] for one in news["new"] if one["is_new_tool"]} == {NAUGHTY}
    assert all(one["is_new_client"] for one in news["new"])


def test_suggestions_are_those_of_the_command_and_nothing_is_put_in_force(
    hub: Hub, work: Path, tmp_path: Path
) -> None:
    before = hub.get("rules")
    found = studied(hub, "suggestions")
    assert found["state"] == "done", found
    told = json.loads(penstock("suggest", str(work / "today.jsonl"), "--format", "json").stdout)
    assert found["result"] == told
    assert any(rule["id"].endswith("-kind-enum") for rule in told["rules"])
    assert all(rule["refused"] == 0 and rule["support"] >= 20 for rule in told["rules"])
    assert any("may be secrets" in reason for reason in told["reasons"])
    (tmp_path / "s.yaml").write_text(told["yaml"])
    penstock("check", str(tmp_path / "s.yaml"))
    assert hub.get("rules") == before


def test_variants_stand_side_by_side_with_examples(hub: Hub) -> None:
    found = studied(hub, "variants")
    assert found["state"] == "done", found
    now, strict = found["result"]["sets"]
    assert now["recorded"]["sessions"] == 360
    assert strict["recorded"]["sessions"] == 40
    assert strict["is_difference_shown"] in (True, False)
    assert strict["recorded"]["low"] < strict["recorded"]["high"]
    (differs,) = strict["differs"]
    assert (differs["what"], differs["rule"]) == ("stops", "no-mail")
    assert differs["count"] == strict["verdicts"]["block"]
    for seq in differs["seqs"]:
        assert hub.get(f"messages/{seq}")["tool"] == "send_email"


def test_who_only_looks_sees_it_masked_and_begins_nothing(hub: Hub) -> None:
    status, value = hub.call("POST", "login", {"token": "token-view"}, token="")
    assert status == 200
    token = value["token"]
    for name in ("alerts", "suggestions", "variants"):
        assert hub.call("POST", f"studies/{name}", {}, token=token)[0] == 403
        assert hub.call("DELETE", f"studies/{name}", {}, token=token)[0] == 403
    paths = ("alerts", "patterns", "patterns?by=client", "studies/suggestions", "studies/variants")
    for path in (*paths, "studies/alerts"):
        status, value = hub.call("GET", path, token=token)
        assert status == 200
        assert CANARY not in json.dumps(value)
    assert hub.call("GET", "studies/../rules", token=token)[0] == 404


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; scripts/system_setup installs one")
def test_the_pages_show_it_and_run_nothing_of_others(hub: Hub) -> None:
    for name in ("suggestions", "variants"):
        studied(hub, name)
    with Chromium() as page:
        page.open(f"http://{hub.host}/#code={hub.code()}")
        page.wait("document.querySelectorAll('.grow').length > 2")
        page.key("0")
        page.wait("document.querySelectorAll('table.heat').length === 2")
        page.wait("document.body.innerText.includes('‹U+202E›')")
        page.click(".choice button", "by day")
        page.click(".choice button", "clients")
        page.wait("[...document.querySelectorAll('table.heat th')].some(e => e.textContent === 'nightly')")
        page.key("5")
        page.click(".choice button", "suggested")
        page.wait("document.querySelectorAll('.card pre').length > 1")
        assert page.run("document.body.innerText.includes('Not suggested, because')")
        page.click(".choice button", "variants")
        page.wait("!!document.querySelector('.intervals')")
        page.click(".link", "message ")
        page.wait("document.querySelector('.detail h2')?.textContent.includes('send_email')")
        page.key("9")
        page.wait("document.querySelectorAll('.card').length > 0")
        page.click(".card button", "message ")
        page.wait("document.querySelector('.detail h2')?.textContent.includes('tools/call')")
        assert page.run("window.hit") is None
        assert page.run("document.querySelectorAll('main img, main script, main a').length") == 0
        assert [url for url in page.requests if not url.startswith((f"http://{hub.host}/", "about:"))] == []


def test_an_alert_of_a_running_proxy_reaches_its_hub(tmp_path: Path) -> None:
    with RecordingMaker(tmp_path / "usual.jsonl") as made:
        for number in range(40):
            made.call(f"s{number}", START + number, "echo", {"text": "x"})
    penstock("baseline", str(tmp_path / "usual.jsonl"), "--out", str(tmp_path / "b"))
    config = tmp_path / "penstock.yaml"
    told = f"anomalies: {{baseline: {tmp_path / 'b'}, budget: 1/10, watch: [tool]}}\n"
    config.write_text(EMPTY + CONFIG + told)
    (tmp_path / "strict.yaml").write_text(STRICT)
    with Hub() as hub:
        words = ["--dashboard", "auto", "--config", str(config)]
        with Gate(tmp_path, *words, command=["python3", str(SAMPLE)]) as gate:
            gate.handshake()
            gate.ask("tools/call", b'{"name":"echo","arguments":{"text":"x"}}')
            gate.ask("tools/call", b'{"name":"read_file","arguments":{"path":"x"}}')
            alert = until(lambda: (now := hub.get("alerts")["alerts"]) and now[0], hub.said)
            assert alert["why"].startswith("tool read_file, never in 20 sessions")
            assert hub.get(f"messages/{alert['seq']}")["tool"] == "read_file"
            assert any("Unusual" in line["text"] for line in hub.get("log")["log"])
            # What was kept live is judged by the configuration of the proxy, and by nobody on disk.
            found = studied(hub, "variants")
            assert found["state"] == "done", found
            assert found["messages"] >= 6
            assert {one["name"] for one in found["result"]["sets"]} == {"now", "strict"}
            found = studied(hub, "suggestions")
            assert found["state"] == "failed"
            assert any("1 sessions" in text for text in found["said"]), found
            later = Hub(folder=hub.folder)  # one that comes later is told of it too
            try:
                until(lambda: later.get("alerts")["alerts"], later.said)
            finally:
                later.close()


def test_a_long_study_can_be_stopped_and_the_hub_goes_on(work: Path, tmp_path: Path) -> None:
    lines = (work / "today.jsonl").read_text().splitlines(keepends=True)
    with (tmp_path / "long.jsonl").open("w") as file:
        file.write(lines[0])
        for _ in range(60):
            file.writelines(lines[1:])
    with Hub(str(tmp_path / "long.jsonl")) as hub:
        assert hub.call("POST", "studies/suggestions", {})[0] == 200
        until(lambda: hub.get("studies/suggestions")["progress"].get("count"), hub.said, 60)
        assert hub.call("DELETE", "studies/suggestions", {})[1]["state"] == "stopped"
        until(lambda: hub.get("studies/suggestions")["ended"], hub.said)
        assert hub.get("studies/suggestions")["result"] is None


def test_a_baseline_is_for_recordings_and_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("{}")
    with RecordingMaker(tmp_path / "r.jsonl") as made:
        made.call("s", START, "echo", {})
    for words, why in (
        (["--baseline", str(tmp_path / "b"), "--lines"], "for recordings"),
        ([str(tmp_path / "r.jsonl"), "--baseline", str(tmp_path / "b"), "--lines"], "no baseline"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "penstock", "watch", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (1, 2)
        assert why in done.stderr
