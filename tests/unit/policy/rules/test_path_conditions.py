"""Paths in arguments stay below the roots, whoever opens them and wherever links lead."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from scenes import NotedEffects, Pass, client, request, rule, send

from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build

FIELDS = ["arguments.path", "arguments.paths", "arguments.source", "arguments.edits.*.file"]


def _box(roots: object, way: str = "block", fields: object = FIELDS) -> Interceptor:
    outside = {"path_outside": {"fields": fields, "roots": roots}}
    rules = [rule({"block": "no"}, when=[outside])]
    if way == "allow":
        rules = [rule("allow", when=[{"not": outside}], priority=1), rule({"block": "no"}, id="rest")]
    config, faults = build({"rules": rules}, os.path.realpath)
    assert config is not None, faults
    return Interceptor(config, NotedEffects())


def _passes(box: Interceptor, arguments: Any) -> bool:
    return isinstance(send(box, request(params={"name": "t", "arguments": arguments})).verdict, Pass)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inside = tmp_path / "in"
    (inside / "deep").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (inside / "way-out").symlink_to(tmp_path / "out")
    (inside / "round").symlink_to(inside / "deep")
    (tmp_path / "in-evil").mkdir()
    return inside


@pytest.mark.parametrize("way", ["block", "allow"])
@pytest.mark.parametrize(
    ("path", "is_inside"),
    [
        ("{}", True),
        ("{}/a.txt", True),
        ("{}/deep/../a", True),
        ("{}/round/x", True),
        ("{}//deep/./b", True),
        ("{}/a%20b", True),
        ("file://{}/a.txt", True),
        ("{}/../out/x", False),
        ("{}/way-out", False),
        ("{}/way-out/x", False),
        ("{}/way-out/../out/a", False),  # up from where the link leads
        ("{}-evil/x", False),
        ("{}/%2e%2e/out", False),
        ("{}/..%2fout", False),
        ("file://{}/../out", False),
        ("file://elsewhere{}/a", False),
        ("{}/a\0/../../out", False),
        ("{}\\..\\out", False),
        ('{}/way-out"', False),  # server-filesystem takes off quotes and blanks
        ("'{}/a'", False),
        ("{}/a ", False),
        ("relative/a", False),
        ("~/a", False),
        ("/", False),
        ("", False),
        ("C:\\temp", False),
    ],
)
def test_a_path_leads_below_the_root_or_not(root: Path, way: str, path: str, is_inside: bool) -> None:
    box = _box(str(root), way)
    assert _passes(box, {"path": path.format(root)}) is is_inside


def test_lists_are_looked_through_and_missing_fields_do_not_count(root: Path) -> None:
    box = _box([str(root)])
    good, bad = f"{root}/a", "/etc/passwd"
    assert _passes(box, {})
    assert _passes(box, {"other": bad})
    assert _passes(box, {"path": None})
    assert _passes(box, {"paths": [good, good]})
    assert not _passes(box, {"paths": [good, bad]})
    assert not _passes(box, {"paths": [good, 7]})
    assert not _passes(box, {"path": {"to": good}})
    assert not _passes(box, {"path": 7})
    assert not _passes(box, {"path": good, "source": bad})
    assert not _passes(box, {"edits": [{"file": good}, {"file": bad}]})


@pytest.mark.parametrize("way", ["block", "allow"])
def test_a_second_reading_of_the_field_is_looked_at_too(root: Path, way: str) -> None:
    box = _box(str(root), way)
    good, bad = f'"{root}/a"', '"/etc/passwd"'
    for arguments in (
        f'{{"path":{good},"path":{bad}}}',
        f'{{"path":{good},"PATH":{bad}}}',
        f'{{"path":{good},"\\u0070ath":{bad}}}',
        f'{{"path":{good},"__proto__":{{"source":{bad}}}}}',
    ):
        params = f'{{"name":"t","arguments":{arguments}}}'
        raw = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'
        assert not isinstance(send(box, client(raw.encode())).verdict, Pass), arguments


def test_a_link_that_is_made_later_is_followed_then(root: Path) -> None:
    box = _box(str(root))
    assert _passes(box, {"path": f"{root}/new/x"})
    (root / "new").symlink_to("/etc")
    assert not _passes(box, {"path": f"{root}/new/x"})


def test_a_root_that_is_a_link_is_where_it_leads(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    box = _box(str(tmp_path / "alias"))
    assert _passes(box, {"path": f"{tmp_path}/alias/a"})
    assert not _passes(box, {"path": f"{root}/a"})  # as it is written it is not below the root


@pytest.mark.parametrize("roots", ["relative", [], "", ["/a", 3], "/a/../..", "C:\\x"])
def test_a_root_must_be_a_whole_path(roots: object) -> None:
    _, faults = build(
        {"rules": [rule({"block": "x"}, when=[{"path_outside": {"fields": ["a"], "roots": roots}}])]}
    )
    assert faults
