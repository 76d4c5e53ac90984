"""What a rule found out about a value is true for whoever reads the message next.

A rule that blocks on a value: of what it lets pass, no parser reads that value. One that allows on a value,
or blocks everything else: of what passes, every parser reads it. One that sets or removes it: the same of
what goes on. The arguments are written in the ways in which parsers differ: names twice, in another case, in
escapes, inherited, cut at a NUL; numbers that are another in 64 bits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from scenes import client, interceptor, rule, send

from node_reader import maybe_node, node_reader
from penstock.policy.rules.outcome import Pass
from readers import READERS, Reader

FIELD = "arguments.opts.mode"
WANTED = ["evil", 1, 0, 9007199254740992, "a.b", None, True]

_ABSENT = object()


def _spelt(*forms: bytes) -> st.SearchStrategy[bytes]:
    return st.sampled_from(forms)


OPTS = _spelt(
    b'"opts"', b'"OPTS"', b'"\\u006fpts"', b'"opt\xc5\xbf"', b'"opts\\u0000"', b'"__proto__"', b'"x"'
)
MODE = _spelt(
    b'"mode"', b'"Mode"', b'"mod\\u0065"', b'"mode\\u0000x"', b'"__proto__"', b'"constructor"', b'"\xc3\xa4"'
)
VALUES = _spelt(
    b'"evil"',
    b'"\\u0065vil"',
    b'"evil\\u0000"',
    b'"Evil"',
    b'"a.b"',
    b"1",
    b"1.0",
    b"10e-1",
    b"1.00000000000000000001",
    b"0.99999999999999999999",
    b'"1"',
    b"0",
    b"-0",
    b"1e-400",
    b"-1e400",
    b"9007199254740993",
    b"9007199254740992",
    b"true",
    b"null",
    b"[1]",
    b"{}",
)


def _objects(names: st.SearchStrategy[bytes], values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    members = st.lists(st.tuples(names, values), max_size=4)
    return members.map(lambda pairs: b"{" + b" , ".join(b"%b: %b" % pair for pair in pairs) + b"}")


INNER = _objects(MODE, VALUES | _objects(MODE, VALUES))
ARGUMENTS = _objects(OPTS, INNER | _objects(OPTS, INNER) | VALUES)


def _passed(raw: bytes, *rules: dict[str, object], **section: object) -> bytes | None:
    """What goes on of a call with these arguments, if it does."""
    message = client(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":%b}}' % raw
    )
    verdict = send(interceptor(*rules, **section), message).verdict
    event("passed" if isinstance(verdict, Pass) else "stopped")
    return verdict.raw if isinstance(verdict, Pass) else None


def _values(raw: bytes, readers: dict[str, Reader] = READERS) -> dict[str, Any]:
    """What each reader finds at the path."""
    out = {}
    for which, read in readers.items():
        for value in read(raw):  # one, or none where it refuses
            for step in ("params", *FIELD.split(".")):
                value = value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT
            out[which] = value
    return out


def _is(found: object, wanted: object, test: Callable[[Any, Any], bool] = operator.eq) -> bool:
    def is_number(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    if is_number(found) and is_number(wanted):
        return test(found, wanted)
    return type(found) is type(wanted) and found == wanted


def _equal(wanted: object) -> dict[str, object]:
    return {"param_equals": {"field": FIELD, "value": wanted}}


@given(arguments=ARGUMENTS, wanted=st.sampled_from(WANTED))
@example(b'{"opts":{"mode":"x"},"OPTS":{"mode":"evil"}}', "evil")
@example(b'{"opts":{"__proto__":{"mode":"evil"}}}', "evil")
@example(b'{"opts":{"mode":1e-400}}', 0)
def test_of_what_a_rule_lets_pass_nobody_reads_what_it_blocks(arguments: bytes, wanted: object) -> None:
    raw = _passed(arguments, rule({"block": "no"}, when=[_equal(wanted)]))
    if raw is not None:
        assert not {which for which, found in _values(raw).items() if _is(found, wanted)}, raw


@given(arguments=ARGUMENTS, bound=st.sampled_from([0, 1, 9007199254740992]))
def test_no_reader_sees_a_number_beyond_the_bound(arguments: bytes, bound: int) -> None:
    for condition, test in (("param_greater_than", operator.gt), ("param_less_than", operator.lt)):
        raw = _passed(arguments, rule({"block": "no"}, when=[{condition: {"field": FIELD, "value": bound}}]))
        if raw is not None:
            beyond = {which: found for which, found in _values(raw).items() if _is(found, bound, test)}
            assert not {which for which, found in beyond.items() if found != bound}, raw


ONLY: dict[str, Callable[[object], tuple[list[dict[str, object]], dict[str, object]]]] = {
    "allowed, and the rest blocked": lambda wanted: (
        [
            rule("allow", when=[_equal(wanted)], priority=1),
            rule({"block": "no"}, id="rest"),
        ],
        {},
    ),
    "blocked unless": lambda wanted: ([rule({"block": "no"}, when=[{"not": _equal(wanted)}])], {}),
    "the only thing that a rule speaks about": lambda wanted: (
        [rule({"log": "seen"}, when=[_equal(wanted)])],
        {"chain": {"default_action": "block"}},
    ),
}


@pytest.mark.parametrize("way", ONLY)
@given(arguments=ARGUMENTS, wanted=st.sampled_from(WANTED))
@example(b'{"opts":{"mode":"evil"},"opts":{}}', "evil")
@example(b'{"opts":{"mode":"evil"},"opts":{"mode":"x"}}', "evil")
@example(b'{"opts":{"MODE":"evil"}}', "evil")
@example(b'{"opts":{"mode":0.99999999999999999999}}', 1)
def test_of_what_only_one_value_lets_pass_everybody_reads_it(
    way: str, arguments: bytes, wanted: object
) -> None:
    rules, section = ONLY[way](wanted)
    raw = _passed(arguments, *rules, **section)
    if raw is not None:
        assert not {which for which, found in _values(raw).items() if not _is(found, wanted)}, raw


@given(arguments=ARGUMENTS)
def test_what_a_rule_sets_everybody_reads(arguments: bytes) -> None:
    raw = _passed(arguments, rule({"set_param": {"field": FIELD, "value": "set"}}))
    if raw is not None:
        assert set(_values(raw).values()) == {"set"}, raw


@given(arguments=ARGUMENTS)
def test_what_a_rule_removes_nobody_reads(arguments: bytes) -> None:
    raw = _passed(arguments, rule({"remove_param": FIELD}))
    assert raw is not None
    assert set(_values(raw).values()) == {_ABSENT}, raw


def _texts(value: object) -> set[str]:
    """Every text in a value, names of members included."""
    if isinstance(value, dict):
        return {str(name) for name in value}.union(*map(_texts, value.values()))
    if isinstance(value, list):
        return set().union(*map(_texts, value))
    return {value} if isinstance(value, str) else set()


def _texts_read(raw: bytes) -> dict[str, set[str]]:
    return {
        which: _texts(value["params"])
        for which, read in READERS.items()
        for value in read(raw)
        if isinstance(value, dict)
    }


@given(arguments=ARGUMENTS)
@example(b'{"opts":{"x":{"x":"a"},"X":{"y":"evil"}}}')
@example(b'{"evil":1}')
def test_of_what_passes_nobody_reads_a_text_that_is_blocked_wherever_it_stands(arguments: bytes) -> None:
    raw = _passed(arguments, rule({"block": "no"}, when=[{"text_matches": "^evil$"}]))
    if raw is not None:
        assert not {which for which, texts in _texts_read(raw).items() if "evil" in texts}, raw


@given(arguments=ARGUMENTS)
@example(b'{"opts":{"mode":"evil"},"opts":{}}')
@example(b'{"opts":"evil","OPTS":1}')
def test_a_text_that_allows_is_read_by_everybody(arguments: bytes) -> None:
    rules = [rule("allow", when=[{"text_matches": "^evil$"}], priority=1), rule({"block": "no"}, id="rest")]
    raw = _passed(arguments, *rules)
    if raw is not None:
        assert not {which for which, texts in _texts_read(raw).items() if "evil" not in texts}, raw


@given(arguments=ARGUMENTS)
def test_what_a_rule_replaces_nobody_reads(arguments: bytes) -> None:
    raw = _passed(arguments, rule({"replace": {"field": FIELD, "pattern": "(?i)evil", "with": "good"}}))
    assert raw is not None
    found = {which: value for which, value in _values(raw).items() if isinstance(value, str)}
    assert not {which for which, value in found.items() if "evil" in value.lower()}, raw


@given(arguments=ARGUMENTS)
def test_an_object_that_is_allowed_is_that_object_to_everybody(arguments: bytes) -> None:
    condition = {"param_equals": {"field": "arguments.opts", "value": {"mode": "evil"}}}
    raw = _passed(arguments, rule("allow", when=[condition], priority=1), rule({"block": "no"}, id="rest"))
    if raw is not None:
        assert not {which for which, found in _values(raw).items() if found != "evil"}, raw


@pytest.mark.node
@pytest.mark.skipif(maybe_node() is None, reason="there is no Node here")
@given(arguments=ARGUMENTS, wanted=st.sampled_from([value for value in WANTED if value is not None]))
def test_node_reads_what_the_rules_read(arguments: bytes, wanted: object) -> None:
    node = {"node": node_reader()}  # it tells us null where it has read an infinite number
    raw = _passed(arguments, rule({"block": "no"}, when=[_equal(wanted)]))
    if raw is not None:
        assert not _is(_values(raw, node)["node"], wanted), raw
    raw = _passed(arguments, rule({"block": "no"}, when=[{"not": _equal(wanted)}]))
    if raw is not None:
        assert _is(_values(raw, node)["node"], wanted), raw
