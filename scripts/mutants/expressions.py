"""Small changes to one expression or statement, each of which some test should notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

import patterns

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitXor: ast.BitOr,
}
_NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
_METHODS = {
    "startswith": "endswith",
    "endswith": "startswith",
    "strip": "lstrip",
    "lstrip": "rstrip",
    "rstrip": "lstrip",
    "find": "rfind",
    "lower": "upper",
    "match": "search",
    "fullmatch": "match",
    "search": "match",
}
_DROPPED_CALLS = {"removeprefix", "casefold", "partition"}


def changes(node: ast.AST, source: str) -> Iterator[ast.AST]:
    """Everything that may stand in the place of `node`, one at a time."""
    maker = _MAKERS.get(type(node))
    if maker is not None:
        yield from maker(node, source)


def _compare(node: ast.Compare, _: str) -> Iterator[ast.AST]:
    for place, operator in enumerate(node.ops):
        other = copy.deepcopy(node)
        other.ops[place] = _COMPARISONS[type(operator)]()
        yield other


def _bool_op(node: ast.BoolOp, _: str) -> Iterator[ast.AST]:
    # Leaving one operand out asks more of the tests than turning `and` into `or` does.
    for place in range(len(node.values)):
        rest = node.values[:place] + node.values[place + 1 :]
        yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _unary_op(node: ast.UnaryOp, _: str) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield node.operand


def _bin_op(node: ast.BinOp, _: str) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Add | ast.BitOr):
        # a - b would be a TypeError wherever bytes are joined; leaving one out is what a slip looks like.
        yield node.left
        yield node.right
    elif isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return  # formatting, whose text is changed as a constant
    elif type(node.op) in _ARITHMETIC:
        yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)


def _constant(node: ast.Constant, source: str) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, str | bytes):
        found = list(patterns.changes(value)) if _is_raw(node, source) else []
        if found:
            yield from map(ast.Constant, found)
        else:
            yield ast.Constant("XX" + value if isinstance(value, str) else b"XX" + value)


def _is_raw(node: ast.Constant, source: str) -> bool:
    """Raw literals are regular expressions in this code base, or parts of one."""
    written = ast.get_source_segment(source, node) or ""
    return "r" in written.partition("'")[0].partition('"')[0].lower()


def _elements(node: ast.List | ast.Set | ast.Tuple, _: str) -> Iterator[ast.AST]:
    # Only rows of constants and of names (types, exceptions): a shorter tuple of anything else just raises.
    if len(node.elts) > 1 and all(
        isinstance(part, ast.Constant | ast.Name | ast.Attribute) for part in node.elts
    ):
        if isinstance(node, ast.Tuple) and not isinstance(node.ctx, ast.Load):
            return
        for place in range(len(node.elts)):
            other = copy.copy(node)
            other.elts = node.elts[:place] + node.elts[place + 1 :]
            yield other


def _dict(node: ast.Dict, _: str) -> Iterator[ast.AST]:
    for place in range(len(node.keys)):
        yield ast.Dict(
            node.keys[:place] + node.keys[place + 1 :], node.values[:place] + node.values[place + 1 :]
        )


def _call(node: ast.Call, _: str) -> Iterator[ast.AST]:
    function = node.func
    if isinstance(function, ast.Name) and function.id in _NAMES:
        yield ast.Call(ast.Name(_NAMES[function.id], ast.Load()), node.args, node.keywords)
    if not isinstance(function, ast.Attribute):
        return
    if function.attr in _METHODS:
        changed = ast.Attribute(function.value, _METHODS[function.attr], ast.Load())
        yield ast.Call(changed, node.args, node.keywords)
    if function.attr in _DROPPED_CALLS:
        yield function.value
    if function.attr == "split" and isinstance(function.value, ast.Constant) and not node.args:
        words = str(function.value.value).split()
        for place in range(len(words)):
            rest = " ".join(words[:place] + words[place + 1 :])
            yield ast.Call(ast.Attribute(ast.Constant(rest), "split", ast.Load()), [], [])
    if function.attr == "compile" and len(node.args) == 2:
        yield ast.Call(function, node.args[:1], node.keywords)


def _attribute(node: ast.Attribute, _: str) -> Iterator[ast.AST]:
    if node.attr == "fullmatch" and isinstance(node.value, ast.Call):
        yield ast.Attribute(node.value, "match", node.ctx)


def _negated(node: ast.If | ast.While | ast.IfExp, _: str) -> Iterator[ast.AST]:
    # Comparisons and boolean operators inside are changed on their own.
    if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
        other = copy.copy(node)
        other.test = ast.UnaryOp(ast.Not(), node.test)
        yield other


def _comprehension(node: ast.comprehension, _: str) -> Iterator[ast.AST]:
    for place in range(len(node.ifs)):
        other = copy.copy(node)
        other.ifs = node.ifs[:place] + node.ifs[place + 1 :]
        yield other


def _slice(node: ast.Slice, _: str) -> Iterator[ast.AST]:
    if node.lower is not None:
        yield ast.Slice(None, node.upper, node.step)
    if node.upper is not None:
        yield ast.Slice(node.lower, None, node.step)


def _aug_assign(node: ast.AugAssign, _: str) -> Iterator[ast.AST]:
    yield ast.Pass()
    yield ast.copy_location(ast.Assign([node.target], node.value), node)
    if isinstance(node.value, ast.Constant) and isinstance(node.op, ast.Add):
        yield ast.AugAssign(node.target, ast.Sub(), node.value)


def _expression(node: ast.Expr, _: str) -> Iterator[ast.AST]:
    if not isinstance(node.value, ast.Constant):
        yield ast.Pass()


def _assign(node: ast.Assign, _: str) -> Iterator[ast.AST]:
    if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
        yield ast.Pass()


def _removed(node: ast.stmt, _: str) -> Iterator[ast.AST]:
    yield ast.Pass()


def _continue(node: ast.Continue, _: str) -> Iterator[ast.AST]:
    yield ast.Break()


_MAKERS = {
    ast.Compare: _compare,
    ast.BoolOp: _bool_op,
    ast.UnaryOp: _unary_op,
    ast.BinOp: _bin_op,
    ast.Constant: _constant,
    ast.List: _elements,
    ast.Set: _elements,
    ast.Tuple: _elements,
    ast.Dict: _dict,
    ast.Call: _call,
    ast.Attribute: _attribute,
    ast.If: _negated,
    ast.While: _negated,
    ast.IfExp: _negated,
    ast.comprehension: _comprehension,
    ast.Slice: _slice,
    ast.AugAssign: _aug_assign,
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.Raise: _removed,
    ast.Break: _removed,
    ast.Delete: _removed,
    ast.Continue: _continue,
}
