"""What rules find in a message they find once, within one budget, and others have their turn meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import Pass, client, context, finish, interceptor, rule, send

from penstock import limits
from penstock.policy.patterns.pattern_sets import LAST, PatternSet
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.rules.chain import FAILED, TOO_LATE
from penstock.policy.rules.found import Found
from penstock.policy.rules.paths import Path, parse_path
from penstock.policy.verdict import FORWARD, Answer, Drop, Forward, Verdict
from penstock.wire.json.json_walk import maybe_flat_values
from penstock.wire.mcp.message import Message


def _call(arguments: object) -> Message:
    text = json.dumps(arguments, separators=(",", ":")) if not isinstance(arguments, str) else arguments
    return client(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":%b}}' % text.encode()
    )


def _looking(*fields: str, pattern: str = "secret[0-9]") -> list[dict[str, object]]:
    return [
        rule({"block": "no"}, id=f"r{number}", when=[{"param_matches": {"field": field, "pattern": pattern}}])
        for number, field in enumerate(fields)
    ]


def test_a_path_is_walked_once_however_many_rules_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[str] = []
    walk = Path.tokens_below

    def noted(self: Path, *more: Any) -> list[bytes]:
        walked.append(self.source)
        return walk(self, *more)

    monkeypatch.setattr(Path, "tokens_below", noted)
    paths = ["arguments.*", "arguments.x"]
    patterns = [f"secret{number}" for number in range(20)]
    rules = [
        rule(
            {"block": "no"},
            id=f"{path}{pattern}",
            when=[{"param_matches": {"field": path, "pattern": pattern}}],
        )
        for path in paths
        for pattern in patterns
    ]
    assert isinstance(send(interceptor(*rules), _call({"x": "fine", "y": 1})).verdict, Pass)
    assert walked == paths
    assert send(interceptor(*rules), _call({"x": "a secret7"})).blocked_by == "arguments.*secret7"


def test_all_rules_together_have_one_budget() -> None:
    many = {"a": ["x"] * 30_000, "b": ["x"] * 30_000}
    for field in ("arguments.a.*", "arguments.b.*"):
        assert isinstance(send(interceptor(*_looking(field)), _call(many)).verdict, Pass)
    both = send(interceptor(*_looking("arguments.a.*", "arguments.b.*")), _call(many))
    assert both.reason == FAILED


def test_others_have_their_turn_between_two_conditions_and_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RULES_TURN_SECONDS", 0.0)
    box = interceptor(*_looking("arguments.a", "arguments.b", "arguments.c"))
    small, large = _call({"a": "x"}), _call({"a": "x" * limits.LONG_MESSAGE})
    assert box.on_client(small, context(of=small)) is FORWARD
    work = box.on_client(large, context(of=large))
    assert not isinstance(work, Forward | Answer | Drop)
    count = 0

    def counted() -> Verdict:
        nonlocal count
        turns = work.__await__()
        try:
            while next(turns) is None:  # a bare yield: whoever runs this runs everybody else first
                count += 1
        except StopIteration as done:
            found: Verdict = done.value
            return found
        raise AssertionError("something really waited")

    assert counted() is FORWARD
    assert count == 6  # before each condition, and between finding its texts and searching them


def test_a_message_that_takes_longer_than_the_chain_may_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RULES_TURN_SECONDS", 0.0)
    fields = [f"arguments.{number}" for number in range(200)]
    box = interceptor(*_looking(*fields), chain={"timeout": "1ms"})
    message = _call({"a": "x" * 4_000_000})
    assert finish(box.on_client(message, context(of=message))).reason == TOO_LATE


def test_what_a_rule_changed_is_looked_at_anew() -> None:
    box = interceptor(
        rule({"set_param": {"field": "name", "value": "rm"}}, id="a", priority=2),
        rule(
            {"block": "no rm"}, id="b", priority=1, when=[{"param_equals": {"field": "name", "value": "rm"}}]
        ),
        rule({"block": "no t"}, id="c", when=[{"param_in": {"field": "name", "values": ["t", "u"]}}]),
    )
    assert send(box, _call({})).blocked_by == "b"


NAMES = st.sampled_from(["a", "b", "A", "\u00e4", 'q"', "__proto__"])
SCALARS = st.text('ab :{["\\\u00e4', max_size=6) | st.integers() | st.booleans() | st.none()


@given(
    st.lists(st.tuples(NAMES, SCALARS), max_size=5), st.sampled_from([(",", ":"), (", ", ": "), (" ,", ":")])
)
def test_a_large_flat_object_is_read_as_it_is_walked(
    pairs: list[tuple[str, Any]], signs: tuple[str, str]
) -> None:
    comma, colon = signs
    padding = [(f"k{number}", "x" * 50) for number in range(100)]
    members = comma.join(json.dumps(name) + colon + json.dumps(value) for name, value in [*padding, *pairs])
    text = ("{" + members + "}").encode()
    flat = maybe_flat_values(text, 0, len(text))
    if flat is not None:
        walked = [text[span.start : span.end] for span in parse_path("*").find(text, 0, len(text))]
        assert flat == walked
    found = parse_path("*").tokens(text, 0, len(text))
    assert all(json.dumps(value).encode() in found for _, value in pairs)


def test_a_name_that_stands_twice_is_not_read_as_if_it_were_spaced() -> None:
    members = ",".join(f'"k{number}":"{"x" * 50}"' for number in range(100))
    # The second value is as long as the blanks that another way of writing would have.
    for filler in range(150, 260):
        text = (f'{{"k0":"secret{"y" * filler}",' + members + "}").encode()
        found = parse_path("*").tokens(text, 0, len(text))
        assert any(b"secret" in token for token in found)


PATTERNS = st.sampled_from(
    [
        r"^a",
        r"b$",
        r"^ab$",
        r"a.b",
        r"a.*b",
        r"\Aa",
        r"b\z",
        r"^$",
        r"a\sb",
        r"[^x]b",
        r"(?i)AB",
        r"\bb",
        "\u00e4",
        ":",
        '"',
        r"\\",
    ]
)
TEXTS = st.text('ab\n\r\0:"\\\u00e4/% .', max_size=8)


@given(
    st.lists(TEXTS, min_size=1, max_size=5),
    st.lists(PATTERNS, min_size=4, max_size=8, unique=True),
    st.booleans(),
)
def test_patterns_asked_together_are_found_where_each_alone_is(
    texts: list[str], sources: list[str], is_uri: bool
) -> None:
    patterns = [compile_pattern(source, "test") for source in sources]
    tokens = [json.dumps(text).encode() for text in texts]
    together = Found(tokens, is_uri, PatternSet(patterns))
    alone = Found(tokens, is_uri)
    for pattern in patterns:
        assert together.matches(pattern) is alone.matches(pattern), pattern.source


def test_a_search_that_fails_finds_everything() -> None:
    patterns = PatternSet([compile_pattern("a", "test"), compile_pattern("b", "test")])
    assert patterns.maybe_in([b"xay", LAST], False) == {"a"}
    assert patterns.maybe_in([b"xay"], False) >= {"a"}
    assert patterns.maybe_in([b"nothing"], False) == {"a", "b"}  # not even the mark at its end


@pytest.mark.parametrize(("count", "blocked"), [(20, False), (20, True)])
def test_twenty_patterns_on_the_largest_message_are_one_search(
    count: int, blocked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    search = PatternSet.maybe_in

    def noted(self: PatternSet, texts: list[bytes], has_breaks: bool) -> frozenset[str]:
        searched.append(sum(map(len, texts)))
        return search(self, texts, has_breaks)

    monkeypatch.setattr(PatternSet, "maybe_in", noted)
    rules = [
        rule(
            {"block": "no"},
            id=f"r{n}",
            when=[{"param_matches": {"field": "arguments.*", "pattern": f"key{n}[a-f]"}}],
        )
        for n in range(count)
    ]
    message = _call({f"k{n}": "x" * 150 for n in range(49_000)} | ({"last": "key19a"} if blocked else {}))
    outcome = finish(interceptor(*rules).on_client(message, context(of=message)))
    assert outcome.blocked_by == ("r19" if blocked else None)
    assert len(searched) == 1
