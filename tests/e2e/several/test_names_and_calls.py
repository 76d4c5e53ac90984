"""Several upstreams as one: names, lists, calls, and what a client may not reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from several import Several, names, over_http, over_sse, says


def two(work: Path, **rest: object) -> Several:
    return Several(work, **rest).add("one", tools=["echo", "first"]).add("two", tools=["echo", "second"])


def test_02_a_second_server_renames_nothing(tmp_path: Path) -> None:
    for number, members in enumerate((["one"], ["one", "two"], ["two"])):
        work = tmp_path / str(number)
        work.mkdir()
        several = Several(work)
        for name in members:
            several.add(name, tools=["echo", name])
        with several.stdio() as client:
            found = names(client)
        assert (
            found
            == {
                1: {"one": ["echo", "one"], "two": ["echo", "two"]}[members[0]],
                2: ["echo", "one", "two__echo", "two"],
            }[len(members)]
        )


@pytest.mark.parametrize("door", ["stdio", "http", "sse"])
def test_01_every_tool_is_there_in_the_order_of_the_file_and_can_be_called(tmp_path: Path, door: str) -> None:
    several = two(tmp_path)

    def check(client: object) -> None:
        assert names(client) == ["echo", "first", "two__echo", "second"]  # type: ignore[arg-type]
        for name, said in {
            "echo": "one:echo",
            "first": "one:first",
            "two__echo": "two:echo",
            "second": "two:second",
        }.items():
            assert says(client.call(name)) == said  # type: ignore[attr-defined]

    if door == "stdio":
        with several.stdio() as client:
            check(client)
        return
    with several.listening() as port, (over_http if door == "http" else over_sse)(port) as client:
        check(client)
