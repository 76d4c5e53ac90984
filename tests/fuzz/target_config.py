"""The loader of configuration files: whatever is in a file, it is taken, or its faults are told."""

from __future__ import annotations

from penstock.config.file import parse_file
from penstock.errors import ConfigError, FaultyFile

_NAMES = ("a.yaml", "a.json", "a.toml", "a")
_ENVIRON = {"HOME": "/home/x", "EMPTY": ""}


def check(data: bytes) -> None:
    """The first byte picks the format; the rest is the file."""
    name, content = (_NAMES[data[0] % len(_NAMES)], data[1:]) if data else ("a", b"")
    if b"import" in content or b"class" in content or b"transform" in content:
        return  # an import path runs the code it names: that is the user's choice, and not a fuzzer's
    try:
        parse_file(name, content, _ENVIRON)
    except FaultyFile as why:
        assert why.faults, content
        for line, text in why.faults:
            assert 1 <= line <= content.count(b"\n") + content.count(b"\r") + 2 + _other_breaks(content), (
                content,
                line,
            )
            assert text.isprintable(), (content, text)
    except ConfigError as why:
        assert why.headline, content


def _other_breaks(content: bytes) -> int:
    text = content.decode("utf-8", "replace")
    return sum(text.count(char) for char in "\x85\u2028\u2029\x0b\x0c")
