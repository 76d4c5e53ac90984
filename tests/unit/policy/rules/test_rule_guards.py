"""The two method interceptors that come along, and the one form of every resource URI."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenes import Pass, error_of, interceptor, request, send, session

from penstock.policy.rules.interceptor_config import build
from penstock.policy.rules.method_guards import ResourceAccessConfig, ResourceAccessInterceptor
from penstock.policy.rules.resource_uris import OddUri, locate

TOOLS = {
    "tools/call": {
        "class": "ToolCallInterceptor",
        "config": {"allowed_tools": ["read"], "rate_limit": {"per_minute": 2}},
    }
}


def test_only_allowed_tools_are_called_and_only_so_often() -> None:
    box = interceptor(method_interceptors=TOOLS)
    assert error_of(send(box, request("tools/call", {"name": "rm"})))["message"] == "Tool not allowed: rm"
    assert error_of(send(box, request("tools/call", {"name": 1})))["message"] == "The call names no tool"
    state = session()
    passed = [
        isinstance(send(box, request("tools/call", {"name": "read"}), state).verdict, Pass) for _ in range(3)
    ]
    assert passed == [True, True, False]
    assert isinstance(send(box, request("tools/call", {"name": "read"}), session(id="s2")).verdict, Pass)


def test_the_rule_that_blocked_is_named() -> None:
    box = interceptor(method_interceptors=TOOLS)
    data = error_of(send(box, request("tools/call", {"name": "rm"})))["data"]
    assert data == {"rule": "method_interceptors.tools/call", "action": "ToolCallInterceptor"}


GUARD = ResourceAccessInterceptor(
    ResourceAccessConfig(
        ("/workspace", "/tmp", "https://docs.example/pub"), ("*.key", "*.pem", ".git", "/tmp/**/x")
    )
)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///workspace",
        "file:///workspace/a.txt",
        "file:///workspace/./a//b/../c",
        "file:/workspace/a",
        "FILE://LOCALHOST/workspace/a%20b",
        "file:///tmp/2024-01-01T00:00",
        "https://DOCS.example/pub/a?x=1",
    ],
)
def test_what_lies_below_an_allowed_path_may_be_read(uri: str) -> None:
    assert GUARD.allows(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        "file:///workspace/../etc/x",
        "file:///workspace/%2e%2e/etc",
        "file:///workspace-evil/x",
        "file:///Workspace/x",
        "file:///workspace/id.KEY",
        "file:///workspace/x.key/y",
        "file:///workspace/x.key::$DATA",
        "file:///workspace/.git/config",
        "file:///tmp/a/b/x",
        "https://docs.example/other",
        "https://evil.example/pub",
        "https://docs.example:8443/pub",
        "http://docs.example/pub",
        "workspace:/workspace",
    ],
)
def test_what_lies_elsewhere_may_not(uri: str) -> None:
    assert not GUARD.allows(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "/workspace/a",
        "workspace/a",
        "file:workspace",
        "file:///workspace/%252e%252e/etc",
        "file:///workspace/%2",
        "file:///workspace/%zz",
        "file:///workspace\\..\\etc",
        "file:///workspace/%5c..%5cetc",
        "file:///workspace/a\0",
        "file:///workspace/%00",
        "file:///workspace/%ff",
        "file:///workspace/a\nb",
        "file:///workspace/a b",
        "file:///workspace/x.key.",
        "file:///workspace/x.key%20",
        "file:///../etc",
        "file:///workspace/..;/etc",
        "file:///workspace/..;a=b/etc",
        "file:///workspace/.;x/etc",
        "file:///workspace/\u2024\u2024/etc",
        "file:///workspace/\u2025/etc",
        "file:///workspace/\uff0e\uff0e/etc",
        "file:///workspace/a\uff0f..",
        "file:///workspace/..%2fetc",
        "file:///workspace/a%2fb/../../../etc",
        "file:///workspace/a%2Fb/..",
        "file:///workspace/a?x",
        "file:///workspace/a#x",
        "file://evil/workspace",
        "file://evil@localhost/workspace",
        "file://[::1]/workspace",
        "https://user@docs.example/pub",
        "https://docs.example./pub",
        "https://docs%2eexample/pub",
        "https://döcs.example/pub",
    ],
)
def test_odd_uris_are_refused(uri: str) -> None:
    with pytest.raises(OddUri):
        GUARD.allows(uri)


pieces = st.sampled_from(
    [
        "..",
        ".",
        "",
        "a",
        "workspace",
        "etc",
        "%2e%2e",
        "%2E.",
        "%2f",
        "..%2f",
        "%252e",
        "a.",
        "\\",
        "%5c",
        "é",
    ]
)


@given(
    st.lists(pieces, max_size=8),
    st.sampled_from(["file:///workspace/", "file:/workspace/", "FILE://localhost/workspace/", "file:///"]),
)
def test_no_traversal_gets_out(steps: list[str], start: str) -> None:
    uri = start + "/".join(steps)
    try:
        is_allowed = ResourceAccessInterceptor(ResourceAccessConfig(("/workspace",))).allows(uri)
    except OddUri:
        return
    path = unquote(uri.split(":", 1)[1].removeprefix("//localhost").replace("//", "/", 1))
    plain = posixpath.normpath("/" + path.lstrip("/"))
    assert is_allowed == (plain == "/workspace" or plain.startswith("/workspace/"))


@given(st.text(max_size=12))
def test_every_name_that_is_not_odd_stays_itself(name: str) -> None:
    try:
        place = locate("file:///workspace/" + quote(name, safe=""))
    except (OddUri, UnicodeEncodeError):
        return
    assert place.segments[:1] == ("workspace",) or ".." in name


def test_a_symbolic_link_that_leads_out_is_refused() -> None:
    links = {
        "/workspace/out": "/etc/passwd",
        "/workspace/in": "/real/a",
        "/workspace": "/real",
        "/workspace/k": "/real/k.pem",
    }
    guard = ResourceAccessInterceptor(
        ResourceAccessConfig(("/workspace",), ("*.pem",)), lambda path: links.get(path, path)
    )
    assert guard.allows("file:///workspace/in")
    assert not guard.allows("file:///workspace/out")
    assert not guard.allows("file:///workspace/k")


def test_the_guard_blocks_with_words_that_tell_nothing() -> None:
    section: Any = {
        "resources/read": {"class": "ResourceAccessInterceptor", "config": {"allowed_paths": ["/w"]}}
    }
    box = interceptor(method_interceptors=section)
    assert isinstance(send(box, request("resources/read", {"uri": "file:///w/a"})).verdict, Pass)
    assert (
        error_of(send(box, request("resources/read", {"uri": "file:///x"})))["message"]
        == "Resource not allowed"
    )
    odd = error_of(send(box, request("resources/read", {"uri": "file:///w/%252e"})))
    assert odd["message"] == "The resource URI is not valid"
    assert error_of(send(box, request("resources/read", {})))["message"] == "The request names no resource"


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"class": "ToolCalInterceptor"}, ("class",)),
        ({"class": "no.such:Thing"}, ("class",)),
        ({"class": "json:dumps"}, ("class",)),
        ({"class": "decimal:Decimal", "config": {}}, ("config",)),
        ({"class": "ToolCallInterceptor", "config": {"allowed_tool": ["x"]}}, ("config", "allowed_tool")),
        ({"class": "ToolCallInterceptor", "config": {"rate_limit": {}}}, ("config", "rate_limit")),
        ({"class": "ResourceAccessInterceptor", "config": {"allowed_paths": ["relative"]}}, ("config",)),
    ],
)
def test_a_method_interceptor_that_cannot_be_made_is_a_fault(entry: Any, place: tuple[str, ...]) -> None:
    config, faults = build({"method_interceptors": {"tools/call": entry}})
    assert config is None
    assert [fault.path for fault in faults] == [("method_interceptors", "tools/call", *place)]


@pytest.mark.parametrize("uri", ["file:///%s/link/../key", "file:///%s/a/../link/%%2e%%2e/key"])
def test_dots_behind_a_symbolic_link_go_up_from_where_it_leads(uri: str, tmp_path: Path) -> None:
    """Who opens the path as written lands outside; who takes the dots away first, inside. Both must do."""
    inside, outside = tmp_path / "inside", tmp_path / "outside" / "deep"
    inside.mkdir()
    outside.mkdir(parents=True)
    (inside / "link").symlink_to(outside)
    (inside / "a").mkdir()
    (inside / "key").write_text("mine")
    guard = ResourceAccessInterceptor(ResourceAccessConfig((str(inside),)), os.path.realpath)
    assert guard.allows(f"file://{inside}/a/../key")
    assert not guard.allows(uri % str(inside).lstrip("/"))


@pytest.mark.parametrize("pattern", ["secrets/*", "secrets/", "**/secrets/", "?/x", ".ssh/id_rsa"])
def test_a_pattern_that_could_match_nothing_is_told(pattern: str) -> None:
    entry = {"class": "ResourceAccessInterceptor", "config": {"deny_patterns": [pattern]}}
    _, faults = build({"method_interceptors": {"resources/read": entry}})
    assert "matches nothing" in str(faults[0])


@pytest.mark.parametrize("pattern", ["/w/secrets/*", "**/secrets/*", "*.key", "[/]w/secrets/x", "/w/**"])
def test_a_pattern_for_whole_paths_begins_at_the_root_or_anywhere(pattern: str) -> None:
    guard = ResourceAccessInterceptor(ResourceAccessConfig(None, (pattern, "*.key")))
    assert not guard.allows("file:///w/secrets/x" if "key" not in pattern else "file:///w/a.key")


def test_the_hint_for_a_pattern_that_matches_nothing_is_one_that_matches() -> None:
    for text, words in (
        ("secrets/*", ["/secrets/*", "**/secrets/*"]),
        ("keys/", ["keys", "/keys", "**/keys"]),
    ):
        _, faults = build(_resources(deny_patterns=[text]))
        assert "matches nothing" in faults[0].message
        for word in words:
            assert word in str(faults[0].hint)
            assert build(_resources(deny_patterns=[word]))[1] == []
        assert f"write {text}" not in str(faults[0].hint)


def _resources(**config: object) -> dict[str, object]:
    return {
        "method_interceptors": {"resources/read": {"class": "ResourceAccessInterceptor", "config": config}}
    }


def test_two_interceptors_of_one_class_have_names_of_their_own() -> None:
    spec = {"class": "ruled_guards:Quiet"}
    config, faults = build({"interceptors": [spec, {"class": "ruled_guards:Other"}, spec]})
    assert config is not None, faults
    assert [custom.id for custom in config.generals] == [
        "ruled_guards:Quiet (interceptors[0])",
        "ruled_guards:Other",
        "ruled_guards:Quiet (interceptors[2])",
    ]
