"""The filter language agrees with a naive reading of it, fails only as it says, and stays quick."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import CALL, record

from penstock.observe.filter_words import FIELDS, FilterFault, compile_filter
from penstock.observe.reader import maybe_line
from penstock.observe.recording import encode_record
from penstock.observe.rows import MessageRow, Rows

words = st.sampled_from(["echo", "read_file", "read_*", "r?ad_file", "tools/*", "client", "x"])
fields = st.sampled_from(["tool", "method", "from", "session", "id"])


def row(raw: bytes = CALL, **more: object) -> MessageRow:
    line = maybe_line(b"".join(encode_record(record(raw, index=1, **more))))
    assert line is not None
    return Rows().row(line)


def naive(expression: object, found: MessageRow) -> bool:
    """What an expression means, read as slowly as it can be."""
    match expression:
        case ("or", *parts):
            return any(naive(part, found) for part in parts)
        case ("and", *parts):
            return all(naive(part, found) for part in parts)
        case ("not", part):
            return not naive(part, found)
        case ("word", str(needle)):
            return needle.lower() in found.line.raw.decode("utf-8", "replace").lower()
        case ("match", field, pattern):
            return any(re.search(pattern, word) for word in found.words(field))
        case ("number", field, operator, limit):
            number = found.number(field)
            return number is not None and eval(f"{number} {operator} {limit}")
        case ("arg", path, values):
            arguments = json.loads(found.line.raw)["params"]["arguments"]
            return path in arguments and any(fnmatch.fnmatchcase(arguments[path], value) for value in values)
        case (field, values):
            return any(fnmatch.fnmatchcase(word, value) for word in found.words(field) for value in values)
    raise AssertionError(expression)


def written(expression: object) -> str:
    match expression:
        case ("or", *parts):
            return "(" + " or ".join(map(written, parts)) + ")"
        case ("and", *parts):
            return "(" + " ".join(map(written, parts)) + ")"
        case ("not", part):
            return f"not {written(part)}"
        case ("word", str(needle)):
            return f'"{needle}"'
        case ("match", field, pattern):
            return f"{field}~{pattern}"
        case ("number", field, operator, limit):
            return f"{field}{'=' if operator == '==' else operator}{limit}"
        case ("arg", path, values):
            return f"arg.{path}:{','.join(values)}"
        case (field, values):
            return f"{field}:{','.join(values)}"
    raise AssertionError(expression)


# `from` takes only words that there are, so it is asked for those.
terms = st.tuples(
    fields.filter(lambda name: name != "from"), st.lists(words, min_size=1, max_size=3)
) | st.just(("from", ["client"]))
operators = st.sampled_from([">", "<", ">=", "<=", "=="])
terms |= st.tuples(
    st.just("word"),
    st.sampled_from(["read", "READ_FILE", '{"path', "not there", "(", "or"]).map(
        lambda text: text.replace('"', "")
    ),
)
terms |= st.tuples(
    st.just("match"),
    st.sampled_from(["tool", "method"]),
    st.sampled_from(["^r", "o$", "a|c", "(ec|re)", "[xy]"]),
)
terms |= st.tuples(
    st.just("number"), st.sampled_from(["size", "ms", "tokens"]), operators, st.integers(0, 200)
)
terms |= st.tuples(
    st.just("arg"),
    st.sampled_from(["path", "none"]),
    st.lists(st.sampled_from(["/a", "/*", "?a", "x"]), min_size=1, max_size=2),
)
expressions = st.recursive(
    terms,
    lambda inner: st.one_of(
        st.tuples(st.just("or"), inner, inner),
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("not"), inner),
    ),
    max_leaves=8,
)


@given(expressions)
def test_it_agrees_with_a_naive_reading(expression: object) -> None:
    for found in (row(), row(sender="upstream"), row(CALL.replace(b"read_file", b"echo"))):
        assert compile_filter(written(expression)).matches(found) == naive(expression, found), written(
            expression
        )


@given(st.text(alphabet='ab:~<>=-()"\\,.* 019msMk\u00e9', max_size=40) | st.text(max_size=30))
def test_any_text_is_a_filter_or_a_fault_with_a_column(text: str) -> None:
    column = 1
    try:
        compile_filter(text).matches(row())
    except FilterFault as fault:
        column = fault.column
    assert 1 <= column <= len(text) + 1


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("size>50 size<5k", True),
        ("size>1M", False),
        ("arg.path:/a", True),
        ("arg.path~^/b", False),
        ("text:READ", True),
        ("read_file tools/call", True),
        ('"read_file"', True),
        ("-tool:read_* or from:client", True),
        ("not not tool:read_file", True),
        ("since:2020-01-01 until:2100-01-01", True),
        ("until:2020-01-01", False),
        ("code:-32601", False),
        ("ms>1", False),
        ("tool~(echo|read)_", True),
        ('arg.path~"^/a$"', True),
    ],
)
def test_each_form_means_what_it_says(text: str, holds: bool) -> None:
    assert compile_filter(text).matches(row()) == holds


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("verdct:x", 1, 'did you mean "verdict"'),
        ("tool:a verdict:blok", 16, "verdict is one of"),
        ("(a or b", 1, "no )"),
        ("a b) c", 4, "no ("),
        ("ms>fast", 4, "a number"),
        ("tool~[", 6, "no pattern"),
        ('tool:"a', 6, "not closed"),
        ("since:yesterday", 7, "an age"),
        ("arg:x", 1, "needs a path"),
        ("a or", 5, "missing"),
        ("text>5", 6, "cannot be compared"),
    ],
)
def test_faults_point_at_the_column(text: str, column: int, hint: str) -> None:
    with pytest.raises(FilterFault) as caught:
        compile_filter(text)
    assert (caught.value.column, caught.value.exit_code) == (column, 2)
    assert hint in str(caught.value)


def test_every_field_can_be_asked_for() -> None:
    for field in FIELDS:
        value = {"since": "10m", "until": "10m", "from": "client", "kind": "request", "verdict": "pass"}.get(
            field
        )
        value = value or {"status": "ok", "ms": "1", "size": "1", "tokens": "1"}.get(field, "x")
        compile_filter(f"{field}:{value}").matches(row())


@given(st.text(max_size=8) | st.sampled_from(["\ud800", "a\udfffb", "\U0001f600"]), st.sampled_from("?*a"))
def test_whatever_a_message_says_can_be_asked_about(text: str, glob: str) -> None:
    found = row(CALL.replace(b'"/a"', json.dumps(text).encode()))
    for words_ in (
        f"arg.path:*{glob}*",
        f"arg.path~.{glob}",
        "tool:*",
        f"text~{glob.replace('?', '.').strip('*')}a",
    ):
        assert compile_filter(words_).matches(found) in (True, False)


def test_a_glob_that_is_too_long_is_a_fault() -> None:
    with pytest.raises(FilterFault, match="too long") as caught:
        compile_filter("ping or tool:" + "a?" * 200_000)
    assert caught.value.column == 14


LONG = 100_000


@pytest.mark.parametrize(
    "text",
    [
        "-" * LONG + "a",
        "not " * LONG + "a",
        "a " * LONG,
        "a or " * LONG + "a",
        "tool:" + "a," * LONG + "a",
        '"' + "a" * LONG,
        '"' + '\\"' * LONG + '"',
        "tool:" + "*" * LONG,
        "text~" + "(" * LONG,
        "(" * LONG,
        "arg." + "a." * LONG + "a:b",
        "a" * LONG + ":b",
        "since:" + "9" * LONG,
        "ms>" + "9" * LONG,
        " " * LONG + ")",
    ],
    ids=lambda text: str(text)[:8].strip(),
)
def test_time_grows_with_the_filter_and_no_faster(text: str) -> None:
    """No clock decides: what began anew at each part of so long a text would not come back."""
    with contextlib.suppress(FilterFault):
        compile_filter(text).matches(row())


def test_hostile_globs_and_patterns_take_no_time() -> None:
    found = row(CALL.replace(b"read_file", b"a" * 50_000))
    began = time.perf_counter()
    compile_filter("tool:" + "a*" * 40 + "b").matches(found)
    compile_filter("text~(a+)+$b").matches(found)
    assert time.perf_counter() - began < 20  # a backtracking engine would not come back at all
