"""The section `variants`: several rule sets, and which sessions have which."""

from __future__ import annotations

import os
from typing import Any, cast

from msgspec import Struct

from penstock.config.check import Findings, Section

_WHOLE = 100
_reading: list[str] = []  # the files of sets that are being read


class VariantSet(Struct, frozen=True):
    """One rule set."""

    name: str
    share: int = 0  # per cent of the sessions
    file: str | None = None  # None: the rules of the configuration itself
    is_shadow: bool = False
    config: Any = None  # of the file: a FileConfig


class Variants(Struct, frozen=True):
    """All of them."""

    sets: tuple[VariantSet, ...]
    salt: str = ""
    split_by: str = "session"

    @property
    def live(self) -> tuple[VariantSet, ...]:
        """Those that decide."""
        return tuple(one for one in self.sets if not one.is_shadow)

    @property
    def shadows(self) -> tuple[VariantSet, ...]:
        """Those that only watch."""
        return tuple(one for one in self.sets if one.is_shadow)


def read_variants(section: Section | None, path: str, findings: Findings) -> Variants | None:
    """What the section asks for; None where there is none. Files are looked for beside `path`."""
    if section is None:
        return None
    from penstock.config.file import load_file
    from penstock.errors import ConfigError

    if _reading:
        findings.add(("variants",), "a file that is a set of another has no variants itself")
        return None

    sets: list[VariantSet] = []
    for place, entry in enumerate(cast("list[Section]", section.get("sets") or [])):
        where = ("variants", "sets", place)
        name, file = str(entry.get("name") or ""), cast("str | None", entry.get("file"))
        if not name or name in (one.name for one in sets):
            findings.add(where, "each set needs a name of its own")
        is_shadow, share = bool(entry.get("shadow")), cast("int", entry.get("share", 0))
        if is_shadow == bool(share) or not 0 <= share <= _WHOLE:
            findings.add(where, "a set has a share from 1 to 100, or is a shadow")
        config = None
        if file is not None:
            _reading.append(file)
            try:
                config = load_file(os.path.join(os.path.dirname(path), file))
            except ConfigError as error:
                findings.add_error((*where, "file"), error)
            finally:
                _reading.pop()
        elif is_shadow:
            findings.add(where, "a shadow needs a file")
        sets.append(VariantSet(name, share, file, is_shadow, config))
    if sum(one.share for one in sets) != _WHOLE:
        findings.add(("variants",), "the shares of the sets must make 100")
    return Variants(tuple(sets), str(section.get("salt", "")), str(section.get("split_by", "session")))
