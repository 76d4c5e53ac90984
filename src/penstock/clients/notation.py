"""How words and members are written in JSON, TOML and YAML."""

from __future__ import annotations

import json
import re
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_PLAIN = re.compile(r"[A-Za-z_/.~][A-Za-z0-9_/.@+~-]*\Z")
_NOT_TEXT = frozenset("true false null yes no on off y n ~ . ..".split())


def value_text(form: str, value: Any) -> str:
    """`value` on one line, in the notation of `form`."""
    if isinstance(value, str):
        return text_text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(value_text(form, inner) for inner in value)}]"
    if isinstance(value, dict):
        joint = " = " if form == "toml" else ": "
        pairs = [f"{key_text(form, name)}{joint}{value_text(form, inner)}" for name, inner in value.items()]
        return f"{{{', '.join(pairs)}}}"
    return json.dumps(value)


def text_text(text: str) -> str:
    """A text in double quotes, which all three read alike."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def key_text(form: str, name: str) -> str:
    """A key as one writes it."""
    if form == "toml" and _BARE_KEY.match(name):
        return name
    if form == "yaml" and is_plain(name):
        return name
    return text_text(name)


def like_before(form: str, before: str, value: Any) -> str:
    """`value` in the style of what stands there now: a plain YAML word stays plain where it can."""
    if form == "yaml" and isinstance(value, str) and before[:1] not in "\"'" and is_plain(value):
        return value
    if form in ("yaml", "toml") and isinstance(value, str) and before[:1] == "'" and "'" not in value:
        return f"'{value}'" if value.isprintable() else text_text(value)
    return value_text(form, value)


def is_plain(text: str) -> bool:
    """Whether YAML reads `text` without quotes as just that text."""
    return bool(_PLAIN.match(text)) and text.lower() not in _NOT_TEXT
