"""YAML as plain values with their lines.

Plain scalars mean what the core schema of YAML 1.2 says, which is also what editors show: `no` and `on`
are texts, `010` could be eight or ten and is refused, a date is a text. Tags that are not JSON's are refused.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from penstock import limits
from penstock.config.formats.document import Document, LineTable, Path, Slip, Unreadable
from penstock.config.formats.spans import Spans

_TAG = "tag:yaml.org,2002:"
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times faster


class _CoreLoader(_Base):  # type: ignore[misc]
    """The safe loader, with the scalars of YAML 1.2; only its composing half is used."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (the library's own way)


for _name, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)\Z", [*"~nN", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", [*"tTfF"]),
    ("int", r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z", [*"-+0123456789"]),
    (
        "float",
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z",
        [*"-+.0123456789"],
    ),
):
    _CoreLoader.add_implicit_resolver(_TAG + _name, re.compile(_pattern), _first)


def read_yaml(text: str, spans: Spans | None = None, most: int = limits.CONFIG_NODES) -> Document:
    """What the YAML in `text` holds, in at most so many values; `spans` hears where. Raises Unreadable."""
    table = LineTable(text)
    loader = _CoreLoader(text)
    try:
        _check_depth(text, table)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as why:
        mark = why.problem_mark or why.context_mark
        at = mark.index if mark else 0
        if text[at : at + 1] == "\t" or "tab character" in str(why.problem):
            raise Unreadable(table.line_at(at), "a tab; YAML takes blanks to set lines in") from None
        raise Unreadable(table.line_at(at), _in_words(why)) from None
    except yaml.YAMLError as why:
        raise Unreadable(1, f"not YAML: {why}".splitlines()[0]) from None
    finally:
        loader.dispose()
    builder = _Builder(table, spans if spans is not None else Spans(), most)
    tree = None if node is None else builder.build(node, ())
    return Document(tree, builder.lines, builder.slips)


def _check_depth(text: str, table: LineTable) -> None:
    """Raises Unreadable for a text that is nested too deeply.

    Putting nodes together recurses, and in the extension of libyaml nothing stops that before the end of
    the stack: a line of brackets would take the process down. Its events come one after another.
    """
    loader = _CoreLoader(text)
    depth = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > limits.CONFIG_NESTING:
                    mark: Any = event.start_mark
                    raise Unreadable(
                        table.line_at(mark.index), f"nested more than {limits.CONFIG_NESTING} levels deep"
                    )
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    finally:
        loader.dispose()


def _in_words(why: yaml.MarkedYAMLError) -> str:
    words = ", ".join(part for part in (why.context, why.problem) if part)
    return f"not YAML: {words}"


class _Builder:
    def __init__(self, table: LineTable, spans: Spans, most: int) -> None:
        self.lines: dict[Path, int] = {}
        self.slips: list[Slip] = []
        self._spans = spans
        self._most = most
        self._table = table
        self._open: set[int] = set()  # the collections that we are inside of
        self._count = 0

    def build(self, node: yaml.Node, path: Path) -> object:
        self._count += 1
        if self._count > self._most:
            raise Unreadable(self._line(node), f"more than {self._most:,} values (aliases count)")
        self._spans.values[path] = node.start_mark.index, node.end_mark.index
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            self._slip(node, "an alias for something that it is part of")
            return None
        if len(path) >= limits.CONFIG_NESTING:
            raise Unreadable(self._line(node), f"nested more than {limits.CONFIG_NESTING} levels deep")
        if isinstance(node, yaml.CollectionNode) and not node.flow_style:
            self._spans.blocks.add(path)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            return self._sequence(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        if node.tag != _TAG + "map":
            self._slip(node, _unknown_tag(node.tag))
        out: dict[str, object] = {}
        for key, value in node.value:
            name = self._name(key)
            if name is None:
                continue
            if name in out:
                words = f'"{name}" is here twice; the first is on line {self.lines[*path, name]}'
                self.slips.append(Slip(self._line(key), words, is_repeated=True))
                continue
            self.lines[*path, name] = self._line(key)
            self._spans.note_key((*path, name), key.start_mark.index, key.end_mark.index)
            out[name] = self.build(value, (*path, name))
        return out

    def _name(self, key: yaml.Node) -> str | None:
        if isinstance(key, yaml.ScalarNode) and key.tag == _TAG + "str":
            if key.value == "<<" and not key.style:
                self._slip(key, "merge keys (<<) are not supported; write the keys out")
                return None
            return str(key.value)
        shown = f" ({key.value})" if isinstance(key, yaml.ScalarNode) else ""
        self._slip(key, f"a key must be a text{shown}; put it in quotes")
        return None

    def _sequence(self, node: yaml.Node, path: Path) -> list[object]:
        if node.tag != _TAG + "seq":
            self._slip(node, _unknown_tag(node.tag))
        out: list[object] = []
        for position, element in enumerate(node.value):
            self.lines[*path, position] = self._line(element)
            out.append(self.build(element, (*path, position)))
        return out

    def _scalar(self, node: yaml.ScalarNode) -> object:
        kind, text = node.tag.removeprefix(_TAG), node.value
        try:
            if kind == "str":
                return text
            if kind == "null" and text in ("", "~", "null", "Null", "NULL"):
                return None
            if kind == "bool" and text.lower() in ("true", "false"):
                return text.lower() == "true"
            if kind == "int":
                return self._whole(node, text)
            if kind == "float":
                number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
                if not math.isfinite(number):
                    self._slip(node, f"{text} is no number that JSON has")
                    return None
                return number
        except ValueError:
            pass
        bad = kind in ("null", "bool", "int", "float")
        self._slip(node, f'"{text}" is not what its tag !!{kind} says' if bad else _unknown_tag(node.tag))
        return None

    def _whole(self, node: yaml.ScalarNode, text: str) -> int:
        if text[:2] in ("0x", "0o"):
            return int(text, 0)
        if re.fullmatch(r"[-+]?0[0-9]+", text):
            self._slip(
                node, f"{text} could be octal or decimal; write 0o... or leave out the zero, or quote it"
            )
        return int(text)

    def _line(self, node: Any) -> int:
        return self._table.line_at(node.start_mark.index)

    def _slip(self, node: yaml.Node, message: str) -> None:
        self.slips.append(Slip(self._line(node), message))


def _unknown_tag(tag: str) -> str:
    return f"the tag {tag.replace(_TAG, '!!')} is not supported"
