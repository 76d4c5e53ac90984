"""Paths find every value, and changing one changes nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.policy.rules.paths import BadPath, CannotSet, parse_path, spliced
from penstock.wire.json.json_walk import TooMany, parts, value_end

TEXT = b'{"a":{"x":1, "\\u0078":2 ,"y":[1,{"z":3}]} , "b.c":null}'


def _find(path: str, text: bytes = TEXT) -> list[bytes]:
    return [text[span.start : span.end] for span in parse_path(path).find(text, 0, len(text))]


def _set(path: str, value: bytes = b"9", text: bytes = TEXT) -> bytes:
    return spliced(text, parse_path(path).edits_to_set(text, 0, len(text), value))


def _remove(path: str, text: bytes = TEXT) -> bytes:
    return spliced(text, parse_path(path).edits_to_remove(text, 0, len(text)))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.x", [b"1", b"2"]),
        ("a.y.0", [b"1"]),
        ("a.y.1.z", [b"3"]),
        ("a.y.2", []),
        ("a.y.*", [b"1", b'{"z":3}']),
        ("a.*", [b"1", b"2", b'[1,{"z":3}]']),
        (r"b\.c", [b"null"]),
        ("b.c", []),
        ("a.x.q", []),
        ("**", [b"1", b"2", b"1", b"3", b"null"]),
        ("a.**", [b"1", b"2", b"1", b"3"]),
        ("**.z", [b"3"]),
        ("**.x", [b"1", b"2"]),
        ("a.**.y", [b'[1,{"z":3}]']),
        ("**.y.0", [b"1"]),
        ("**.y.*.z", [b"3"]),
        ("**.q", []),
    ],
)
def test_all_values_at_a_path_are_found(path: str, found: list[bytes]) -> None:
    assert _find(path) == found


@pytest.mark.parametrize(
    "path", ["**.**", "a.**.*", "**.0", "", "a..b", ".a", "a.", r"a\b", "a\\", ".".join("a" * 65)]
)
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(BadPath):
        parse_path(path)


@pytest.mark.parametrize(
    ("path", "after"),
    [
        ("a.x", b'{"a":{"x":9, "\\u0078":9 ,"y":[1,{"z":3}]} , "b.c":null}'),
        ("a.y.1.z", b'{"a":{"x":1, "\\u0078":2 ,"y":[1,{"z":9}]} , "b.c":null}'),
        ("a.y.2", b'{"a":{"x":1, "\\u0078":2 ,"y":[1,{"z":3},9]} , "b.c":null}'),
        ("a.new.deep", b'{"a":{"x":1, "\\u0078":2 ,"y":[1,{"z":3}],"new":{"deep":9}} , "b.c":null}'),
        ("new", b'{"a":{"x":1, "\\u0078":2 ,"y":[1,{"z":3}]} , "b.c":null,"new":9}'),
    ],
)
def test_setting_changes_only_the_value(path: str, after: bytes) -> None:
    assert _set(path) == after


def test_setting_in_an_empty_object_needs_no_comma() -> None:
    assert _set("a.b", text=b'{"a": { } }') == b'{"a": {"b":9 } }'
    assert _set("0", text=b"[]") == b"[9]"


@pytest.mark.parametrize("path", ["a.x.q", "a.y.7", "a.y.name", "none.*.x"])
def test_where_there_is_no_place_nothing_is_set(path: str) -> None:
    with pytest.raises(CannotSet):
        _set(path)


@pytest.mark.parametrize(
    ("path", "after"),
    [
        ("a.x", b'{"a":{"y":[1,{"z":3}]} , "b.c":null}'),
        ("a.y", b'{"a":{"x":1, "\\u0078":2} , "b.c":null}'),
        ("a.y.0", b'{"a":{"x":1, "\\u0078":2 ,"y":[{"z":3}]} , "b.c":null}'),
        ("a.*", b'{"a":{} , "b.c":null}'),
        ("a", b'{"b.c":null}'),
        ("nothing", TEXT),
        ("a.x.q", TEXT),
    ],
)
def test_removing_takes_the_comma_along(path: str, after: bytes) -> None:
    assert _remove(path) == after
    json.loads(_remove(path))


names = st.text(st.sampled_from('ab."\\é\n'), min_size=1, max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
trees = st.dictionaries(names, values, min_size=1, max_size=4)
layouts = st.sampled_from([{}, {"indent": 2}, {"separators": (" ,\t", " : ")}, {"ensure_ascii": False}])


def _path_to(tree: Any, draw: Any) -> list[str]:
    steps: list[str] = []
    while isinstance(tree, dict | list) and tree:
        key = draw(st.sampled_from(sorted(tree) if isinstance(tree, dict) else range(len(tree))))
        steps.append(str(key))
        tree = tree[key]
        if draw(st.booleans()):
            break
    return steps


def _put(tree: Any, steps: list[str], value: object) -> Any:
    if not steps:
        return value
    if isinstance(tree, list):
        return [_put(x, steps[1:], value) if str(i) == steps[0] else x for i, x in enumerate(tree)]
    return {name: _put(x, steps[1:], value) if name == steps[0] else x for name, x in tree.items()}


@given(st.data(), trees, layouts)
def test_whatever_is_set_only_that_value_changes(data: Any, tree: Any, layout: Any) -> None:
    text = json.dumps(tree, **layout).encode()
    steps = _path_to(tree, data.draw)
    path = parse_path(".".join(step.replace("\\", "\\\\").replace(".", "\\.") for step in steps))
    (span,) = path.find(text, 0, len(text))
    after = spliced(text, path.edits_to_set(text, 0, len(text), b'"new"'))
    assert after == text[: span.start] + b'"new"' + text[span.end :]
    assert json.loads(after) == _put(tree, steps, "new")


@given(st.data(), trees, layouts)
def test_whatever_is_removed_the_rest_is_as_it_was(data: Any, tree: Any, layout: Any) -> None:
    text = json.dumps(tree, **layout).encode()
    name = data.draw(st.sampled_from(sorted(tree)))
    path = parse_path(name.replace("\\", "\\\\").replace(".", "\\."))
    after = spliced(text, path.edits_to_remove(text, 0, len(text)))
    assert json.loads(after) == {other: value for other, value in tree.items() if other != name}


@given(values, layouts)
def test_a_value_ends_where_it_ends(value: Any, layout: Any) -> None:
    text = json.dumps(value, **layout).encode()
    assert value_end(b"[" + text + b" , 1]", 1) == 1 + len(text)


def test_deep_values_are_skipped_too() -> None:
    deep = b"[" * 120 + b'"]"' + b"]" * 120
    assert _find("b", b'{"a":%b,"b":1,"c":%b}' % (deep, deep)) == [b"1"]


def test_nobody_can_make_a_rule_look_at_everything() -> None:
    text = b"{" + b'"a":1,' * (limits.PATH_PARTS + 1) + b'"b":2}'
    assert _find("b", text) == [b"2"]  # passed over unseen
    with pytest.raises(TooMany):
        _find("a", text)
    assert len(list(parts(b"[" + b"1," * 10 + b"1]", 0))) == 11


def test_a_far_element_is_reached_whatever_lies_before() -> None:
    text = b"[" + b"[[[[[[[[[[1]]]]]]]]]]," * 50 + b'"here"]'
    assert _find("50", text) == [b'"here"']
    assert _find("51", text) == []


def test_what_is_inherited_is_found_changed_and_removed() -> None:
    text = b'{"a":1,"__proto__":{"b":2,"A":3},"constructor":{"prototype":{"a":4}}}'
    assert _find("a", text) == [b"1", b"3", b"4"]
    assert _set("a", b"9", text) == b'{"a":9,"__proto__":{"b":2,"A":9},"constructor":{"prototype":{"a":9}}}'
    assert _remove("a", text) == b'{"__proto__":{"b":2},"constructor":{"prototype":{}}}'
    assert _find("__proto__.b", text) == [b"2"]


@pytest.mark.parametrize(
    "text", [b'{"__proto__":' * 9 + b"{}" + b"}" * 9, b'{"x":1' + b',"__proto__":{}' * 9 + b"}"]
)
def test_nobody_can_make_a_rule_look_up_a_long_line_of_ancestors(text: bytes) -> None:
    for look in (
        _find,
        lambda path, text: [_set(path, b"1", text)],
        lambda path, text: [_remove(path, text)],
    ):
        with pytest.raises(TooMany):
            look("a", text)


NESTED = rb'{"p":{"p":1,"q":[{"p":"x"}]},"t":" {\"p\":[5]}","P":2}'


def _tokens(path: str, text: bytes = NESTED) -> list[bytes]:
    return parse_path(path).tokens(text, 0, len(text))


def test_any_depth_finds_what_lies_in_itself_in_texts_and_under_another_spelling() -> None:
    assert sorted(_tokens("**.p")) == sorted([b'{"p":1,"q":[{"p":"x"}]}', b"1", b'"x"', b"2", b"[5]"])
    assert sorted(_tokens("**")) == sorted([b"1", b'"x"', rb'" {\"p\":[5]}"', b"5", b"2"])
    assert parse_path("**.p").sure(NESTED, 0, len(NESTED)) is None  # to some, P is no p
    assert parse_path("**.q").sure(NESTED, 0, len(NESTED)) == [b'[{"p":"x"}]']


def test_what_a_text_holds_is_found_by_name_set_and_removed() -> None:
    text = rb'{"options":"{\"force\": 1, \"deep\":\"[7]\"}"}'
    assert _tokens("options.force", text) == [b"1"]
    assert _tokens("options.deep.0", text) == [b"7"]
    assert json.loads(json.loads(_set("options.force", text=text))["options"]) == {"force": 9, "deep": "[7]"}
    assert json.loads(json.loads(_remove("options.force", text))["options"]) == {"deep": "[7]"}
    assert _tokens("options.force", _remove("**.force", text)) == []


def test_setting_and_removing_at_any_depth_leaves_nothing_behind() -> None:
    after = _set("**.p", text=NESTED)
    assert {bytes(token) for token in _tokens("**.p", after)} == {b"9"}
    assert _tokens("**.p", _remove("**.p", NESTED)) == []
    assert json.loads(_remove("**.p", NESTED)) == {"t": "{}"}


def test_a_text_that_merely_begins_like_json_is_a_text() -> None:
    for text in (rb'{"t":"{not json}"}', rb'{"t":"[1] and more"}', b'{"t":"{"}'):
        assert _tokens("t.*", text) == []
    assert _tokens("t.0", rb'{"t":"[NaN]"}') == [b"NaN"]  # Python reads it


def test_values_within_values_are_gone_through_only_so_often() -> None:
    deep = b'{"a":' * 120 + b'"' + b"x" * 1_000_000 + b'"' + b"}" * 120
    with pytest.raises(TooMany):
        _tokens("**.a", deep)


trees = st.recursive(
    st.none() | st.integers() | st.text('ab{}[]"\\'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abq"), inner, max_size=3),
    max_leaves=12,
)


@given(trees)
def test_any_depth_finds_exactly_what_is_there(tree: object) -> None:
    def named(part: object) -> list[object]:
        if isinstance(part, dict):
            return [x for name, v in part.items() for x in ([v] if name == "a" else []) + named(v)]
        return [x for v in part for x in named(v)] if isinstance(part, list) else []

    def leaf(part: object) -> list[object]:
        if isinstance(part, dict | list):
            return [x for v in (part.values() if isinstance(part, dict) else part) for x in leaf(v)]
        return [part]

    text = json.dumps({"r": tree}).encode()
    assert [json.loads(x) for x in _find("r.**.a", text)] == named(tree)
    assert [json.loads(x) for x in _find("**", text)] == leaf(tree)
