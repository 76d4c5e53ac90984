"""The short form of `make faults`: one row of each kind. The whole table is in docs/faults-and-load.md."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from gate import ROOT

sys.path.insert(0, str(ROOT))

from trials.faults import kills, lines, shortages, signals
from trials.faults.checker import Exchange, faults_of_arrivals
from trials.faults.lines import GENTLE, HARSH, Line
from trials.faults.toxics import Toxic

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SIDES = ("client-proxy", "proxy-upstream")


def fresh(toxic: Toxic) -> Toxic:
    return Toxic(toxic.kind, toxic.toward, toxic.after, toxic.seconds, toxic.rate)


@pytest.mark.parametrize(
    ("client", "upstream", "where"),
    [("streamable", "streamable", "proxy-upstream"), ("sse", "sse", "client-proxy")],
)
def test_147_a_slow_line_costs_nothing_but_time(client: str, upstream: str, where: str, tmp_path: Path):
    with Line(client, upstream, "legacy", where, Toxic(), tmp_path) as line:
        for toxic in GENTLE:
            if toxic.kind in ("slicer", "latency", "stall"):
                assert lines.gentle(line, fresh(toxic)) == [], toxic


@pytest.mark.parametrize("where", SIDES)
@pytest.mark.parametrize(
    ("client", "upstream", "era"),
    [
        ("streamable", "streamable", "legacy"),
        ("streamable", "sse", "legacy"),
        ("sse", "streamable", "modern"),
        ("stdio", "streamable", "legacy"),
    ],
)
def test_147_a_line_that_breaks_costs_an_error_and_nothing_else(
    client: str, upstream: str, era: str, where: str, tmp_path: Path
):
    toxic = next(one for one in HARSH if (one.kind, one.toward) == ("cut", "client"))
    with Line(client, upstream, era, where, toxic, tmp_path) as line:
        wrong, _ = lines.harsh(line, fresh(toxic))
    assert wrong == []


@pytest.mark.parametrize("stage", ["call", "big answer"])
@pytest.mark.parametrize("victim", ["proxy", "upstream"])
def test_136_137_whoever_is_killed_nobody_is_left_behind(victim: str, stage: str, tmp_path: Path):
    trial = {"proxy": kills._kill_proxy, "upstream": kills._kill_upstream}[victim]
    assert trial(tmp_path, stage)[0] == []


@pytest.mark.parametrize("victim", ["client", "upstream"])
def test_of_many_clients_only_those_concerned_notice_a_kill(victim: str, tmp_path: Path):
    assert kills._kill_one_of_many(tmp_path, "sse", "stdio", victim, "call")[0] == []


def test_135_a_second_signal_on_a_listener_ends_it_at_once(tmp_path: Path):
    wrong, _ = signals._signal(tmp_path, "streamable", "stdio", signal.SIGHUP, "during a call", 2)
    assert wrong == []


def test_135_an_interrupt_at_the_start_leaves_no_traceback_of_ours_and_nobody_behind(tmp_path: Path):
    wrong, _ = signals._signal(tmp_path, "streamable", "stdio", signal.SIGINT, "at the start", 1)
    assert wrong == []


def test_144_out_of_descriptors_newcomers_are_refused_and_the_old_are_served(tmp_path: Path):
    assert shortages._files(tmp_path, "streamable", "streamable")[0] == []


def test_144_out_of_processes_newcomers_are_refused_and_the_old_are_served(tmp_path: Path):
    assert shortages._processes(tmp_path, "streamable")[0] == []


def test_148_a_full_disk_under_stderr_does_not_delay_the_end(tmp_path: Path):
    assert shortages._second_fault(tmp_path)[0] == []


def test_120_a_rule_file_emptied_by_a_full_disk_changes_no_rule(tmp_path: Path):
    assert shortages._disk(tmp_path, "emptied")[0] == []


# --- the checker itself -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heard", "is_error", "is_right"),
    [
        (["step-0", "step-1", "answer"], False, True),
        (["step-0", "answer"], False, False),  # lost
        (["step-0", "step-1", "answer", "answer"], False, False),  # doubled
        (["step-1", "step-0", "answer"], False, False),  # out of order
        (["step-0", "step-1"], False, False),  # never answered
        (["step-0"], True, True),  # an error, as far as it got
        (["step-1"], True, False),
        (["step-0", "step-1", "answer"], True, False),  # answered and refused
    ],
)
def test_the_checker_sees_what_is_lost_doubled_or_out_of_order(
    heard: list[str], is_error: bool, is_right: bool
):
    exchange = Exchange(1, 2, asks=False, heard=heard, is_error=is_error)
    assert (exchange.faults() == []) is is_right


def test_the_checker_sees_what_reached_the_upstream_twice_or_changed():
    def line(number: int, text: str) -> bytes:
        return json.dumps(
            {"method": "x/numbered", "params": {"n": number, "size": 64, "text": text}}
        ).encode()

    from numbered import text_of

    class Client:
        exchanges = dict.fromkeys((1, 2))

    def faults(*reached: bytes) -> list[str]:
        spaced = [one.replace(b'": "', b'":"') for one in reached]
        return faults_of_arrivals(spaced, [Client()], in_order=True)  # type: ignore[list-item]

    one, two = line(1, text_of(1, "ask", 64)), line(2, text_of(2, "ask", 64))
    assert faults(one, two) == []
    assert faults(one, one, two) != []
    assert faults(two, one) != []
    assert faults(one, line(2, "x" * 64)) != []
    assert faults(one, line(3, text_of(3, "ask", 64))) != []
