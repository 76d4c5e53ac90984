"""Shell patterns, as people write them for file names and tool names, turned into regular expressions."""

from __future__ import annotations

import re

_PIECE = re.compile(r"\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def glob_source(text: str, star: str = ".*", one: str = ".") -> str:
    """The regular expression that a shell pattern means, without anchors.

    `star` and `one` are what * and ? stand for; ** is anything at all, [...] one of some characters.
    """
    pieces = []
    for piece in _PIECE.findall(text):
        if piece == "**":
            pieces.append(".*")
        elif piece == "*":
            pieces.append(star)
        elif piece == "?":
            pieces.append(one)
        elif piece.startswith("[") and len(piece) > 1:
            inner = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            pieces.append(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
        else:
            pieces.append(re.escape(piece))
    return "".join(pieces)
