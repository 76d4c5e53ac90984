"""One module, changed in one place."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import expressions

_NOT_CODE = {"annotation", "returns", "decorator_list", "type_comment"}
_MOST_TEXT = 90
_GENERIC = frozenset(("dict", "list", "tuple", "frozenset", "Callable", "Sequence", "type", "Literal"))


@dataclass
class Mutant:
    """A change to the tree it was made from. Apply it in a process of its own: it is not taken back."""

    scope: str
    lines: range  # of the statement it stands in
    before: str
    after: str
    _parent: ast.AST
    _field: str
    _index: int | None
    _replacement: ast.AST
    number: int = 1  # among those that look the same in one scope

    @property
    def key(self) -> str:
        """What it is, without line numbers, so that it stays the same when code above it changes."""
        again = f" (number {self.number})" if self.number > 1 else ""
        return f"{self.scope}: {self.before} -> {self.after}{again}"

    def apply(self) -> None:
        if self._index is None:
            setattr(self._parent, self._field, self._replacement)
        else:
            getattr(self._parent, self._field)[self._index] = self._replacement


class Mutation:
    """A source file and every change that is made to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = path.read_text()
        self.tree = ast.parse(self.source)
        self.import_lines = _lines_run_at_import(self.tree)
        self.mutants = self._numbered(list(self._walk(self.tree, "", range(0))))

    def code(self, mutant: Mutant | None) -> object:
        """The module with `mutant` applied, compiled."""
        if mutant is not None:
            mutant.apply()
        return compile(ast.fix_missing_locations(self.tree), str(self.path), "exec", dont_inherit=True)

    @staticmethod
    def _numbered(mutants: list[Mutant]) -> list[Mutant]:
        seen: Counter[str] = Counter()
        for mutant in mutants:
            seen[mutant.key] += 1
            mutant.number = seen[mutant.key]
        return mutants

    def _walk(self, node: ast.AST, scope: str, lines: range) -> Iterator[Mutant]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            scope = f"{scope}.{node.name}" if scope else node.name
        for field, value in ast.iter_fields(node):
            if field in _NOT_CODE or (isinstance(node, ast.ClassDef) and field in ("keywords", "bases")):
                continue
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, ast.AST):
                        yield from self._at(node, field, index, item, scope, lines)
            elif isinstance(value, ast.AST):
                yield from self._at(node, field, None, value, scope, lines)

    def _at(
        self, parent: ast.AST, field: str, index: int | None, node: ast.AST, scope: str, lines: range
    ) -> Iterator[Mutant]:
        if _is_left_alone(node, parent, field):
            return
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            lines = range(node.lineno, max(last, node.lineno) + 1)
        for other in expressions.changes(node, self.source):
            before, after = _described(node, other)
            yield Mutant(scope or "module", lines, before, after, parent, field, index, other)
        if not _is_word_row(node):
            yield from self._walk(node, scope, lines)


_TYPED = ("cast", "TypeVar")


def _is_left_alone(node: ast.AST, parent: ast.AST, field: str) -> bool:
    if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in _TYPED:
        return node is parent.args[0]  # a type, or the name of one
    if isinstance(node, ast.Assign) and isinstance(parent, ast.Module):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return "__slots__" in names or _is_type(node.value)
    if isinstance(node, ast.Assign) and isinstance(parent, ast.ClassDef):
        return any(isinstance(target, ast.Name) and target.id == "__slots__" for target in node.targets)
    return isinstance(parent, ast.Subscript) and field == "slice" and _is_type(node)


def _is_type(node: ast.AST) -> bool:
    """Whether an expression only names types: an alias, or what stands in the brackets of one."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id in _GENERIC
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr) and all(
            isinstance(side, ast.Name) or _is_type(side) for side in (node.left, node.right)
        )
    return isinstance(node, ast.Tuple) and any(isinstance(part, ast.Name) for part in node.elts)


def _is_word_row(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "split"
        and isinstance(node.func.value, ast.Constant)
    )


def _lines_run_at_import(tree: ast.Module) -> set[int]:
    """The lines that are no part of any function's body."""
    lines = set(range(1, max((part.end_lineno or 1 for part in tree.body), default=1) + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            lines -= set(range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _described(node: ast.AST, other: ast.AST) -> tuple[str, str]:
    """Both as text; of long ones, the place where they differ."""
    before, after = _text(node), _text(other)
    if max(len(before), len(after)) <= _MOST_TEXT:
        return before, after
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    start = max(0, same - 30)
    return tuple(("..." if start else "") + text[start : start + 70] for text in (before, after))


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.comprehension):
        return " ".join(f"if {ast.unparse(test)}" for test in node.ifs) or "no if"
    return ast.unparse(node).splitlines()[0]
