"""The lines of a file that a change would change, as people may see them: secrets are masked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from penstock.policy.masks import MASK, mask_secrets
from penstock.wire.mcp.replies import one_line

_LONGEST = 400  # characters of a line; some files are one line
_SECRET_NAME = re.compile(
    r"""(?i)(["']?[\w-]*(?:key|token|secret|passw|authorization|credential|cookie)[\w-]*["']?\s*[:=]\s*)"""
    r"""(["'])(?:(?!\2).)+\2"""
)


def changed_lines(before: bytes, after: bytes) -> Iterator[str]:
    """The lines that go (-) and come (+), without those around them."""
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (before, after))
    # What is alike at both ends needs no comparing, and some files have very many lines.
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - start
    end = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from (f"-{_shown(line)}" for line in old[i:j])
            yield from (f"+{_shown(line)}" for line in new[k:m])


def _shown(line: str) -> str:
    masked = _SECRET_NAME.sub(lambda found: f"{found[1]}{found[2]}{MASK}{found[2]}", line)
    shown = one_line(str(mask_secrets(masked)).replace("\t", "  "))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ... ({len(shown):,} characters)"
