"""What a file may not do to its reader, and what its words mean."""

from __future__ import annotations

import importlib.util

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.config.formats import yaml_reader
from penstock.config.formats.document import Slip, Unreadable
from penstock.config.formats.reading import read_document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("~", None),
        ("", None),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e3", 1000.0),
        ("1.", 1.0),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("=", "="),
        ("60s", "60s"),
    ],
)
def test_yaml_words_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    document = read_document("x.yaml", f"a: {text}\n".encode())
    assert document.slips == []
    found = document.tree["a"]  # type: ignore[index]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "line", "words"),
    [
        ("x.yaml", "a: 1\nb: 2\na: 3\n", 3, '"a" is here twice; the first is on line 1'),
        ("x.yaml", "b:\n  c: 1\n  'c': 3\n", 3, '"c" is here twice; the first is on line 2'),
        (
            "x.yaml",
            "a: !!python/object:os.system x\n",
            1,
            "the tag !!python/object:os.system is not supported",
        ),
        ("x.yaml", "a: !!binary aGk=\n", 1, "the tag !!binary is not supported"),
        ("x.yaml", "a: !mine {b: 1}\n", 1, "the tag !mine is not supported"),
        ("x.yaml", "a: !!set {b}\n", 1, "the tag !!set is not supported"),
        ("x.yaml", "a: !!int zwei\n", 1, '"zwei" is not what its tag !!int says'),
        ("x.yaml", "\na: 010\n", 2, "010 could be octal or decimal"),
        ("x.yaml", "a: .inf\n", 1, ".inf is no number that JSON has"),
        ("x.yaml", "1: a\n", 1, "a key must be a text (1); put it in quotes"),
        ("x.yaml", "? [a, b]\n: 1\n", 1, "a key must be a text"),
        ("x.yaml", "a: &a {b: 1}\nc:\n  <<: *a\n", 3, "merge keys (<<) are not supported"),
        ("x.yaml", "a: &a [1, *a]\n", 1, "an alias for something that it is part of"),
        ("x.json", '{"a": 1,\n "b": 2,\n "a": {"c": 3}}', 3, '"a" is here twice; the first is on line 1'),
        ("x.json", '{"a": 1,\n "\\u0061": 2}', 2, '"a" is here twice'),
        ("x.toml", "\na = 2024-01-01\n", 2, "dates and times are not supported"),
        ("x.toml", "a = nan\n", 1, "nan is no number that JSON has"),
    ],
)
def test_a_slip_is_found_on_its_line(name: str, text: str, line: int, words: str) -> None:
    slips = read_document(name, text.encode()).slips
    assert [slip.line for slip in slips] == [line]
    assert words in slips[0].message


def test_all_slips_are_found_at_once() -> None:
    slips = read_document("x.yaml", b"a: 1\na: 2\nb: !!omap []\n3: x\n").slips
    assert [slip.line for slip in slips] == [2, 3, 4]


@pytest.mark.parametrize(
    ("name", "data", "line", "words"),
    [
        ("x.yaml", b"a: [1,\nb: }", 2, "not YAML"),
        ("x.yaml", b"a: 1\n\tb: 2\n", 2, "a tab"),
        ("x.yaml", b"a: *nobody\n", 1, "not YAML: found undefined alias"),
        ("x.yaml", b"a: 1\n---\nb: 2\n", 2, "expected a single document"),
        ("x.yaml", b"a: 1\nb: \xff\n", 2, "not UTF-8"),
        ("x.yaml", b"a: 1\nb: \x00\n", 2, "a control character (\\x00)"),
        ("x.yaml", b"a: " + b"[" * 70 + b"]" * 70, 1, "nested more than 64 levels deep"),
        ("x.yaml", b"a: " + b"[" * 100_000, 1, "nested more than 64 levels deep"),
        ("x.yaml", b"- " * 100_000, 1, "nested more than 64 levels deep"),
        ("x.json", b"[" * 100_000, 1, "nested more than 64 levels deep"),
        ("x.toml", b"a = 1\nb = " + b"[" * 100_000, 2, "nested more than 64 levels deep"),
        ("x.toml", b"a = 1\nb = " + b"{c=" * 100_000, 2, "nested more than 64 levels deep"),
        ("x.toml", b"a = " + b"1" * 5_000, 1, "not TOML: a number with too many digits"),
        ("x", b"a = " + b"1" * 5_000, 1, "not TOML: a number with too many digits"),
        ("x", b"a: " + b"[" * 100_000, 1, "nested more than 64 levels deep"),
        ("x.toml", b"a = " + b"[" * 70 + b"]" * 70, 1, "nested more than 64 levels deep"),
        ("x.toml", b"a = 1\na = 2\n", 2, "not TOML: cannot overwrite a value"),
        ("x.toml", b"a = ", 1, "not TOML: invalid value"),
        ("x.json", b'{"a": 1,\n}', 2, "not JSON: a comma before }"),
        ("x.json", b'{"a": 01}', 1, "not JSON: a value was expected, not 0"),
        ("x.json", b'{"a":\n NaN}', 2, "not JSON: a value was expected, not N"),
        ("x.json", b'{"a": 1e999}', 1, "too large a number"),
        ("x.json", b'{"a": "\\ud800"}', 1, "half a surrogate pair"),
        ("x.json", b'{"a": "b\n"}', 1, "invalid control character"),
        ("x.json", b"{a: 1}", 1, "a key in double quotes was expected"),
        ("x.json", b'{"a" 1}', 1, 'a colon was expected after "a"'),
        ("x.json", b'{"a": 1 "b": 2}', 1, "a comma or } was expected"),
        ("x.json", b'{"a": ', 1, "it ends too early"),
        ("x.json", b"{}\n{}", 2, "something follows after the end"),
        ("x.json", b'{"a": trueish}', 1, "a comma or } was expected"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(name: str, data: bytes, line: int, words: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_document(name, data)
    assert caught.value.line == line
    assert words in caught.value.reason


@pytest.mark.parametrize("name", ["x.yaml", "x.json", "x.toml"])
def test_a_file_may_nest_up_to_the_limit_and_what_stands_in_texts_does_not_count(name: str) -> None:
    inside = b'"%b"' % (b"[" * 100)
    for depth in (63, 64):  # the table around it is the first level
        value = b"[" * depth + inside + b"]" * depth
        data = b"# %b\na = %b" % (b"[" * 100, value) if name == "x.toml" else b'{"a": %b}' % value
        if depth < 64:
            assert read_document(name, data).slips == []
        else:
            with pytest.raises(Unreadable, match="nested more than 64 levels deep"):
                read_document(name, data)


def test_a_whole_number_may_be_longer_than_any_float() -> None:
    for name in ("x.json", "x.yaml"):
        assert read_document(name, b'{"a": 1%b}' % (b"0" * 400)).tree == {"a": 10**400}


def test_a_few_lines_cannot_ask_for_billions_of_values() -> None:
    laughs = 'a0: &a0 ["ha","ha","ha","ha","ha","ha","ha","ha","ha"]\n'
    for level in range(1, 12):
        laughs += f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 9)}]\n"
    with pytest.raises(Unreadable) as caught:
        read_document("x.yaml", laughs.encode())
    assert "more than 100,000 values" in caught.value.reason


def test_an_alias_may_repeat_what_was_named() -> None:
    document = read_document("x.yaml", b"a: &x\n  b: 1\nc: *x\n")
    assert document.tree == {"a": {"b": 1}, "c": {"b": 1}}
    assert document.line_of(("c",)) == 3
    assert document.line_of(("c", "b")) == 2


def test_a_file_that_is_too_large_is_not_read() -> None:
    with pytest.raises(Unreadable) as caught:
        read_document("x.yaml", b"#" * (limits.CONFIG_BYTES + 1))
    assert "too large" in caught.value.reason


@given(st.sampled_from(["x.yaml", "x.json", "x.toml", "x"]), st.binary(max_size=200))
def test_no_bytes_surprise_a_reader(name: str, data: bytes) -> None:
    try:
        slips = read_document(name, data).slips
    except Unreadable as why:
        slips = [Slip(why.line, why.reason)]
    assert all(slip.line >= 1 and slip.message for slip in slips)


@given(
    st.sampled_from(["x.yaml", "x.json", "x.toml", "x"]),
    st.text("ab:=-[]{}&*!'\"\\#,.<|>?\n\t 01~%@`eE+", max_size=60),
)
def test_no_text_surprises_a_reader(name: str, text: str) -> None:
    test_no_bytes_surprise_a_reader.hypothesis.inner_test(name, text.encode())  # type: ignore[attr-defined]


def test_without_libyaml_everything_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: [1, 0x1F, no, true, ~, 1e3, '1']\nb:\n- c: {d: e}\n  f: &x [1]\n- *x\n"
    expected = yaml_reader.read_yaml(text)
    spec = importlib.util.spec_from_file_location("slow_reader", yaml_reader.__file__)
    assert spec is not None
    assert spec.loader is not None
    slow = importlib.util.module_from_spec(spec)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    spec.loader.exec_module(slow)
    assert issubclass(slow._CoreLoader, yaml.SafeLoader)
    assert slow.read_yaml(text) == expected
    for bad in ("a: " + "[" * 20_000, "a: 1\nb: [", "a: 1\n---\nb: 2", "a: *b"):
        with pytest.raises(Unreadable):
            slow.read_yaml(bad)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.toml", "a" + ".a" * 300_000 + " = 1", "levels deep"),
        ("x.toml", "[a" + ' . "a"' * 100_000 + "]\n", "levels deep"),
        ("x.toml", "a = " + "{a=" * 5_000 + "1" + "}" * 5_000, "levels deep"),
        ("x.toml", "a = " + "9" * 900_000, "too many digits"),
        ("x.yaml", "- " * 300_000, "levels deep"),
        ("x.yaml", "? " * 300_000, "levels deep"),
        ("x.yaml", "".join(" " * depth + "a:\n" for depth in range(1_300)), "levels deep"),
        ("x.yaml", "a: !<tag:yaml.org,2002:python/object/apply:os.system> [id]\n", "is not supported"),
        ("x.yaml", "%TAG ! tag:yaml.org,2002:python/\n---\na: !name:os.system\n", "is not supported"),
        ("x.yaml", "a: &a {x: 1}\nb: {<<: [*a, *a]}\n", "merge keys"),
        ("x.json", "[" * 500_000, "levels deep"),
        ("x.json", "[" + "9" * 900_000 + "]", "too many digits"),
    ],
    ids=range(12),
)
def test_a_bomb_is_refused_before_it_is_unpacked(name: str, data: str, words: str) -> None:
    """A file is read again while calls are held, and nobody else is served in that time."""
    try:
        said = [slip.message for slip in read_document(name, data.encode()).slips]
    except Unreadable as why:
        said = [why.reason]
    assert any(words in one for one in said), said
