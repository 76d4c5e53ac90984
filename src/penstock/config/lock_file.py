"""Reading a lock file: one that is missing or broken is never taken for an empty one."""

from __future__ import annotations

from penstock import limits
from penstock.errors import ConfigError
from penstock.policy.tools.tool_lock import ToolLock, parse_lock


def load_lock(path: str, is_strict: bool = False) -> ToolLock:
    """The lock in the file at `path`. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            data = file.read(limits.LIST_BYTES + 1)
    except OSError as why:
        raise ConfigError(
            f"Cannot read the lock: {path}",
            f"{why.strerror or why}; penstock lock {path} -- COMMAND makes one",
        ) from None
    if len(data) > limits.LIST_BYTES:
        raise ConfigError(f"The lock cannot be used: {path}", f"It has more than {limits.LIST_BYTES:,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"The lock cannot be used: {path}", "It is not UTF-8 text") from None
    return parse_lock(text, path, is_strict)
