"""Functions for `transform` that hide what should not be read: mail addresses, secrets.

Each takes any JSON value and gives it back with its strings masked, names included, however deep they lie.
"""

from __future__ import annotations

import re
from typing import Any

# What could be the beginning of one is taken whole, and its rest is asked for behind it. So where the rest is
# missing, the search goes on after the beginning and does not begin again at each of its characters.
_EMAIL = re.compile(
    r"[A-Za-z0-9._%+-]++"
    r"(?P<rest>@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24})?"
)
SECRETS: dict[str, str] = {
    # what it is called on the page about rules: how it looks
    "AWS access keys": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "GitHub tokens": r"gh[pousr]_[A-Za-z0-9]{36,}+|github_pat_[A-Za-z0-9_]{22,}+",
    "Slack tokens": r"xox[abprs]-[A-Za-z0-9-]{10,}+",
    "keys of model providers (sk-...)": r"sk-[A-Za-z0-9_-]{20,}+",
    # with all that follows, to its end or to that of the text
    "private keys in PEM form": r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
    r"[^-]*+(?:-(?!----END)[^-]*+)*+(?:-----END [A-Z ]{0,60}-----)?",
    "JSON Web Tokens": r"eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+",
}
"""What mask_secrets masks, and nothing else."""

_SECRETS = re.compile(f"(?P<rest>{'|'.join(SECRETS.values())})|eyJ[A-Za-z0-9_-]{{10,}}+")
MASK = "[masked]"


def mask_emails(value: Any) -> Any:
    """`value` with [masked] in place of every mail address."""
    return _in_strings(value, _EMAIL)


def mask_secrets(value: Any) -> Any:
    """`value` with [masked] in place of what SECRETS lists: keys and tokens that can be told by their looks.

    Passwords, and keys that look like any other word, stay.
    """
    return _in_strings(value, _SECRETS)


def _in_strings(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub(lambda found: MASK if found["rest"] else found[0], value)
    if isinstance(value, list):
        return [_in_strings(inner, pattern) for inner in value]
    if isinstance(value, dict):
        out: dict[str, Any] = {}
        alike: dict[str, int] = {}
        for name, inner in value.items():
            shown = _in_strings(name, pattern)
            if shown != name or shown in out:  # several may look the same now, and none may go missing
                number = alike[shown] = alike.get(shown, 0) + 1
                shown = shown if number == 1 and shown not in out else f"{shown} {number}"
            out[shown] = _in_strings(inner, pattern)
        return out
    return value
