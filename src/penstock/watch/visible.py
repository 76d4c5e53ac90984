"""Texts of others as people may see them: what is invisible, or would move other text, is spelt out."""

from __future__ import annotations

import re

_ODD = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_ODD_LINE = re.compile(f"{_ODD.pattern}|\n")


def visible(text: str, is_one_line: bool = True) -> str:
    """`text` with control, direction and zero-width characters as ‹U+202E›; line ends stay if they may."""
    return (_ODD_LINE if is_one_line else _ODD).sub(lambda found: f"‹U+{ord(found[0]):04X}›", text)
