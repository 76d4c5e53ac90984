"""What `transform` masks, and that it takes no longer than the text is long."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.policy.masks import SECRETS, mask_emails, mask_secrets

_KEY = "PRIVATE" + " KEY"  # in two, so that nobody takes this page for one
_TOKEN = "eyJ" + "a" * 20 + "." + "b" * 20 + "." + "c" * 20


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("mail a.b+c@d-e.example.org now", "mail [masked] now"),
        ("<x@y.de>,z@q.io", "<[masked]>,[masked]"),
        ("l" * 100 + "@w.com", "[masked]"),
        ("a@b@c.de", "a@[masked]"),
        ("x@y", "x@y"),
        ("@y.de a@ .@ a@.de", "@y.de a@ .@ a@.de"),
        ("a@b.c", "a@b.c"),
        ("plain words, 5 % of them", "plain words, 5 % of them"),
    ],
)
def test_mail_addresses_are_masked(text: str, masked: str) -> None:
    assert mask_emails(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"Bearer {_TOKEN}", "Bearer [masked]"),
        (f"x{_TOKEN};{_TOKEN}", "x[masked];[masked]"),
        ("eyJabc." + _TOKEN, "eyJabc.[masked]"),
        ("eyJ" + "a" * 20 + "." + "b" * 20, "eyJ" + "a" * 20 + "." + "b" * 20),
        ("AKIA" + "A1" * 8, "[masked]"),
        ("ASIA" + "A1" * 8, "[masked]"),
        ("AKIA" + "A" * 15, "AKIA" + "A" * 15),
        ("ghp_" + "a" * 36, "[masked]"),
        ("ghp_" + "a" * 35, "ghp_" + "a" * 35),
        ("xoxb-" + "1" * 10, "[masked]"),
        ("sk-" + "a_" * 10, "[masked]"),
        (f"-----BEGIN RSA {_KEY}-----", "[masked]"),
        (f"-----BEGIN {_KEY}-----", "[masked]"),
        (f"a -----BEGIN {_KEY}-----\nMIIE-x\n-----END {_KEY}----- b", "a [masked] b"),
        (f"-----BEGIN {_KEY}-----\nDEK-Info: AES-128\n\nMIIE", "[masked]"),
        ("eyJ" + "a" * 20 + "." + "b" * 9000 + "." + "c" * 20, "[masked]"),
        ("sk-" + "a" * 400, "[masked]"),
        ("github_pat_" + "a" * 30, "[masked]"),
        ("-----BEGIN PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


def test_they_are_found_however_deep_they_lie() -> None:
    value = {"a": ["x@y.de", {"b@c.de": "x@y.de"}], "n": 5, "t": None}
    assert mask_emails(value) == {"a": ["[masked]", {"[masked]": "[masked]"}], "n": 5, "t": None}


def test_names_are_masked_too_and_none_goes_missing() -> None:
    value = {"a@b.de": 1, "x": 2, "c@d.de": 3, "e@f.de": 4}
    assert mask_emails(value) == {"[masked]": 1, "x": 2, "[masked] 2": 3, "[masked] 3": 4}


@pytest.mark.parametrize(
    "unit",
    [
        *("eyJ", "a", "a@", "a.", "eyJ" + "a" * 20 + ".", "sk-", "ghp_", "-----BEGIN ", "a@a.", "a@a-"),
        *(f"-----BEGIN {_KEY}-----", f"-----BEGIN {_KEY}------", "xoxb-", "github_pat_"),
    ],
)
def test_a_text_full_of_beginnings_is_looked_at_once(unit: str) -> None:
    """Begun anew at each of them, this took minutes; the limit of the test run would end it."""
    text = unit * (10_000_000 // len(unit))
    assert mask_emails(text[:1_000_000]) is not None
    assert len(mask_secrets(text)) <= len(text)


def test_the_page_about_rules_says_what_is_masked_all_of_it() -> None:
    page = (Path(__file__).parents[4] / "docs" / "rules.md").read_text()
    (told,) = [part for part in page.split("\n\n") if "`mask_secrets` masks what" in part]
    told = " ".join(told.split())
    for name in SECRETS:
        assert name in told
    listed = told.split("its looks: ")[1].split(". Passwords")[0]
    assert len(listed.replace(", and ", ", ").split(", ")) == len(SECRETS)
