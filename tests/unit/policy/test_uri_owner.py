"""Whose a resource is: templates, patterns, links and the order of trust."""

from __future__ import annotations

import pytest

from penstock.policy.several.terms import MemberTerms
from penstock.policy.several.uri_owner import OwnedUris, UriTemplate, maybe_owner


@pytest.mark.parametrize(
    ("template", "uri", "fits"),
    [
        ("file:///{name}", "file:///a", True),
        ("file:///{name}", "file:///a/b", False),
        ("file:///{+path}", "file:///a/b", True),
        ("x://{a}{?q,r}", "x://a?q=1&r=2", True),
        ("x://{a}{?q}", "x://a", True),
        ("x://{a}{?q}", "x://a#q", False),
        ("x://{a}/y/{b}", "x://1/y/2", True),
        ("x://{a}/y/{b}", "x://1/z/2", False),
        ("x://{a}.txt", "x://1.txt", True),
        ("x://{a}.txt", "x://1.pdf", False),
        ("x://plain", "x://plain", True),
        ("x://plain", "x://plain2", False),
        ("x://{a}{b}{c}{d}{e}{f}{g}{h}", "x://" + "a" * 5000 + "/", False),
    ],
)
def test_what_a_template_may_become(template: str, uri: str, fits: bool) -> None:
    assert UriTemplate(template).fits(uri) is fits


def test_the_order_of_trust_decides_and_nobody_has_what_nobody_showed() -> None:
    members = [MemberTerms("one", "one"), MemberTerms("two", "two")]
    owned = {"one": OwnedUris(), "two": OwnedUris()}
    owned["one"].take(["a:1"], [])
    owned["two"].take(["a:1", "a:2"], ["b:{x}"])
    both = ["one", "two"]
    found = [
        maybe_owner(uri, members, owned, {"c:1": "two"}, both) for uri in ("a:1", "a:2", "b:9", "c:1", "d:1")
    ]
    assert found == ["one", "two", "two", "two", None]
    assert maybe_owner("d:1", members, owned, {}, ["two"]) == "two"
