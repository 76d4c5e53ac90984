"""What `python -m bench.several_cost` writes: which bars were met, and where in the page that stands."""

from __future__ import annotations

from pathlib import Path

from bench.several_cost import BARS, BEFORE, SECTION, Row, tables, write

PAGE = Path(__file__).resolve().parents[2] / "docs" / "several.md"


def rows(added: float) -> dict[str, Row]:
    plain = Row(100, 100.0, 200.0, 100.0, 100.0, 100.0, 100.0, 15.0)
    names = (
        "direct",
        "five direct",
        "one upstream",
        "one with 100 tools",
        "5 x 20 and a hung one",
        "50 x 200",
    )
    return {**dict.fromkeys(names, plain), "5 x 20": plain._replace(added=added)}


def verdicts(text: str) -> dict[str, str]:
    cells = [line.strip("| ").split(" | ") for line in text.partition("| planned")[2].splitlines()[2:]]
    return {row[0]: row[-1] for row in cells}


def test_each_bar_is_met_or_missed_or_was_not_measured() -> None:
    met = verdicts(tables(rows(added=125.0), bare=5.0))
    assert len(met) == len(BARS)
    assert met["call, added p50, of one upstream's"] == "met"
    assert met["private memory over a bare interpreter's"] == "met"
    for beside_peers in ("call, added p50, of mcp-hub's", "start beyond the slowest, of fastmcp's"):
        assert met[beside_peers] == "not measured"
    missed = verdicts(tables(rows(added=126.0), bare=2.0))
    assert missed["call, added p50, of one upstream's"] == "missed"
    assert missed["private memory over a bare interpreter's"] == "missed"
    hub = {"5 x 20, SSE": rows(10.0)["5 x 20"], "mcp-hub 5 x 20, SSE": rows(50.0)["5 x 20"]}
    beside = verdicts(tables({**rows(100.0), **hub}, bare=5.0))
    assert beside["call, added p50, of mcp-hub's"] == "met"
    assert beside["call, processor time, of mcp-hub's"] == "missed"
    assert beside["private memory, of the smallest peer's"] == "missed"
    # Nobody took longer than five alone.
    assert beside["start beyond the slowest, of mcp-hub's"] == "not measured"
    hub["mcp-hub 5 x 20, SSE"] = hub["mcp-hub 5 x 20, SSE"]._replace(start=300.0)
    for start, verdict in ((200.0, "met"), (201.0, "missed")):
        hub["5 x 20, SSE"] = hub["5 x 20, SSE"]._replace(start=start)
        beside = verdicts(tables({**rows(100.0), **hub}, bare=5.0))
        assert beside["start beyond the slowest, of mcp-hub's"] == verdict


def test_the_section_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    whole = PAGE.read_text()
    before, _, rest = whole.partition(SECTION + "\n")
    after = BEFORE + (rest or whole).partition(BEFORE)[2]
    if not rest:
        before = whole.partition(BEFORE)[0]
    page = tmp_path / "several.md"
    page.write_text(whole)
    for text in ("first", "second"):
        write(page, text)
        assert page.read_text() == f"{before}{SECTION}\n\n{text}\n\n{after}"
