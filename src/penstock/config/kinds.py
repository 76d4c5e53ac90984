"""What a key of a configuration file is, and what its value may be."""

from __future__ import annotations

import enum

from msgspec import Struct


class Kind(enum.Enum):
    """What a value may be."""

    TEXT = "a text"
    TEXTS = "a text or a list of texts"
    TEXT_MAP = "names with texts"
    FLAG = "true or false"
    DURATION = "a duration like 30s, 500ms or 2m, or milliseconds"
    ADDRESS = "PORT or HOST:PORT"
    WORD = "a word or a number"
    COUNT = "a whole number above zero"
    SIZE = "a size like 50MB or 10MiB, or bytes"
    CHOICE = "one of a few words"
    SECTION = "a section"
    SECTION_MAP = "names with a section each"
    SECTIONS = "a list of sections"
    MESSAGE = "a JSON-RPC message, as an object or as JSON text"
    FILE_SIZE = "a size like 256MiB, at least 4 KiB"
    NUMBER = "a whole number"
    CODE = "an error code, a whole number below zero"
    WORKERS = "a whole number above zero, or auto"
    ANY = "anything"


class Key(Struct, frozen=True):
    """One key of a section."""

    name: str
    kind: Kind
    meaning: str
    choices: tuple[str, ...] = ()  # of a section: words that stand for a section with only its first key
    section: str = ""  # for a section: its rows in SECTIONS
