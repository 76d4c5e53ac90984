"""Names of files of which each process has its own."""

from __future__ import annotations

import os
import re
import time

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def fit_name(name: str) -> str:
    """`name` as a part of a file's name."""
    return _UNFIT.sub("-", name).strip("-.")[:32] or "penstock"


def in_folder(path: str, name: str) -> str:
    """`path`, or, where it ends in `/`, a file in that folder that says what it is about."""
    if not path.endswith("/"):
        return path
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return os.path.join(path, f"{fit_name(name)}-{stamp}-{os.getpid()}.jsonl")
