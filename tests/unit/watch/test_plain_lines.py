"""Rows as lines of text."""

from __future__ import annotations

from penstock.watch.plain_lines import cell, cell_end


def test_names_that_begin_alike_are_told_apart_by_their_end() -> None:
    names = ["mcp-server-everything", "mcp-server-filesystem", "mcp-server-git"]
    shown = [cell_end(name, 12) for name in names]
    assert shown == ["…-everything", "…-filesystem", "…-server-git"]
    assert len({cell(name, 12) for name in names}) == 1
    assert cell_end("files", 12) == "files       "


def test_nothing_in_a_name_moves_the_cursor() -> None:
    assert "\x1b" not in cell_end("\x1b[2J" * 9, 12)
