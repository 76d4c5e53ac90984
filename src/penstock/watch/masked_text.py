"""A message as it may be shown: its own text, with nothing changed but what is secret.

Not decoded and encoded anew: names that stand twice both stay, and so do order, blanks and numbers as spelt.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from penstock.observe.masking import Masker
from penstock.policy.masks import MASK

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+|\s+|"', re.DOTALL)
_MASKED = f'"{MASK}"'
_ENVELOPE = frozenset({"jsonrpc", "id", "method"})
_encode = msgspec.json.Encoder().encode


def masked_text(raw: bytes, masker: Masker) -> str:
    """The text of a message without its secrets."""
    text = raw.decode("utf-8", "replace")
    if text.lstrip()[:1] not in ("{", "["):
        return masker.loose_text(text)
    out: list[str] = []
    stack: list[tuple[bool, Any]] = []  # whether it is an object, and whether all in it is secret
    is_secret = False  # what comes next, by the name before it
    name: str | None = None
    is_name = False
    for token in _TOKEN.findall(text):
        first = token[0]
        if first.isspace():
            out.append(token)
        elif first in "{[":
            stack.append((first == "{", is_secret or bool(stack and stack[-1][1])))
            is_name, is_secret, name = first == "{", False, None
            out.append(token)
        elif first in "}]":
            if stack:
                stack.pop()
            is_name, is_secret = False, False
            out.append(token)
        elif first == ",":
            is_name, is_secret, name = bool(stack and stack[-1][0]), False, None
            out.append(token)
        elif first == ":":
            is_name = False
            out.append(token)
        elif is_name and first == '"':
            name = _decoded(token)
            is_secret = masker.is_secret_key(name) or bool(stack and stack[-1][1])
            shown = masker.text(name)
            out.append(token if shown == name else _encode(shown).decode())
        elif is_secret or (stack and stack[-1][1]):
            out.append(token if token in ("null", '""') else _MASKED)
        elif first == '"' and not (len(stack) == 1 and name in _ENVELOPE):
            out.append(_masked_string(token, masker))
        else:
            out.append(token)
    return "".join(out)


def _decoded(token: str) -> str:
    try:
        return msgspec.json.decode(token.encode("utf-8", "surrogatepass"), type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return token.strip('"')


def _masked_string(token: str, masker: Masker) -> str:
    if len(token) < 10:
        return token
    value = _decoded(token)
    shown = masker.loose_text(value)
    if shown == value:
        shown = masker.value(value)
    if shown == value or (isinstance(shown, str) and MASK not in shown):
        return token  # JSON within a text may have been written anew; without a secret it stays as it was
    return _encode(shown).decode()
