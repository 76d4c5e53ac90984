"""Which tools a user keeps."""

from __future__ import annotations

import re
import unicodedata

import pytest

from penstock.policy.tools.tool_filter import NOT_ALLOWED, NOT_READ_ONLY, Denial, ToolFilter


class Found:
    """A pattern as the filter sees one."""

    def __init__(self, source: str) -> None:
        self.source = source

    def found_in(self, text: str) -> bool:
        return re.search(self.source, text) is not None


def _filter(deny: str = "", allow: str = "", read_only: bool = False) -> ToolFilter:
    return ToolFilter(tuple(map(Found, deny.split())), tuple(map(Found, allow.split())), read_only)


def test_without_a_choice_nothing_is_hidden() -> None:
    assert not _filter().is_active
    assert _filter().maybe_denial("anything", False) is None


@pytest.mark.parametrize("choice", [_filter("x"), _filter(allow="x"), _filter(read_only=True)])
def test_any_choice_makes_the_filter_active(choice: ToolFilter) -> None:
    assert choice.is_active


def test_a_denial_says_which_option_hid_the_tool() -> None:
    assert str(_filter("wri").maybe_denial("write", False)) == "--deny wri"
    assert str(NOT_ALLOWED) == "no --allow pattern matches"
    assert str(NOT_READ_ONLY) == "--read-only"


def test_a_pattern_matches_anywhere_unless_it_is_anchored() -> None:
    assert _filter("file").maybe_denial("read_file_now", True) == Denial("--deny", "file")
    assert _filter("^file$").maybe_denial("read_file_now", True) is None


def test_the_first_pattern_that_denies_is_named() -> None:
    assert str(_filter("x file read").maybe_denial("read_file", True)) == "--deny file"


def test_deny_wins_over_allow() -> None:
    assert _filter("write", "file").maybe_denial("write_file", True) == Denial("--deny", "write")


def test_with_allow_only_what_matches_is_kept() -> None:
    assert _filter(allow="read echo").maybe_denial("echo", False) is None
    assert _filter(allow="read echo").maybe_denial("write", False) == NOT_ALLOWED


def test_read_only_keeps_what_says_it_is() -> None:
    assert _filter(read_only=True).maybe_denial("a", True) is None
    assert _filter(read_only=True).maybe_denial("a", False) == NOT_READ_ONLY


@pytest.mark.parametrize("pattern_form", ["NFC", "NFD"])
@pytest.mark.parametrize("name_form", ["NFC", "NFD"])
def test_two_ways_to_write_an_accent_are_one(pattern_form: str, name_form: str) -> None:
    pattern, name = (unicodedata.normalize(form, "supprimé") for form in (pattern_form, name_form))
    assert _filter(f"^{pattern}$").maybe_denial(name, True) is not None


def test_allow_is_not_fooled_by_a_spelling_that_only_half_matches() -> None:
    decomposed = unicodedata.normalize("NFD", "é")
    assert _filter(allow="^e").maybe_denial(decomposed, True) == NOT_ALLOWED


def test_patterns_that_match_nothing_are_named() -> None:
    assert _filter("a zzz", "b yyy").unmatched(["a", "b"]) == ["--deny zzz", "--allow yyy"]
