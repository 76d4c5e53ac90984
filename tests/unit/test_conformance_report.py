"""What `scripts/conformance.py` calls kept and lost. Runs no suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts_by_name import load_script

conformance = load_script("conformance")


def outcome(**scenarios: list[tuple[str, str]]) -> Any:
    """An outcome of checks given as (id, status)."""
    made = conformance.Outcome()
    for scenario, checks in scenarios.items():
        made.add(
            scenario.replace("_", "-"),
            [
                {"id": id, "name": id, "status": status, "errorMessage": f"{id} broke"}
                for id, status in checks
            ],
        )
    return made


def test_a_check_that_turned_into_a_mere_remark_is_lost_though_its_scenario_still_passes():
    direct = outcome(streams=[("functional", "SUCCESS")])
    through = outcome(streams=[("functional", "INFO")])
    assert through.passed == {"streams"}
    [loss] = conformance.losses(direct, through, "http")
    assert loss.check == ("streams", "functional", "functional")
    assert loss.excuse is None


def test_one_rule_tried_three_times_and_kept_twice_is_lost_once():
    direct = outcome(meta=[("status-400", "SUCCESS")] * 3)
    through = outcome(meta=[("status-400", "SUCCESS"), ("status-400", "FAILURE"), ("status-400", "SUCCESS")])
    [loss] = conformance.losses(direct, through, "http")
    assert loss.complaint == "FAILURE: status-400 broke"
    assert conformance.kept_of(direct, through) == 2


def test_what_succeeds_only_behind_the_proxy_makes_up_for_nothing():
    direct = outcome(a=[("one", "SUCCESS"), ("two", "FAILURE")])
    through = outcome(a=[("one", "FAILURE"), ("two", "SUCCESS")])
    assert conformance.kept_of(direct, through) == 0
    assert len(conformance.losses(direct, through, "http")) == 1


def test_a_scenario_that_never_reported_is_lost_whole():
    direct = outcome(a=[("one", "SUCCESS"), ("two", "SUCCESS")])
    found = conformance.losses(direct, conformance.Outcome(), "stdio")
    assert [loss.complaint for loss in found] == ["not reported", "not reported"]


def test_a_broken_off_scenario_is_blamed_on_what_broke_it():
    direct = outcome(a=[("one", "SUCCESS")])
    through = outcome(a=[("scenario-timeout", "FAILURE")])
    [loss] = conformance.losses(direct, through, "http")
    assert loss.complaint == "not reported; FAILURE: scenario-timeout broke"


def test_event_ids_are_excused_only_where_the_upstream_has_none():
    direct = outcome(server_sse_polling=[("server-sse-retry-field", "SUCCESS")])
    through = outcome(server_sse_polling=[("server-sse-retry-field", "WARNING")])
    excused = {
        target: conformance.losses(direct, through, target)[0].excuse is not None
        for target in ("http", "sse", "stdio")
    }
    assert excused == {"http": False, "sse": True, "stdio": True}


def test_the_table_goes_between_the_markers_and_nowhere_else():
    document = f"# Fidelity\n\n{conformance.BEGIN}\nold\n{conformance.END}\n\nMore.\n"
    written = conformance.replace_between_markers(document, "new")
    assert written == f"# Fidelity\n\n{conformance.BEGIN}\nnew\n{conformance.END}\n\nMore.\n"
    assert conformance.replace_between_markers(written, "new") == written


@pytest.mark.parametrize(
    "document", ["", "begin only <!-- conformance:begin -->", "<!-- conformance:end -->"]
)
def test_a_document_without_both_markers_is_refused(document: str):
    with pytest.raises(ValueError, match="conformance:begin"):
        conformance.replace_between_markers(document, "new")


def test_the_address_of_the_upstream_is_not_taken_for_the_proxys(tmp_path: Path):
    class Alive:
        args = ("proxy",)

        def poll(self) -> None:
            return None

    log = tmp_path / "stderr"
    log.write_text("upstream http://127.0.0.1:8000/mcp\nlistening on http://127.0.0.1:8001/mcp\n")
    found = conformance.address_in(log, "/mcp", Alive(), other_than="http://127.0.0.1:8000/mcp")
    assert found == "http://127.0.0.1:8001/mcp"
