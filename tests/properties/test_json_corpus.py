"""The JSONTestSuite corpus through the gate, and the table of verdicts in the docs."""

from __future__ import annotations

import functools

import pytest

from json_corpus import DOCUMENT, Verdict, judge, maybe_missing, read_corpus, report

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(maybe_missing() is not None, reason=maybe_missing() or ""),
]


@functools.cache
def verdicts() -> list[Verdict]:
    return [judge(case) for case in read_corpus()]


def those(kinds: str) -> list[Verdict]:
    found = [verdict for verdict in verdicts() if verdict.case.kind in kinds]
    assert found
    return found


def test_the_corpus_is_whole() -> None:
    assert (len(those("yni")), len(those("t"))) == (318, 22)
    assert (len(those("y")), len(those("n")), len(those("i"))) == (95, 188, 35)


def test_what_every_parser_takes_passes_untouched_in_an_allowed_call() -> None:
    assert {verdict.allowed for verdict in those("yt")} == {"passed"}


def test_what_no_parser_takes_is_refused() -> None:
    for verdict in those("n"):
        assert verdict.allowed.startswith("-32"), verdict


def test_nothing_passes_in_a_denied_call_or_alone() -> None:
    for verdict in verdicts():
        assert verdict.denied.startswith("-32"), verdict
        assert verdict.alone.startswith("-32"), verdict


def test_what_passes_is_the_same_call_for_whoever_can_read_it() -> None:
    for verdict in verdicts():
        assert " calls " not in verdict.readers, verdict
        if verdict.case.kind == "y":
            # Whoever ends a line at U+2028 breaks this message, but finds no other in it.
            assert set(verdict.readers.split("; ")) <= {"", "str.splitlines"}, verdict


def test_the_table_in_the_docs_is_true() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == report(verdicts()), "run make json-verdicts"
