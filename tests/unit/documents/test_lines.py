"""Every key and every element of a file is found on its own line, however the file is laid out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.formats.document import Document, Unreadable
from penstock.config.formats.json_reader import read_json
from penstock.config.formats.reading import guess_format, read_document
from penstock.config.formats.toml_reader import read_toml
from penstock.config.formats.yaml_reader import read_yaml

texts = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8)
scalars = st.one_of(texts, st.integers(-(10**20), 10**20), st.booleans(), st.floats(-1e9, 1e9))
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(texts.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=20,
)
documents = st.dictionaries(texts, trees, max_size=5)


class Writer:
    """Writes a tree and notes on which line everything went."""

    def __init__(self, choose: Any, may_escape: bool = False) -> None:
        self.text = ""
        self.lines: dict[tuple[str | int, ...], int] = {}
        self._choose = choose
        self._may_escape = may_escape

    def note(self, *path: str | int) -> None:
        self.lines[path] = self.text.count("\n") + 1

    def gap(self, *choices: str) -> None:
        self.text += self._choose(st.sampled_from(choices))

    # --- JSON, and the flow style of YAML, which is the same when strings are quoted -------------------

    def json(self, value: object, path: tuple[str | int, ...] = (), *gaps: str) -> None:
        gaps = gaps or ("", " ", "\n", "\r\n  ", "\n\n\t", "// 'a', {\n", '/* " \n */')
        if not isinstance(value, dict | list):
            self.text += json.dumps(value, ensure_ascii=self._may_escape and self._choose(st.booleans()))
            return
        is_dict = isinstance(value, dict)
        self.text += "{" if is_dict else "["
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        for number, (key, inner) in enumerate(items):
            self.text += "," if number else ""
            self.gap(*gaps)
            self.note(*path, key)
            if is_dict:
                self.text += json.dumps(key, ensure_ascii=False)
                self.gap(*(gap for gap in gaps if "\n" not in gap))
                self.text += ": "
                self.gap(*gaps)
            self.json(inner, (*path, key), *gaps)
            self.gap(*gaps)
        self.text += "}" if is_dict else "]"

    # --- YAML ------------------------------------------------------------------------------------------

    def yaml(self, value: object, path: tuple[str | int, ...] = (), indent: str = "") -> None:
        if not isinstance(value, dict | list) or not value:
            self.text += indent
            self.json(value, path, "", " ")
            self.text += "\n"
            return
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            self.gap("", "\n", "   # a comment: {\n", "\r\n")
            self.text += indent
            if isinstance(value, dict):
                self.note(*path, key)
                self.text += json.dumps(key, ensure_ascii=False) + ":"
            else:
                self.text += "-"
            if isinstance(inner, dict | list) and inner and self._choose(st.booleans()):
                self.text += " \n"
                if isinstance(value, list):
                    self.text += f"{indent}  "
                    self.note(*path, key)
                    self.json(inner, (*path, key), "", " ")
                    self.text += "\n"
                else:
                    self.yaml_block(inner, (*path, key), indent + "  ")
            else:
                self.text += " "
                if isinstance(value, list):
                    self.note(*path, key)
                self.json(inner, (*path, key), "", " ", f"\n{indent}   ")
                self.text += "\n"

    def yaml_block(self, value: Any, path: tuple[str | int, ...], indent: str) -> None:
        if self._choose(st.booleans()):
            self.yaml(value, path, indent)
        else:
            self.text += indent
            self.json(value, path, "", " ", f"\n{indent}  ", f"  # note: [1,\n{indent}  ")
            self.text += "\n"

    # --- TOML ------------------------------------------------------------------------------------------

    def toml_value(self, value: object, path: tuple[str | int, ...]) -> None:
        if isinstance(value, list):
            self.text += "["
            for position, inner in enumerate(value):
                self.text += "," if position else ""
                self.gap("", " ", "\n", " # ] ' \"\n", "\r\n\t")
                self.note(*path, position)
                self.toml_value(inner, (*path, position))
                self.gap("", "\n", "# ,\n")
            self.text += "]"
        elif isinstance(value, dict):
            self.text += "{"
            for number, (key, inner) in enumerate(value.items()):
                self.text += ", " if number else " "
                self.note(*path, key)
                self.text += f"{json.dumps(key, ensure_ascii=False)} = "
                self.toml_value(inner, (*path, key))
            self.text += "}"
        elif isinstance(value, str) and self._choose(st.booleans()) and "'" not in value and value:
            self.text += f"'''\n{value}'''"
        elif isinstance(value, str):
            quote = self._choose(st.sampled_from(('"', '"""')))
            self.text += quote + json.dumps(value, ensure_ascii=False)[1:-1] + quote
        elif isinstance(value, bool) or not isinstance(value, int):
            self.text += json.dumps(value)
        else:
            self.text += str(value)

    def toml(self, tree: dict[str, Any]) -> None:
        tables = {key: value for key, value in tree.items() if isinstance(value, dict)}
        for key, value in tree.items():
            if key not in tables:
                self.gap("", "\n", "# [no.table]\n", "  ")
                self.note(key)
                self.text += f"{json.dumps(key, ensure_ascii=False)} = "
                self.toml_value(value, (key,))
                self.text += "\n"
        for key, table in tables.items():
            self.gap("", "\n", "# a = 1\n")
            self.note(key)
            self.text += f"[ {json.dumps(key, ensure_ascii=False)} ] # why\n"
            for name, value in table.items():
                self.note(key, name)
                self.text += f"{json.dumps(name, ensure_ascii=False)} = "
                self.toml_value(value, (key, name))
                self.text += "\n"


@given(documents, st.data())
def test_json_has_every_key_on_its_line(tree: dict[str, object], data: st.DataObject) -> None:
    writer = Writer(data.draw, may_escape=True)
    writer.gap("", "\n", "// first\n")
    writer.json(tree)
    assert read_json(writer.text) == Document(tree, writer.lines, [])


@given(documents, st.data())
def test_yaml_has_every_key_on_its_line(tree: dict[str, object], data: st.DataObject) -> None:
    writer = Writer(data.draw)
    writer.gap("", "\n", "# first\n", "---\n", "# x\n---\n")
    writer.yaml(tree)
    assert read_yaml(writer.text) == Document(tree, writer.lines, [])


def _is_toml(value: object) -> bool:
    """Whether TOML can be written for it as simply as the test does."""
    if isinstance(value, dict):
        return all(map(_is_toml, value.values()))
    if isinstance(value, list):
        return all(map(_is_toml, value))
    return not isinstance(value, int) or abs(value) < 2**63


@given(documents.filter(_is_toml), st.data())
def test_toml_has_every_key_on_its_line(tree: dict[str, object], data: st.DataObject) -> None:
    writer = Writer(data.draw)
    writer.toml(tree)
    found = read_toml(writer.text)
    assert found.tree == tree
    assert found.lines == writer.lines


def test_arrays_of_tables_and_dotted_keys_have_lines() -> None:
    text = (
        "a.b = 1\n[[rules]]\nid = 'x'\n[rules.log]\nlevel = 'warn'\n\n[[rules]]\nid = 'y'\n[c.d]\ne.f = 2\n"
    )
    found = read_toml(text)
    assert found.tree == {
        "a": {"b": 1},
        "rules": [{"id": "x", "log": {"level": "warn"}}, {"id": "y"}],
        "c": {"d": {"e": {"f": 2}}},
    }
    assert found.line_of(("a", "b")) == 1
    assert found.line_of(("rules", 0, "id")) == 3
    assert found.line_of(("rules", 0, "log")) == 4
    assert found.line_of(("rules", 0, "log", "level")) == 5
    assert found.line_of(("rules", 1)) == 7
    assert found.line_of(("rules", 1, "id")) == 8
    assert found.line_of(("c", "d", "e", "f")) == 10
    assert found.line_of(("rules", 1, "nothing", "here")) == 7


def test_a_path_that_is_not_there_has_the_line_of_what_is_around_it() -> None:
    document = read_yaml("a:\n  b:\n    - 1\n")
    assert document.line_of(("a", "b", 7, "c")) == 2
    assert document.line_of(("z",)) == 1
    assert document.line_of(()) == 1


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('{"a": 1}', "json"),
        ("// servers\n{}", "json"),
        ("a = 1", "toml"),
        ("[a]\nb = 1", "toml"),
        ("a: 1", "yaml"),
        ("- 1", "yaml"),
        ("[a, b", "yaml"),
    ],
)
def test_a_file_without_a_telling_name_is_read_by_what_is_in_it(text: str, form: str) -> None:
    assert guess_format(text) == form


def test_the_ending_decides_first() -> None:
    assert read_document("x.YML", b"a: 1").tree == {"a": 1}
    assert read_document("x.json", b'\xef\xbb\xbf{"a": 1}').tree == {"a": 1}
    assert read_document("x.toml", b"a = 1").tree == {"a": 1}
    assert read_document("x.conf", b"a = 1").tree == {"a": 1}


@pytest.mark.parametrize("quotes", ['"""', '"', "'''", "'"])
def test_a_toml_text_without_an_end_is_refused_at_once(quotes: str) -> None:
    """What can be read in two ways, backslash by backslash, takes longer than anybody waits."""
    for mark in ("\\", "\\\\ ", '\\"', "'.", '".'):
        with pytest.raises(Unreadable):
            read_toml(f"a = {quotes}{mark * 400}x")
