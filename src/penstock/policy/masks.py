"""Functions for `transform` that hide what should not be read: mail addresses, secrets.

Each takes any JSON value and gives it back with its strings masked, however deep they lie.
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
_SECRETS = re.compile(
    r"(?P<rest>"
    r"(?:AKIA|ASIA)[A-Z0-9]{16}"  # AWS access keys
    r"|gh[pousr]_[A-Za-z0-9]{36,255}"  # GitHub tokens
    r"|xox[abprs]-[A-Za-z0-9-]{10,255}"  # Slack tokens
    r"|sk-[A-Za-z0-9_-]{20,255}"  # keys of model providers
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
    r"|eyJ[A-Za-z0-9_-]{10,4096}+\.[A-Za-z0-9_-]{10,4096}+\.[A-Za-z0-9_-]{10,4096}+"  # JSON Web Tokens
    r")|eyJ[A-Za-z0-9_-]{10,4096}+"
)
MASK = "[masked]"


def mask_emails(value: Any) -> Any:
    """`value` with [masked] in place of every mail address."""
    return _in_strings(value, _EMAIL)


def mask_secrets(value: Any) -> Any:
    """`value` with [masked] in place of everything that looks like a key or a token."""
    return _in_strings(value, _SECRETS)


def _in_strings(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub(lambda found: MASK if found["rest"] else found[0], value)
    if isinstance(value, list):
        return [_in_strings(inner, pattern) for inner in value]
    if isinstance(value, dict):
        return {name: _in_strings(inner, pattern) for name, inner in value.items()}
    return value
