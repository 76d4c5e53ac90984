"""Patterns: splitting a list of them, refusing the bad ones in plain words, matching."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from itertools import product

import msgspec
import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import PatternError, UnsafePattern
from penstock.policy.patterns.patterns import Pattern, compile_pattern, split_patterns

REGEX_SIGNS = "ab,()[]{}|*+?\\QEdwpxPi^$.-:<>=!P0123 é\n"
regex_like = st.text(st.sampled_from(REGEX_SIGNS), max_size=12)
any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)


def compiled(source: str) -> Pattern:
    return compile_pattern(source, "deny list")


def is_accepted(source: str) -> bool:
    try:
        compiled(source)
    except (PatternError, UnsafePattern):
        return False
    return True


def why_refused(source: str) -> str:
    with pytest.raises(PatternError) as caught:
        compiled(source)
    return caught.value.why


# Splitting


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("write_file", ["write_file"]),
        ("a,b", ["a", "b"]),
        (" a ,\tb\n", ["a", "b"]),
        ("a{1,3},b", ["a{1,3}", "b"]),
        ("^x{1,3}$", ["^x{1,3}$"]),
        ("(a,b),c", ["(a,b)", "c"]),
        ("((a,b),c),d", ["((a,b),c)", "d"]),
        ("[a,b],c", ["[a,b]", "c"]),
        (r"a\,b,c", [r"a\,b", "c"]),
        (r"a\\,b", [r"a\\", "b"]),
        (r"\(,b", [r"\(", "b"]),
        (r"\[,b", [r"\[", "b"]),
        (r"\{,b", [r"\{", "b"]),
        ("Xa, bX ,X", ["Xa", "bX", "X"]),
        ("(X,b),c", ["(X,b)", "c"]),
        ("a{X,3},b", ["a{X,3}", "b"]),
    ],
)
def test_a_list_is_split_at_commas_that_are_neither_bracketed_nor_escaped(text, pieces):
    assert split_patterns(text) == pieces


@pytest.mark.parametrize("text", ["[(,]", "[{,]", "[],]", "[^],]", r"[\],]", "[[:alpha:],]", "[[,]"])
def test_what_looks_like_a_bracket_in_a_character_class_is_only_a_character(text):
    assert split_patterns(f"{text},next") == [text, "next"]


@pytest.mark.parametrize("text", [r"\Q(\E", r"\Q[", r"\Qa\E", "\\Qa\\", r"(\Q)\E,)", r"(\Qa,b\E)"])
def test_quoted_brackets_hold_nothing_together(text):
    assert split_patterns(f"{text},next") == [text, "next"]


@pytest.mark.parametrize("text", ["", ",", "a,", ",a", "a,,b", " , "])
def test_an_empty_piece_is_kept_so_that_compiling_can_refuse_it(text):
    assert "" in split_patterns(text)
    assert len(split_patterns(text)) == text.count(",") + 1


def test_an_escaped_blank_is_no_blank_around_a_piece():
    assert split_patterns("a\\ , b") == ["a\\ ", "b"]
    assert split_patterns("a\\\\ , b") == ["a\\\\", "b"]


@pytest.mark.parametrize(
    "text", ["foo(,bar", "foo[,bar", "foo{,bar", "foo{1,bar", "foo),bar", "(a,b],c", "a{,b"]
)
def test_an_unbalanced_bracket_fails_aloud_and_hides_no_later_pattern(text):
    assert not all(is_accepted(piece) for piece in split_patterns(text))


@given(st.one_of(regex_like, any_text))
@example("\\Q(\\E")
@example("[[:a]")
@example("\\Qa\\")
@example("[[:é:]]")
def test_a_pattern_that_compiles_never_swallows_its_neighbour(text):
    for piece in split_patterns(text):
        if is_accepted(piece):
            assert split_patterns(f"{piece},next") == [piece, "next"]


@given(st.one_of(regex_like, any_text))
def test_splitting_and_joining_loses_nothing_but_blanks(text):
    def without_blanks(text):
        return "".join(sign for sign in text if sign not in " \t\r\n")

    assert without_blanks(",".join(split_patterns(text))) == without_blanks(text)


@given(st.lists(st.from_regex(r"[a-z_]{1,5}(\{1,3\}|\\,|\([a-z],[a-z]\)|[$.])?", fullmatch=True), min_size=1))
def test_joining_and_splitting_gives_the_same_patterns_back(patterns):
    assert split_patterns(",".join(patterns)) == patterns


# Matching


def test_a_pattern_is_found_anywhere_unless_anchored():
    assert compiled("delete").found_in("really_delete_file")
    assert not compiled("^delete").found_in("really_delete_file")
    assert not compiled("delete$").found_in("really_delete_file")


def test_a_pattern_keeps_its_source_and_cannot_be_changed():
    pattern = compiled("^a{1,3}$")
    assert pattern.source == "^a{1,3}$"
    with pytest.raises(AttributeError):
        pattern.source = "b"
    assert isinstance(pattern, msgspec.Struct)


def test_groups_are_matched_without_being_captured():
    assert compiled("^(?P<verb>read|write)_(file)$").found_in("write_file")


def test_half_a_surrogate_pair_does_not_help_a_name_past_a_pattern():
    assert compiled("^evil.*$").found_in("evil\ud800")
    assert compiled("^evil.{2}$").found_in("evil\udc00\ud800")
    assert not compiled(r"^evil\?$").found_in("evil\ud800")
    assert compiled("^😀$").found_in("\ud83d\ude00")


def test_nul_is_a_character_like_any_other():
    assert compiled("a\0b").found_in("xa\0bx")
    assert not compiled("a\0b").found_in("ab")


@pytest.mark.parametrize("length", [100_000, 200_000])
def test_long_texts_are_searched_to_the_end(length):
    assert not compiled("a.*a.*a.*b$").found_in("a" * length)
    assert compiled("a.*a.*a.*b$").found_in("a" * length + "b")


atoms = st.sampled_from(["a", "b", "_", ".", "[ab]", "[^a]", r"\d", r"\w", "(a|b_)", "(?:ab)"])
items = st.tuples(atoms, st.sampled_from(["", "", "", "*", "+", "?", "{1,2}", "+?"])).map("".join)
simple_patterns = st.lists(items, min_size=1, max_size=5).map("".join)


@given(st.lists(simple_patterns, min_size=1, max_size=3).map("|".join), st.text("ab_1", max_size=12))
def test_simple_patterns_find_what_python_finds(source, text):
    assert compiled(source).found_in(text) == bool(re.search(source, text))


# Refusing what is no pattern


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("", "empty pattern"),
        ("^[a-z", "missing closing ]"),
        ("[1", "missing closing ]"),
        ("(a", "missing closing )"),
        ("a)", "unexpected )"),
        ("*_file", "nothing to repeat before *"),
        ("a|+", "nothing to repeat before +"),
        ("{2}", "nothing to repeat before {2}"),
        ("file_**", "one repetition right after another: **"),
        ("a{2}{3}", "one repetition right after another: {2}{3}"),
        ("a{3,2}", "impossible count {3,2}"),
        ("[z-a]", "backward range z-a"),
        ("[[:foo:]]", "unknown character class [:foo:]"),
        (r"\pX", r"unknown character class \pX"),
        (r"\P{Foo}", r"unknown character class \P{Foo}"),
        ("a\\", "nothing after the last \\"),
        (r"\q", r"unknown escape \q"),
        (r"\X", r"unknown escape \X"),
        (r"\x{110000}", r"unknown escape \x{110000"),
        ("[:a", "missing closing ]"),
        (r"\é", r"unknown escape \é"),
        ("(?P<n", "bad group name in (?P<n"),
        ("(?z)a", "unknown group syntax (?z"),
        (r"(a)\1", r"backreferences such as \1 are not supported"),
        (r"(?P<n>a)\k<n>", r"backreferences such as \k are not supported"),
        ("(?P<n>a)(?P=n)", "backreferences such as (?P=name) are not supported"),
        ("(?P>n)", "unknown group syntax (?P"),
        ("(?z)(?P=n)", "unknown group syntax (?z"),
        ("a\ud800", "not valid Unicode text"),
        (r"\pL" * 500, "too large"),
        ("a" * (limits.PATTERN_LENGTH + 1), "longer than 32768 characters"),
        ("(" * 5000, "groups nested more than 50 deep"),
        ("(" * 5000 + ")" * 5000, "groups nested more than 50 deep"),
    ],
)
def test_a_refusal_says_why_in_plain_words(source, why):
    assert why_refused(source) == why


@pytest.mark.parametrize(
    "source", ["(?=a)", "^(?!read_)", "(?<=a)b", "(?<!a)b", "^((?!read).)*$", "(?!.*(a|ab)x)"]
)
def test_lookaround_is_refused_with_a_way_out(source):
    why = why_refused(source)
    assert why.startswith("lookaround such as (?")
    assert why.endswith(" is not supported; use --allow to keep only some tools")


@pytest.mark.parametrize(
    "source", ["a{,3}", "{read,write}_file", "a{", "a{1", "a{01}", "a{1,03}", "a{1,2", "{"]
)
def test_a_brace_that_is_no_count_is_refused_because_as_text_it_would_match_nothing(source):
    assert re2.compile(source)
    assert why_refused(source) == r"{ must begin a count such as {1,3}; write \{ for the character itself"


@pytest.mark.parametrize(
    "source", [r"\{", "[{]", r"\Q{\E", r"\p{Greek}", r"\x{41}", "a{2}", "a{2,}", "a{0}", "}"]
)
def test_other_braces_are_welcome(source):
    assert compiled(source)


def test_the_error_names_the_pattern_and_where_it_was_written():
    with pytest.raises(PatternError) as caught:
        compile_pattern("^[a-z", "deny list")
    assert str(caught.value) == (
        'Invalid regex pattern in deny list: "^[a-z"\n'
        "Pattern must be a valid regular expression: missing closing ]"
    )


def test_a_reason_repeats_only_so_much_of_a_pattern():
    assert len(why_refused(f"[[:{'x' * 1000}:]]")) < 100


def test_groups_may_nest_up_to_the_limit():
    depth = limits.PATTERN_NESTING
    assert compiled("(" * depth + "a" + ")" * depth)
    assert "nested" in why_refused("(" * (depth + 1) + "a" + ")" * (depth + 1))


def test_a_pattern_may_be_as_long_as_the_limit():
    assert compiled("a" * limits.PATTERN_LENGTH)


@given(st.one_of(regex_like, any_text))
@example("(" * 5000)
@example("a" + "(?i)*" * 6000)
@example("a{" + "9" * 5000 + "}")
@example("\\x{" + "f" * 9000 + "}")
@example("[\\")
@example("[a-\\")
@example("\\p")
def test_any_text_gives_a_pattern_or_one_of_two_errors(source):
    try:
        said = compiled(source).source
    except PatternError as error:
        said = error.pattern
        assert not re.match("b['\"]", error.why)  # noqa: PT017
    except UnsafePattern as error:
        said = error.pattern
    assert said == source


@given(regex_like.filter(bool), any_text)
def test_any_pattern_can_be_looked_for_in_any_text(source, text):
    if is_accepted(source):
        assert compiled(source).found_in(text) in (True, False)


def test_nothing_is_said_on_stderr_about_a_bad_pattern(capfd):
    for source in ("(", "[a", r"\pL" * 500):
        assert not is_accepted(source)
    assert capfd.readouterr() == ("", "")


def test_the_engine_is_loaded_only_for_patterns_or_texts_that_need_it():
    script = (
        "import sys; from penstock.policy.patterns.patterns import compile_pattern, split_patterns\n"
        "split_patterns('a,b'); assert 're2' not in sys.modules\n"
        "compile_pattern('^a_.*$', 'x').found_in('a_b'); assert 're2' not in sys.modules\n"
        "compile_pattern('a', 'x').found_in('b' * 300); assert 're2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


# Refusing what would backtrack badly


@pytest.mark.parametrize(
    "source",
    [
        "(a+)+",
        "^(a+)+$",
        "^(a|a)*$",
        "^(a|aa)+$",
        "(x+x+)+y",
        "^([a-z]+)*$",
        "(.*){1,32000}[bc]",
        "(a+){10}y",
        "^(a?){25}(a){25}$",
        "(a|b|ab)*c",
        "(a*)*b",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
    ],
)
def test_the_known_bad_patterns_are_unsafe(source):
    with pytest.raises(UnsafePattern) as caught:
        compiled(source)
    assert caught.value.pattern == source


@pytest.mark.parametrize(
    "source",
    [
        "^file_.*$",
        ".*_database$",
        "(beep|boop)*",
        "^(read|write)_file$",
        "(?i)delete",
        r"\bfoo\b",
        "[[:alpha:]]+",
        "^a{1,3}$",
        ".*foo.*bar.*",
        "(a|ab)c",
        "(a+)?",
        "(a+|b+){0,1}",
        "(a{1})*",
        "(a|b){25}",
        "(ab?)*",
        "(a?b)*",
        "(ab?)*(b|c)*",
        "(b|c)*(ab?)*",
        "(foo(_bar)?)*x",
        "([a-z]|[A-Z])*",
        r"(.|\n)*",
        "(a[^b]|ab)*",
        "(?-i:(a|A))*",
        "(?:(?i:a)|b)*",
        r"(\d|[[:alpha:]]|_)+",
        r"(\Qa*\E|b)*",
        "^(?:get_)+$",
    ],
)
def test_harmless_patterns_are_accepted(source):
    assert compiled(source)


def test_hundreds_of_plain_names_are_accepted_one_by_one_and_all_in_one():
    names = [f"get_thing_number_{number:03}" for number in range(200)]
    assert all(compiled(name).found_in(f"my_{name}") for name in names)
    assert compiled(f"^({'|'.join(names)})$").found_in(names[-1])
    assert compiled(f"^({'|'.join(names)})+$").found_in(names[-1])


def assert_unsafe(source: str) -> None:
    with pytest.raises(UnsafePattern):
        compiled(source)


@pytest.mark.parametrize(
    "source",
    ["(a{2})*", "(a{2,3}){4}", "(?:a+)*?", "(?P<n>a+)+", "(?<n>a+)+", "((a+))+", "(a|(b|c+))*", "(?i:a*b)+",
     r"\Q\E(a+)\Q\E+", "a*(?i)*", r"a*\Q\E*", "((((b+)?)?)?)+", "((a+)+)?", "(?=(a+)+)"],
)  # fmt: skip
def test_a_repetition_in_a_repeated_group_is_unsafe(source):
    assert_unsafe(source)


@pytest.mark.parametrize(
    "source",
    [
        "()*",
        "(a|)+",
        "(|a)*",
        "(a?)*",
        "(a{0})*",
        "^*",
        "($|a)*",
        r"(\b)+",
        "(x(a?)?)*",
        "(x(|a))*",
        "(?:){3}",
    ],
)
def test_repeating_what_may_be_empty_is_unsafe(source):
    assert_unsafe(source)


@pytest.mark.parametrize(
    "source",
    ["(a|ab)*", "(ab|a)*", "(b|a|b)*", "(.|a)*", r"(\w|\d)*", "([a-f]|[f-z])+", "(a.|ab)*", "((a|ab)c)*",
     "(a|(b|a))*", "(?i)(a|A)*", "((?i)a|A)*", "(?i:a|A)*", "(?i)(k|\u212a)*", r"(\x61|\141)*",
     r"(\x{61}|a)*", "(ab?c|abd?c)*", "([[:alpha:]]|a)*", "([^[:^alpha:]]|a)*", "([]a]|])*", r"(\pL|a)*",
     r"(\PL|1)*", r"(\Qa\E|a)*", r"(\C|a)*", "(?s)(.|\n)*", "(?i)(é|É)*", "(?i)([^b]|B)*", "(a|a){2}",
     r"([\d-z]|-)*", "([a-]|-)*", r"(\n|\x0A)*", "(a?a)*", "(a?ba?)*", "(ab?b?)*", "(a(b|c)?b)*"],
)  # fmt: skip
def test_two_ways_through_a_repeated_text_are_unsafe(source):
    assert_unsafe(source)


def test_counts_and_the_number_of_repetitions_are_limited():
    most = limits.PATTERN_REPEATS
    counted = (f"(ab){{{most}}}", f"(ab){{0,{most}}}", f"(ab){{{most},}}")
    for fine in (*counted, "a?" * most, "a+b*" * (most // 2)):
        assert compiled(fine)
    for bad in (
        f"(ab){{{most + 1}}}",
        f"(ab){{0,{most + 1}}}",
        f"(ab){{{most + 1},}}",
        f"([a-z]{{{most + 1}}}){{2}}",
        "a{1001}",
        "a?" * (most + 1),
        "a+" * (most + 1),
    ):
        assert_unsafe(bad)


def test_a_single_character_may_be_counted_higher():
    for fine in ("a{26}", "^[a-z]{30}$", r"\w{1,64}", "[[:alpha:]]{26,}", r"\x41{100}", "a{1000}"):
        assert compiled(fine)
    assert compiled("^[a-z]{30}$").found_in("a" * 30)
    assert not compiled("^[a-z]{30}$").found_in("a" * 31)


def test_a_count_that_re2_would_take_for_text_is_still_a_count():
    assert re2.compile("a{99999999999}")
    assert_unsafe("a{99999999999}")


@pytest.mark.parametrize("source", ["(a+)+[", "((a+)+", "(a+)+)", r"(a+)+\q", "(a+)+**"])
def test_a_pattern_both_broken_and_unsafe_is_called_unsafe(source):
    assert_unsafe(source)


def test_a_repetition_that_takes_too_long_to_judge_is_unsafe(monkeypatch):
    assert compiled("(beep|boop)*")
    monkeypatch.setattr(limits, "PATTERN_WORK", 3)
    assert_unsafe("(beep|boop)*")


def test_long_alternatives_are_told_apart_without_trying_every_text():
    many = "(x|y)" * 60
    assert compiled(f"({many}1|{many}2)*")


words = st.recursive(
    st.sampled_from("abc"),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("then", *parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("or", *parts)),
        inner.map(lambda part: ("maybe", part)),
    ),
    max_leaves=7,
)


def written(body) -> str:
    match body:
        case ("then", *parts):
            return "".join(written(part) for part in parts)
        case ("or", *parts):
            return f"({'|'.join(written(part) for part in parts)})"
        case ("maybe", part):
            return f"({written(part)})?"
        case letter:
            return letter


def spelled(body) -> list[str]:
    """Every text that `body` matches, once for each way in which it does."""
    match body:
        case ("then", *parts):
            return ["".join(choice) for choice in product(*map(spelled, parts))]
        case ("or", *parts):
            return [text for part in parts for text in spelled(part)]
        case ("maybe", part):
            return ["", *spelled(part)]
        case letter:
            return [letter]


@given(words)
def test_what_is_accepted_under_a_repetition_has_only_one_way_through_every_text(body):
    if not is_accepted(f"({written(body)})*"):
        return
    ways = Counter({"": 1})
    newest = ways
    for _ in range(4):
        longer: Counter[str] = Counter()
        for text, word in product(newest, spelled(body)):
            longer[text + word] += newest[text]
        newest = longer
        ways += newest
        assert max(ways.values()) == 1


@given(st.sets(st.text("abc", min_size=1, max_size=4), min_size=2, max_size=6))
def test_plain_words_under_a_repetition_are_refused_only_if_one_begins_another(vocabulary):
    clashes = any(a != b and a.startswith(b) for a in vocabulary for b in vocabulary)
    assert is_accepted(f"({'|'.join(vocabulary)})*") != clashes


# Plain patterns, which do without RE2 on short texts

_plain_source = st.from_regex(
    r"\A\^?([a-c_]|\.|\\\.|\((\?:)?[a-c]+(\|[a-c_]+){0,2}\)){0,4}(\.[*+]([a-c]|\.){0,3})?\$?\Z",
    fullmatch=True,
)
_short_text = st.text(alphabet="abc_.\n\r\u2028\u00e9\ud800\U0001f600", max_size=12)


@settings(max_examples=1500, deadline=None)
@given(_plain_source.filter(bool), _short_text)
def test_a_plain_pattern_finds_what_re2_finds(source, text):
    pattern = compiled(source)
    assert pattern._plain is not None
    assert pattern.found_in(text) == msgspec.structs.replace(pattern, _plain=None).found_in(text)


@pytest.mark.parametrize(
    "source", ["a*", "(a|b)*", ".*.*", "a.*b.*", ".+?", "a{2}", "a|b", "[ab]", r"\d", "(?i)a", "(a|b)?", "é"]
)
def test_whatever_is_less_plain_is_left_to_re2(source):
    assert compiled(source)._plain is None


def test_a_plain_pattern_in_a_long_text_is_left_to_re2():
    assert compiled("a.*b").found_in("a" * 100_000 + "b")
    assert not compiled("a.*b$").found_in("a" * 100_000)


@pytest.mark.parametrize(
    "source",
    [
        *(
            "a",
            "Z9_",
            "a/b",
            "a:b",
            "a-b",
            r"a\.b",
            r"a\/b",
            r"a\-b",
            ".",
            "a.c",
            "^a",
            "a$",
            "^a$",
            "^",
            "$",
        ),
        *("(ab)", "(?:ab)", "(ab|c)", "(?:a|b|c)x", "x(a|b)y(c|d)", r"(a\.b|c)", ".*", ".+", "^a.*$", "a.+b"),
        *("(a|b).*", ".*(a|b)", "^(write|delete)_", ".*_database$", "^file_.*$", "a.*.b", "..", "^.$"),
    ],
)
def test_words_choices_and_one_star_are_plain(source):
    assert compiled(source)._plain is not None


@pytest.mark.parametrize(
    "source",
    [
        *(
            "a+",
            "a?",
            "a{1}",
            "ab*",
            "(ab)+",
            "(ab){2}",
            "(?:ab)?",
            ".?",
            ".{2}",
            ".*?",
            ".*.+",
            ".+x.*",
            "(.*)",
        ),
        *("()", "(|a)", "(a|)", "(a||b)", "(?:|a)", "(a|b)+", "(a|b){2}", ".{2}a", "a(b|c)*"),
        *("(a.b|c)", r"\w", r"\$", "a,b", "a b", "a|b", "[a]", "(?i)a", "(a(b))", r"\Aa", r"a\z", "@", "a^b"),
    ],
)
def test_everything_else_is_left_to_re2(source):
    assert compiled(source)._plain is None


def test_a_text_may_be_so_long_and_no_longer_to_do_without_re2():
    told_apart = Pattern("a", re.compile("b"))  # RE2 would look for a
    assert told_apart.found_in("b" * limits.PLAIN_TEXT)
    assert not told_apart.found_in("b" * (limits.PLAIN_TEXT + 1))


def test_a_pattern_that_takes_more_memory_than_one_may_is_refused():
    assert why_refused(r"\pL" * 150) == "too large"
    options = re2.Options()
    options.log_errors = False
    assert re2.compile(r"\pL" * 150, options)  # with the memory that RE2 allows by itself


def test_the_end_of_a_text_is_its_last_character():
    assert not compiled("^a$").found_in("a\n")
    assert not compiled("a.*b$").found_in("ab\n")
    assert compiled("^a$").found_in("a")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("x[a,b],c", ["x[a,b]", "c"]),
        ("[abc,d,e],f", ["[abc,d,e]", "f"]),
        ("[a,b],[[:alpha:],c]", ["[a,b]", "[[:alpha:],c]"]),
        ("xy[],a],b", ["xy[],a]", "b"]),
        ("xy[^],a],b", ["xy[^],a]", "b"]),
        ("x[[:alpha:],],b", ["x[[:alpha:],]", "b"]),
        (r"x[\],a],b", [r"x[\],a]", "b"]),
        ("a,x[b,c]y,[d,e]", ["a", "x[b,c]y", "[d,e]"]),
        (r"a\E,b", [r"a\E", "b"]),
        (r"\Qa(\E,b", [r"\Qa(\E", "b"]),
    ],
)
def test_a_class_holds_its_commas_wherever_it_stands(text, pieces):
    assert split_patterns(text) == pieces


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("^rm .*$", "rm x\n"),
        ("^rm .*$", "rm x\r\n"),
        ("^rm .*$", "rm a\nb"),
        ("^rm$", "rm\n"),
        ("^rm$", "rm\r\n\n"),
        ("a.$", "a\n"),
        ("rm .*$", "x; rm a\n"),
        ("a.{1}b", "a\nb"),
        ("^x[ab]{2}$", "xab\n"),
        ("^evil.{2}$", "evil\ud800\n"),
    ],
)
def test_what_a_line_feed_keeps_from_matching_to_some_matches_to_others(source, text):
    assert not compiled(source).found_in(text)
    assert not compiled(source).holds_in(text, every=True)
    assert compiled(source).holds_in(text, every=False)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("^rm$", "\nrm"),
        ("^rm$", "rmX\n"),
        ("^rm$", "rm\r"),
        ("^rm$", "rm \n"),
        ("rm", "r\nm"),
        ("a.{1}b", "ab\n"),
    ],
)
def test_what_matches_to_nobody_does_not_match(source, text):
    assert not compiled(source).holds_in(text, every=True)
    assert not compiled(source).holds_in(text, every=False)


@pytest.mark.parametrize("text", ["rm x", "rm x\n", "a\nrm x"])
def test_what_matches_to_everybody_matches(text):
    for source in ("rm x", "rm [x]"):
        assert compiled(source).holds_in(text, every=True)
        assert compiled(source).holds_in(text, every=False)
