"""Python modules beside the configuration file: found while the file is read, and at no other time.

The directory comes last, so nothing there takes the place of an installed module. And it is gone again once
the file is read: else whatever is imported later, such as a package that is not installed, would be looked
for in a directory that was never meant for it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def modules_beside(path: str) -> Iterator[None]:
    """Lets modules in the directory of the file at `path` be imported."""
    directory = os.path.dirname(os.path.abspath(path))
    is_new = directory not in sys.path
    if is_new:
        sys.path.append(directory)
        importlib.invalidate_caches()  # the module may be younger than our last look
    try:
        yield
    finally:
        if is_new and directory in sys.path:
            sys.path.remove(directory)
