"""Several rule sets: fixed shares, the same set for a session everywhere, and shadows that change nothing."""

from __future__ import annotations

import json
import re
import socket
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from doors import StdioDoor
from gate import DEADLINE, wait_until
from pairs import Proxy, Upstream
from penstock.gate.variants import VariantRules, part_of
from penstock.learn.intervals import is_difference_shown, wilson
from penstock.policy.exchange import Session
from sessions import START, RecordingMaker, penstock
from watched import Watched


def block(id: str, tool: str) -> dict[str, Any]:
    return {"id": id, "conditions": [{"tool": tool}], "actions": [{"block": "no"}]}


def test_acceptance_31_shares_are_kept_and_a_session_has_one_set_everywhere() -> None:
    def instance() -> VariantRules:
        return VariantRules([("now", 9000, None, True), ("strict", 1000, None, False)], "nov")

    first, second = instance(), instance()
    count = 0
    for number in range(10_000):
        one, other = (
            Session(id=f"a{number}", mcp_session_id=f"s{number}"),
            Session(mcp_session_id=f"s{number}"),
        )
        first.pick(one, "tools/list")
        second.pick(other, "tools/call")  # another instance, or the same after a restart
        assert one.variant == other.variant
        first.pick(one, "ping")
        assert one.variant == other.variant
        count += one.variant == "strict"
    assert abs(count - 1000) <= 100
    # The same in every process: nothing of Python's own hash, which is another after each start.
    assert [part_of(f"s{number}", "nov") for number in range(6)] == [3107, 5201, 5920, 5161, 9796, 3174]
    assert sum(part_of(f"s{number}", "nov") != part_of(f"s{number}", "dec") for number in range(100)) > 90


def test_a_session_has_its_set_live_and_in_the_recording(tmp_path: Path) -> None:
    (tmp_path / "strict.json").write_text(
        json.dumps({"interceptor": {"rules": [block("strict", "write_file")]}})
    )
    config, record = tmp_path / "c.json", tmp_path / "r.jsonl"
    sets = [{"name": "now", "share": 50}, {"name": "strict", "file": "strict.json", "share": 50}]
    config.write_text(
        json.dumps(
            {
                "interceptor": {"rules": []},
                "variants": {"salt": "x", "sets": sets},
                "record": {"file": str(record)},
            }
        )
    )
    seen: dict[str, set[bool]] = {}
    with (
        Upstream("streamable", tmp_path) as server,
        Proxy(tmp_path, ["--config", str(config), *server.words()]) as proxy,
    ):
        for _ in range(12):
            with proxy.connect("streamable", "legacy") as door:
                door.begin()
                blocked = ["error" in door.call("write_file") for _ in range(3)]
                assert len(set(blocked)) == 1  # for the whole session
                seen.setdefault("strict" if blocked[0] else "now", set()).add(blocked[0])
    assert set(seen) == {"now", "strict"}
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    for line in lines:
        if line.get("by") == "strict":
            assert line["variant"] == "strict"
    assert {line.get("variant") for line in lines if line.get("kind") == "request"} >= {"now", "strict"}


def test_acceptance_31_a_session_keeps_its_set_over_two_proxies_and_a_restart_of_both(
    tmp_path: Path,
) -> None:
    strict = {"interceptor": {"rules": [block("strict", "write_file")]}}
    (tmp_path / "strict.json").write_text(json.dumps(strict))
    sets = [{"name": "now", "share": 50}, {"name": "strict", "file": "strict.json", "share": 50}]
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"interceptor": {"rules": []}, "variants": {"salt": "nov", "sets": sets}}))
    with Upstream("streamable", tmp_path) as server, ExitStack() as open_until_the_end:

        def pair() -> list[Proxy]:
            """Two processes of their own, with the same file."""
            words = ["--config", str(config), *server.words()]
            return [open_until_the_end.enter_context(Proxy(tmp_path, words)) for _ in range(2)]

        first = pair()
        doors = []
        for number in range(12):
            door = first[number % 2].connect("streamable", "legacy", listens=False)
            open_until_the_end.enter_context(door)
            door.begin()
            doors.append(door)
        assert len({door.session for door in doors}) == 12

        def blocked_by(proxy: Proxy) -> list[bool]:
            found = []
            for door in doors:
                door.port = proxy.port  # the session is the upstream's own: any instance may carry it
                found.append("error" in door.call("write_file"))
            return found

        before = [blocked_by(proxy) for proxy in first]
        assert {True, False} == set(before[0])
        assert before[0] == before[1]
        for proxy in first:
            assert proxy.end() == 0
        again = pair()
        assert not {proxy.process.pid for proxy in first} & {proxy.process.pid for proxy in again}
        assert [blocked_by(proxy) for proxy in again] == before


def _effects(url: str, touched: Path) -> dict[str, dict[str, Any]]:
    """Actions that reach out: two open a socket, two start a process."""
    hook = {"url": url, "allow_http": True, "allow_private": True}
    touch = [sys.executable, "-c", f"open({str(touched)!r}, 'w')"]
    return {
        "webhook": {"webhook": hook},
        "waited webhook": {"webhook": {**hook, "wait": True}},
        "script": {"run_script": {"command": touch}},
        "fork": {"fork": {"command": touch}},
    }


@pytest.mark.parametrize("effect", ["webhook", "waited webhook", "script", "fork"])
def test_acceptance_32_the_same_set_in_force_does_open_it(effect: str, tmp_path: Path) -> None:
    """Without this, a set that could never reach out would pass the test of shadows too."""
    touched = tmp_path / "touched"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(DEADLINE)
        action = _effects(f"http://127.0.0.1:{listener.getsockname()[1]}/", touched)[effect]
        rules = {"interceptor": {"rules": [{"id": "out", "actions": [action]}]}}
        (tmp_path / "next.json").write_text(json.dumps(rules))
        sets = [{"name": "next", "file": "next.json", "share": 100}]
        (tmp_path / "c.json").write_text(json.dumps({"variants": {"sets": sets}}))
        with Upstream("stdio", tmp_path) as server, (tmp_path / "errors").open("wb") as errors:
            words = [sys.executable, "-m", "penstock", "--stdio", "--config", str(tmp_path / "c.json")]
            with StdioDoor([*words, *server.words()], "legacy", errors) as door:
                door.request(b"1", "ping", b"{}")
                if effect.endswith("webhook"):
                    listener.accept()[0].close()
                    assert not touched.exists()
                else:
                    assert wait_until(touched.exists), (tmp_path / "errors").read_text()


@pytest.mark.parametrize("has_shadow", [False, True])
def test_acceptance_32_a_shadow_set_opens_nothing_and_changes_nothing(
    has_shadow: bool, tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.5)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        effects = _effects(url, touched)
        rules = [
            {"id": "tell", "actions": [effects["webhook"], effects["waited webhook"]]},
            {"id": "run", "actions": [effects["script"], effects["fork"]]},
            block("no-writes", "write_file"),
        ]
        (tmp_path / "next.json").write_text(json.dumps({"interceptor": {"rules": rules}}))
        sets: list[dict[str, Any]] = [{"name": "now", "share": 100}]
        sets += [{"name": "next", "file": "next.json", "shadow": True}] if has_shadow else []
        own = {"rules": [block("own", "delete_file")]}
        (tmp_path / "c.json").write_text(json.dumps({"interceptor": own, "variants": {"sets": sets}}))
        errors = tmp_path / "errors"
        with Upstream("stdio", tmp_path) as server:
            words = [sys.executable, "-m", "penstock", "--stdio", "--config", str(tmp_path / "c.json")]
            with StdioDoor([*words, *server.words()], "legacy", errors.open("wb")) as door:
                door.begin()
                answers = []
                for tool in ("echo", "write_file", "delete_file"):
                    token = b'"%b"' % tool.encode()
                    door.request(token, "tools/call", b'{"name":%b,"arguments":{}}' % token)
                    answers.append(door.answer(token))
        content = '{"content":[{"type":"text","text":"called"}], "called" : "%s"}'
        said = f'{{"jsonrpc":"2.0","id":"%s","result":{content}}}'
        expected = [said % (tool, tool) for tool in ("echo", "write_file")]
        assert [answer.decode() for answer in answers[:2]] == expected
        assert b'"rule":"own"' in answers[2]
        if has_shadow:
            wanted = "Shadow set next would have stopped 1 messages (rule no-writes)."
            assert wait_until(lambda: wanted in errors.read_text()), errors.read_text()
        with pytest.raises(TimeoutError):
            listener.accept()  # nobody has come
    assert not touched.exists()


def test_sets_are_told_of_by_the_metrics(tmp_path: Path) -> None:
    (tmp_path / "next.json").write_text(json.dumps({"interceptor": {"rules": [block("nw", "write_file")]}}))
    sets = [{"name": "now", "share": 100}, {"name": "next", "file": "next.json", "shadow": True}]
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"interceptor": {"rules": []}, "variants": {"sets": sets}}))
    with Watched(
        tmp_path, "streamable", "stdio", "--metrics", "0", "--config", str(config), deny=""
    ) as watched:
        door = watched.connect()
        door.call("write_file")
        door.call("echo")
        found = re.search(r"http://127.0.0.1:(\d+)/metrics", watched.stderr)
        assert found is not None

        def text() -> str:
            with urllib.request.urlopen(found[0]) as answer:
                return str(answer.read().decode())

        differs = 'penstock_shadow_differences_total{set="next",what="would have stopped",rule="nw"} 1'
        assert wait_until(lambda: differs in text()), text()
        told = text()
        assert 'penstock_variant_messages_total{set="now",verdict="pass"}' in told
        assert 'penstock_variant_answers_total{set="now",error_type=""}' in told
        watched.end()


def test_sets_are_compared_over_a_recording(tmp_path: Path) -> None:
    with RecordingMaker(tmp_path / "r.jsonl") as made:
        for number in range(200):
            name = "strict" if number % 10 == 0 else "now"
            made.call(f"s{number}", START + number, "write", {}, variant=name, is_error=number % 2 == 0)
        first = made.call("last", START + 300, "erase", {})
    strict = {"interceptor": {"rules": [block("strict", "erase")]}}
    (tmp_path / "strict.json").write_text(json.dumps(strict))
    sets = [{"name": "now", "share": 90}, {"name": "strict", "file": "strict.json", "share": 10}]
    (tmp_path / "c.json").write_text(json.dumps({"variants": {"sets": sets}}))
    said = penstock(
        "variants", str(tmp_path / "r.jsonl"), "--config", str(tmp_path / "c.json"), code=3
    ).stdout
    assert f"stops 1 that now does not (rule strict): message {first:,}" in said
    assert "now (90 %): pass 402" in said
    assert "recorded: 180 sessions, 180 answers, 80 errors" in said
    assert "errors beside now: a difference is shown" in said  # all of the other 20 fail


def test_intervals_are_those_of_wilson() -> None:
    low, high = wilson(10, 100)
    assert round(low, 4) == 0.0552
    assert round(high, 4) == 0.1744
    assert not is_difference_shown((10, 100), (14, 100))
    assert is_difference_shown((10, 1000), (140, 1000))


@pytest.mark.parametrize(
    ("variants", "words"),
    [
        ({"sets": [{"name": "a", "share": 90}]}, "must make 100"),
        ({"sets": [{"name": "a", "share": 50}, {"name": "a", "share": 50}]}, "a name of its own"),
        ({"sets": [{"name": "a", "share": 100}, {"name": "b", "shadow": True}]}, "a shadow needs a file"),
        ({"sets": [{"name": "a", "share": 100, "file": "none.json"}]}, "Cannot read the configuration"),
        ({"sets": [{"name": "a", "share": 100, "file": "c.json"}]}, "has no variants itself"),
    ],
)
def test_faults_of_the_section_are_said(variants: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"variants": variants}))
    assert words in penstock("check", str(tmp_path / "c.json"), code=1).stderr
