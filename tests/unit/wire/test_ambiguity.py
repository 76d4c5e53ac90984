"""A message passes only when no other reader could see something else in it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.json import ambiguity, json_walk
from penstock.wire.json.ambiguity import (
    Ambiguous,
    Crowded,
    NotAnArray,
    NotAnObject,
    NotJson,
    as_lax_readers_see,
    check_text,
    elements,
    folded,
    is_sound,
    members,
    nests_deeper,
    readable,
)

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
_CLEAN_NAMES = st.sampled_from(
    [
        *ambiguity.RESERVED,
        "a",
        "B",
        "x-y",
        "Ünicode",
        "日本",
        "reason",
        "requestId",
        'quo"te',
        "back\\slash",
        "",
    ]
)
_OBJECTS = st.dictionaries(_CLEAN_NAMES, _VALUES, max_size=8)
_SEEDS = st.integers(0, 2**32)
_BLANKS = ["", " ", "\t ", "\r", "  \n "]


def _spelt(pairs: list[tuple[str, Any]], dice: Random) -> bytes:
    """An object with these members, in one of its many spellings."""
    parts = []
    for name, value in pairs:
        key = "".join(_escaped(char) if dice.random() < 0.3 else _plain(char) for char in name)
        text = json.dumps(value, ensure_ascii=dice.random() < 0.5)
        blank = dice.choices(_BLANKS, k=4) if dice.random() < 0.5 else [""] * 4
        parts.append(f'{blank[0]}"{key}"{blank[1]}:{blank[2]}{text}{blank[3]}')
    return ("{" + ",".join(parts) + "}").encode()


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _plain(char: str) -> str:
    return json.dumps(char, ensure_ascii=False)[1:-1]


@given(_OBJECTS, _SEEDS)
@settings(max_examples=100)
def test_a_clean_object_reads_as_json_reads_it(wanted: dict[str, Any], seed: int) -> None:
    raw = _spelt(list(wanted.items()), Random(seed))
    check_text(raw)
    found = members(raw)
    assert list(found) == list(json.loads(raw))
    assert {name: json.loads(bytes(value)) for name, value in found.items()} == json.loads(raw)
    assert all(bytes(value) in raw for value in found.values())


@given(_OBJECTS.filter(bool), _VALUES, _SEEDS)
@settings(max_examples=100)
def test_a_name_that_stands_twice_is_refused_in_any_spelling_and_place(
    clean: dict[str, Any], value: Any, seed: int
) -> None:
    dice = Random(seed)
    pairs = list(clean.items())
    pairs.insert(dice.randint(0, len(pairs)), (dice.choice(sorted(clean)), value))
    with pytest.raises(Ambiguous):
        members(_spelt(pairs, dice))


_DISGUISES = [
    lambda name: name.upper(),
    lambda name: name.title() if name[0] != "_" else name.upper(),
    lambda name: name + " ",
    lambda name: "\t" + name,
    lambda name: name + "\0",
    lambda name: name + "\0more",
    lambda name: name[:2] + "\u200b" + name[2:],
    lambda name: "\ufeff" + name,
    lambda name: "".join(chr(ord(char) + 0xFEE0) for char in name),
    lambda name: name[:1] + "\u00ad" + name[1:],
    lambda name: name + "\ufe0f",
    lambda name: name + "\u3000",
]


@pytest.mark.parametrize("disguise", range(len(_DISGUISES)))
@given(_OBJECTS, st.sampled_from(sorted(ambiguity.RESERVED)), _VALUES, _SEEDS)
@settings(max_examples=12)
def test_a_name_that_merely_looks_reserved_is_refused_even_alone(
    disguise: int, clean: dict[str, Any], name: str, value: Any, seed: int
) -> None:
    dice = Random(seed)
    clean.pop(name, None)
    pairs = list(clean.items())
    pairs.insert(dice.randint(0, len(pairs)), (_DISGUISES[disguise](name), value))
    with pytest.raises(Ambiguous):
        members(_spelt(pairs, dice))


@pytest.mark.parametrize(
    "name",
    [
        "param\u017f",
        "na\u1d50e",
        "ｎame",
        "\u212ard",
        "\u212aRD",
        "na me",
        "\x7fname",
        "n\x1eame\t",
        "na\ue000me",
    ],
)
def test_letters_that_some_reader_folds_are_folded(name: str) -> None:
    assert folded(name) in {"params", "name", "krd"}


@pytest.mark.parametrize("name", ["__proto__", "constructor", "__PROTO__", "prototype"])
def test_names_that_reach_into_a_readers_own_objects_are_refused(name: str) -> None:
    with pytest.raises(Ambiguous):
        members(b'{"name":"a","%b":{"name":"b"}}' % name.encode())


def test_what_lies_deeper_belongs_to_the_tool_and_passes() -> None:
    raw = b'{"name":"a","arguments":{"name":1,"name":2,"Name":3,"__proto__":4}}'
    assert bytes(members(raw)["arguments"]) == b'{"name":1,"name":2,"Name":3,"__proto__":4}'


def test_an_equal_value_does_not_hide_a_repeated_name() -> None:
    with pytest.raises(Ambiguous):
        members(b'{"a":1, "a":1}')
    with pytest.raises(Ambiguous):
        members(b'{"a":1,"a":1}')


@pytest.mark.parametrize("first", [b"12", b"1.5", b"1e9", b"10"])
@pytest.mark.parametrize("rest", [b"", b',"b":{},"b":[]', b',"Name":2'])
def test_a_number_that_begins_like_a_later_one_does_not_hide_a_repeated_name(
    first: bytes, rest: bytes
) -> None:
    for blank in (b"", b" "):
        with pytest.raises(Ambiguous):
            members(b'{"a":%b%b%b,"a":1}' % (first, blank, rest))


@pytest.mark.parametrize("scan", [1, 2, 64 * 1024])
@pytest.mark.parametrize("first", [b'"5,"', b'"5,:"', b"[5,6]"])
def test_a_value_that_ends_like_a_later_one_does_not_hide_a_repeated_name(
    first: bytes, scan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Skipping the later value's length would end inside the first one, where no name is seen again."""
    monkeypatch.setattr(ambiguity, "_SCAN_BYTES", scan)
    with pytest.raises(Ambiguous, match=r"^a member name stands twice$"):
        members(b'{"a":%b,"a":15}' % first)


def test_large_objects_are_checked_as_small_ones_are() -> None:
    filler = b'"filler":"' + b"x" * 40_000 + b'"'
    assert list(members(b'{"name":1,' + filler + b',"b":2}')) == ["name", "filler", "b"]
    for twice in (b'{"name":1,%b,"name":2}', b'{"n\\u0061me":1,%b,"name":1}', b'{"name":1,"Name":2,%b}'):
        with pytest.raises(Ambiguous):
            members(twice % filler)


@pytest.mark.parametrize("half", [b"\\ud800", b"\\udc00", b"\\ud800\\ud800", b"\\uDBFFx", b"\\\\\\ud800"])
def test_a_lone_half_of_a_pair_is_json_and_passes_in_values(half: bytes) -> None:
    raw = b'{"name":"echo","arguments":{"a":"%b"}}' % half
    assert list(members(raw)) == ["name", "arguments"]


def test_a_lone_half_of_a_pair_in_a_name_hides_nothing() -> None:
    with pytest.raises(Ambiguous):
        members(b'{"name\\ud800":1}')


def test_two_names_that_differ_in_a_lone_half_only_are_refused() -> None:
    with pytest.raises(Ambiguous):
        members(b'{"a\\ud800":1,"a\\ud801":2}')


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b'{"a":1}{"b":2}',
        b'{"a":1} {"b":2}',
        b'{"a":1},{"b":2}',
        b'{"a":1}x',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":01}',
        b'{"a":0x10}',
        b'{"a":1.}',
        b'{"a":.5}',
        b'{"a":+1}',
        b'{"a":1,}',
        b"{'a':1}",
        b"{a:1}",
        b'{"a":1/**/}',
        b'{"a":"\x01"}',
        b'{"a":"\n"}',
        b'\xef\xbb\xbf{"a":1}',
        b'\0{"a":1}',
        b'{"a":"\\x41"}',
        b'{"a":"\\u12"}',
        b'{"a":tru}',
        '{"a":1}'.encode("utf-16-le"),
        '{"a":1}'.encode("utf-32-be"),
    ],
)
def test_what_is_not_strictly_json_is_refused(raw: bytes) -> None:
    with pytest.raises(NotJson):
        members(raw)


@pytest.mark.parametrize("raw", [b"[]", b"1", b'"{}"', b"null", b"true"])
def test_what_is_no_object_is_told_apart_from_what_is_no_json(raw: bytes) -> None:
    with pytest.raises(NotAnObject):
        members(raw)


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_bytes_that_are_not_utf8_are_refused_wherever_they_stand(
    bad: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for scan in (4, 7, 64 * 1024):
        monkeypatch.setattr(ambiguity, "_SCAN_BYTES", scan)
        for place in range(9):
            with pytest.raises(NotJson, match="UTF-8"):
                check_text(b'{"a":"' + b"x" * place + bad + b'yyyyyy"}')


def test_characters_cut_by_a_scan_border_are_whole_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ambiguity, "_SCAN_BYTES", 3)
    check_text('{"a":"日本語🎉é"}'.encode())


RESERVED_NAMES = "jsonrpc id method params result error name uri arguments cursor task _meta".split()


@pytest.mark.parametrize("name", RESERVED_NAMES)
def test_every_reserved_name_is_itself_and_nothing_may_look_like_it(name: str) -> None:
    assert members(json.dumps({name: 1, "x": 2}).encode())
    for other in (
        name.upper(),
        name + " ",
        "\u200b" + name,
        name.replace(name[0], chr(ord(name[0]) + 0xFEE0)),
    ):
        with pytest.raises(Ambiguous, match=r"^a member name looks like another$"):
            members(json.dumps({other: 1}).encode())


@pytest.mark.parametrize("name", ["__proto__", "constructor", "prototype", "__PROTO__", "con\u200bstructor"])
def test_a_name_through_which_readers_inherit_is_refused_by_that_name(name: str) -> None:
    with pytest.raises(Ambiguous, match=r"^a member name reaches into the reader's own objects$"):
        members(json.dumps({name: 1}).encode())


@pytest.mark.parametrize(
    "char",
    [
        *("\u200b", "\u00ad", "\u0085", "\u3000", "\u00a0", "\u1680", "\u2028", "\u2029"),
        *("\U000e0fff", "\ufeff"),
    ],
)
def test_characters_that_nobody_sees_make_no_other_name(char: str) -> None:
    assert folded(f"na{char}me") == "name"
    assert folded(f"{char}name{char}") == "name"


def test_a_name_ends_at_nul_and_blanks_around_it_do_not_count() -> None:
    assert folded("name\0x") == "name"
    assert folded("\tname \n") == "name"
    assert folded("NAME") == "name"
    assert folded("NA\x01ME\x7f") == "name"
    assert folded("ＮＡＭＥ") == "name"
    assert folded("ſize") == "size"
    assert folded("Ⅷ") == "viii"


@pytest.mark.parametrize("blank", [b"", b" ", b"\t", b"\r", b"\n", b"\r\n \t"])
@pytest.mark.parametrize("size", [1, 20_000])
def test_any_white_space_may_stand_between_tokens(blank: bytes, size: int) -> None:
    value = b'"%b"' % (b"x" * size)
    text = blank.join(
        [b"", b"{", b'"a"', b":", b"1", b",", b'"\\u0062"', b":", value, b",", b'""', b":", b"[]", b"}", b""]
    )
    assert {name: bytes(raw) for name, raw in members(text).items()} == {"a": b"1", "b": value, "": b"[]"}
    with pytest.raises(Ambiguous, match=r"^a member name stands twice$"):
        members(text.replace(b'"a"', b'"b"'))
    assert members(blank + b"{" + blank + b"}" + blank) == {}


@pytest.mark.parametrize("blank", [b"", b" ", b"\t", b"\r", b"\n", b"\r\n \t"])
@pytest.mark.parametrize("odd", [b'"x"', b'"\\ud800"', b'"\\uDBFF\\u0041"', b'["\\udfff", 1]'])
def test_elements_are_given_as_written(blank: bytes, odd: bytes) -> None:
    text = blank.join([b"", b"[", b"1", b",", odd, b",", b'{"a":[]}', b"]", b""])
    assert elements(text) == [b"1", odd, b'{"a":[]}']
    assert elements(blank + b"[" + blank + b"]") == []


@pytest.mark.parametrize(
    "odd", [b'"\\ud800"', b'"\\uDc00x"', b'"\\uD83D\\ude00"', b'"\\\\ud800"', b'"\\ud800\\ud800"']
)
def test_members_with_half_pairs_are_given_as_written(odd: bytes) -> None:
    text = b' { "a" : %b , "b" : 1.0 } ' % odd
    assert {name: bytes(raw) for name, raw in members(text).items()} == {"a": odd, "b": b"1.0"}


@pytest.mark.parametrize(
    ("raw", "error", "why"),
    [
        (b"5", NotAnObject, "it is not an object"),
        (b'"\\ud800"', NotAnObject, "it is not an object"),
        (b"[1]", NotAnObject, "it is not an object"),
    ],
)
def test_what_is_no_object_is_called_that(raw: bytes, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=f"^{why}$"):
        members(raw)


@pytest.mark.parametrize("raw", [b"5", b"{}", b'"\\ud800"'])
def test_what_is_no_array_is_called_that(raw: bytes) -> None:
    with pytest.raises(NotAnArray, match=r"^it is not an array$"):
        elements(raw)


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        (elements, b"[1"),
        (elements, b'["\\ud800"'),
        (elements, b"[1,]"),
        (members, b"{"),
        (members, b'{"a":"\\ud800"'),
        (members, b""),
    ],
)
def test_what_is_no_json_has_a_reason(read: Callable[[bytes], object], raw: bytes) -> None:
    with pytest.raises(NotJson) as caught:
        read(raw)
    assert str(caught.value)
    assert not str(caught.value).startswith("JSON is malformed")


def test_the_reason_says_where_the_fault_is() -> None:
    for read, raw in ((members, b'{"a":1,}'), (elements, b'[1,"a",]')):
        with pytest.raises(NotJson, match=r"\(byte 7\)$"):
            read(raw)  # type: ignore[operator]


@pytest.mark.parametrize("half", [b"", b'"\\ud800"'])
def test_what_nobody_checked_before_is_refused_all_the_same(half: bytes) -> None:
    for read, opening in ((members, b'{"x":'), (elements, b"[")):
        with pytest.raises(NotJson, match=r"^it nests too deep$"):
            read(opening * 500_000 + half)  # deeper than any interpreter goes
    with pytest.raises(NotJson, match="utf-8"):
        members(b'{"\xff":%b}' % (half or b"1"))


@pytest.mark.parametrize("size", [10, 70_000, 140_000])
def test_text_is_checked_whole_and_told_what_is_wrong(size: int) -> None:
    good = '"{}é"'.format("日" * (size // 3)).encode()
    check_text(good)
    for bad in (good[:-2], good[:-3] + b'\xff"', b"\xff" + good, good + b"\xc3"):
        with pytest.raises(NotJson, match=r"^it is not valid UTF-8$"):
            check_text(bad)
    with pytest.raises(NotJson, match=r"^it nests deeper than 128 levels$"):
        check_text(b"[" * 129 + b"]" * 129)
    check_text(b"[" * 128 + b"]" * 128)


@pytest.mark.parametrize("levels", [10, 11, 20, 129])
def test_depth_is_exact_in_every_shape(levels: int) -> None:
    shapes = [
        b"[" * levels + b"]" * levels,
        b'{"a":' * levels + b"1" + b"}" * levels,
        b"[" + b"[],{}," * 50 + b"[" * (levels - 1) + b"]" * levels,
        b'["[[[[{{{{",' * levels + b"1" + b"]" * levels,
        b'["\\"[[[\\\\",' * levels + b"1" + b"]" * levels,
    ]
    for text in shapes:
        assert not nests_deeper(text, levels)
        assert nests_deeper(text, levels - 1)


_UNITS = st.sampled_from(
    [
        *(rb"\ud83d", rb"\uDBFF", rb"\udbff", rb"\ude00", rb"\uDFFF", rb"\udC00", rb"\uD800"),
        *(rb"\u0041", rb"\uD7FF", rb"\ue000", rb"\\", rb"\n", rb"\"", b"x", b"u", b"d800", "é".encode()),
    ]
)


@given(st.lists(_UNITS, max_size=10))
def test_of_what_decoders_refuse_only_lone_halves_are_changed(units: list[bytes]) -> None:
    """Found while reading: a low half behind any other escape stayed, and the message was refused."""
    text = b'"%b"' % b"".join(units)
    shown = bytes(readable(text))
    plain = "".join("\uffff" if "\ud800" <= char <= "\udfff" else char for char in json.loads(text))
    assert json.loads(shown) == plain
    assert len(shown) == len(text)
    assert (shown == text) == (plain == json.loads(text))
    assert elements(b"[%b]" % text) == [text]


def test_names_that_the_protocol_knows_are_not_compared_letter_by_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    def look(name: str) -> str:
        looked.append(name)
        return name

    monkeypatch.setattr(ambiguity, "folded", look)
    known = """
        jsonrpc id method params result error name uri arguments cursor task _meta argument capabilities
        clientInfo content context data inputResponses level logger maxTokens message messages notifications
        progress progressToken reason ref requestId requestState roots total protocolVersion
    """.split()
    members(b"{%b}" % b",".join(b'"%b":1' % name.encode() for name in known))
    assert looked == []
    members(b'{"name":1,"other":2}')
    assert looked == ["other"]


@pytest.mark.parametrize("is_upper", [False, True])
def test_every_half_of_a_pair_is_known_as_what_it_is(is_upper: bool) -> None:
    for code in (*range(0xD7F0, 0xD810), *range(0xD8F8, 0xE010, 8), *range(0xDBF0, 0xDC10), 0xDFFF):
        text = b"%04x" % code
        unit = b"\\u" + (text.upper() if is_upper else text)
        is_high, is_low = 0xD800 <= code < 0xDC00, 0xDC00 <= code < 0xE000
        lone, before_low, after_high = b'"%b"' % unit, b'"%b\\udcAb"' % unit, b'"\\uDABc%b"' % unit
        assert (readable(lone) is lone) == (not is_high and not is_low)
        assert (readable(before_low) is before_low) == is_high
        assert (readable(after_high) is after_high) == is_low


def test_text_that_is_soundis_utf8_and_not_too_deep() -> None:
    assert is_sound(b"[" * 128 + b"]" * 128)
    assert is_sound(b"[" * 128 + b'"%b"' % (b"x" * 300) + b"]" * 128)
    assert not is_sound(b"[" * 129 + b"]" * 129)
    assert is_sound(b"[" * 256)  # what opens so often and has no room to close is no JSON anyhow
    assert not is_sound(b"[" * 257)
    assert is_sound('"é"'.encode())
    assert not is_sound(b'"\xff"')
    assert not is_sound(b'"\xe9"' + b" " * 70_000)
    assert not is_sound(b'"' + b"x" * 70_000 + b"\xc3")


def test_a_value_with_half_a_pair_is_given_as_written_and_not_as_read() -> None:
    for raw in (b'{"a":"\\ud800"}', b'{"a":"\\ud800","b":1}', b'{"a": "\\ud800"}'):
        assert bytes(members(raw)["a"]) == b'"\\ud800"'


@pytest.mark.parametrize("blank", [b"", b" ", b"\n"])
def test_so_many_parts_and_no_more_are_taken_apart(blank: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ambiguity.limits, "PATH_PARTS", 20)
    pad = b"x" * 200  # short texts are not counted
    for count in (19, 20, 21):
        array = blank + b"[" + b",".join([b'"%b"' % pad] * count) + b"]"
        text = blank + b"{" + b",".join(b'"%d":"%b"' % (n, pad) for n in range(count)) + b"}"
        if count <= 20:
            assert len(elements(array)) == count
            assert len(members(text)) == count
        else:
            for read, raw in ((elements, array), (members, text)):
                with pytest.raises(Crowded, match=r"^it has more than 20 parts$"):
                    read(raw)  # type: ignore[operator]


def test_as_many_parts_as_have_room_in_a_text_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ambiguity.limits, "PATH_PARTS", 20)
    for scan in (7, 64 * 1024):
        monkeypatch.setattr(ambiguity, "_SCAN_BYTES", scan)
        assert len(elements(b"[" + b",".join([b"1"] * 20) + b"]")) == 20
        with pytest.raises(Crowded):
            elements(b"[" + b",".join([b"1"] * 21) + b"]")


def test_parts_are_walked_only_where_there_may_be_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ambiguity.limits, "PATH_PARTS", 20)
    monkeypatch.setattr(ambiguity, "_SCAN_BYTES", 16)
    monkeypatch.setattr(json_walk, "parts", lambda *_: pytest.fail("it was walked"))
    for blank in (b"", b"  \n"):
        # In an object names are counted by their colons, so a long list in it is none of our business.
        assert len(members(blank + b'{"a":[%b1],"b":"::"}' % (b"1," * 100))) == 2
        assert len(elements(blank + b"[%b1]" % (b"123," * 18))) == 19
        assert len(elements(blank + b'["%b"]' % (b"," * (36 - len(blank))))) == 1  # no room for a crowd


def test_commas_and_colons_deeper_down_are_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ambiguity.limits, "PATH_PARTS", 20)
    assert len(elements(b'[[%b1],","]' % (b"1," * 100))) == 2
    assert len(members(b'{"a":{%b"x":1},"b":"%b"}' % (b'"x":1,' * 100, b":" * 100))) == 2


def test_a_crowd_that_is_no_json_is_called_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ambiguity.limits, "PATH_PARTS", 20)
    for raw in (b"[" + b"1," * 15 + b",,,,,,,,,,,]", b"{" + b'"a":1,' * 15 + b":::::::::::}"):
        with pytest.raises(NotJson) as caught:
            (elements if raw[:1] == b"[" else members)(raw)
        assert not isinstance(caught.value, Crowded)


@pytest.mark.parametrize("many", ["\ufdfa", "\u200b", "\x7f", "\u3000"])
def test_to_fold_a_name_as_long_as_a_message_takes_no_memory(many: str) -> None:
    """One character can become eighteen."""
    name = many * 100_000
    tracemalloc.start()
    plain = folded(name)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(name.encode())
    assert plain in ("", name)
    for word in ("name", "params"):
        assert folded(word[:2] + name + word[2:]) == (word if plain == "" else word[:2] + name + word[2:])


def test_a_name_that_is_long_when_folded_is_itself() -> None:
    for name in ("x" * 64, "\uff58" * 64):
        assert folded(name) == "x" * 64
    assert folded("\uff58" * 65) == "\uff58" * 65


def test_of_names_that_are_not_ascii_there_may_be_only_so_many() -> None:
    names = [b'"\xc3\xa9%d":1' % number for number in range(1001)]
    assert len(members(b"{%b}" % b",".join(names[:1000]))) == 1000
    with pytest.raises(Ambiguous, match=r"^it has more than 1000 names that are not ASCII$"):
        members(b"{%b}" % b",".join(names))


@given(
    st.lists(
        st.sampled_from([rb"\ud83d", rb"\uDE00", rb"\\", rb"\"", rb"\u0041", "é".encode(), b"x", b"ud800"]),
        max_size=12,
    )
)
def test_the_readable_copy_has_every_whole_pair_and_no_half(parts: list[bytes]) -> None:
    raw = b'"%b"' % b"".join(parts)
    copy = bytes(readable(raw))
    assert len(copy) == len(raw)
    text = json.loads(raw)
    expected = "".join("\uffff" if "\ud800" <= char <= "\udfff" else char for char in text)
    assert json.loads(copy) == expected
    assert readable(raw) is raw or text != expected


def test_what_has_a_nul_in_it_is_not_made_readable() -> None:
    raw = b'"\0\0\\ud800"'
    assert readable(raw) is raw


def test_a_capital_i_with_a_dot_is_an_i() -> None:
    assert folded("\u0130d") == "id"
    with pytest.raises(Ambiguous):
        members('{"id":1,"\u0130d":2}'.encode())


@pytest.mark.parametrize(
    ("method", "seen"),
    [
        ("tools/call", "tools/call"),
        ("Tools/CALL", "tools/call"),
        ("tools\\call", "tools/call"),
        ("/tools//call/", "tools/call"),
        ("\\\\tools/\\call\\", "tools/call"),
        ("tools\uff0fcall", "tools/call"),
        ("tools/ \u200b/call", "tools/call"),
        ("toolscall", "toolscall"),
        ("a/b/c", "a/b/c"),
        ("/", ""),
    ],
)
def test_a_method_is_seen_as_lax_readers_take_it(method: str, seen: str) -> None:
    assert as_lax_readers_see(method) == seen
