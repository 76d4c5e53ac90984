"""Benign sessions of the Berkeley function calling leaderboard: the ground truth of its multi-turn tasks."""

from __future__ import annotations

import ast
import json
import zipfile
from pathlib import Path
from typing import Any

from trials.learning.agentdojo import Run, Step

PACKAGE = "bfcl-eval"
_TASKS = "bfcl_eval/data/possible_answer/BFCL_v4_multi_turn_base.json"


def sessions(wheel: Path) -> list[Run]:
    """One session for each task; what the calls answered is not in the wheel."""
    with zipfile.ZipFile(wheel) as packed:
        lines = packed.read(_TASKS).decode().splitlines()
    out = []
    for line in lines:
        task = json.loads(line)
        calls = [_call(text) for turn in task["ground_truth"] for text in turn]
        out.append(Run("bfcl", task["id"], tuple(calls)))
    return out


def _call(text: str) -> Step:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call)
    arguments: dict[str, Any] = {f"arg{place}": _value(arg) for place, arg in enumerate(node.args)}
    arguments |= {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    return Step(ast.unparse(node.func), arguments, "")


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)
