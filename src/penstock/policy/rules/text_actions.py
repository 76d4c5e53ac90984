"""Actions that change texts: replace what a pattern finds, cut what is too long.

Only the strings that change are written anew; every other byte of the message stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

from msgspec import Struct

from penstock.policy.binder import Misread
from penstock.policy.patterns.patterns import Pattern
from penstock.policy.rules.json_values import json_within, plain_json, text_of
from penstock.policy.rules.message_parts import member_place
from penstock.policy.rules.paths import Change, Path, parse_path, spliced
from penstock.policy.rules.rule_run import RuleRun
from penstock.policy.rules.templates import Template, parse_template
from penstock.wire.json.json_walk import first_byte
from penstock.wire.sizes import spoken_size

_EVERYWHERE = parse_path("**")


class Replace(Struct, frozen=True):
    """Puts `with` in the place of whatever the pattern finds, in params or in the result.

    Without `field`: in every text there, names of members left as they are.
    """

    pattern: Pattern
    with_: Template = parse_template("")
    field: Path = _EVERYWHERE

    def __post_init__(self) -> None:
        if self.pattern.found_in(""):
            raise Misread(f'the pattern "{self.pattern.source}" is found everywhere, even in no text at all')

    def words(self) -> str:
        return f'put "{self.with_}" in the place of {self.pattern.source} in {_spoken(self.field)}'

    def apply(self, scene: RuleRun) -> None:
        by = self.with_.render(scene.message, scene.context)
        _change_texts(scene, self.field, lambda token: self._replaced(token, by))

    def _replaced(self, token: bytes, by: str) -> bytes:
        """The string with the matches replaced, those too that are escaped in JSON that the text holds."""
        before = text_of(token)
        after = self.pattern.replaced(before, by)
        changed = token if after == before else plain_json(after)
        inner = json_within(changed)
        if inner is None:
            return changed
        edits = _EVERYWHERE.edits_to_change(
            inner, 0, len(inner), _texts_only(lambda t: self._replaced(t, by))
        )
        return plain_json(spliced(inner, edits).decode("utf-8", "surrogatepass")) if edits else changed


class Truncate(Struct, frozen=True):
    """Cuts texts that are longer than `bytes` (in UTF-8), at a whole character, and adds the note."""

    bytes: Annotated[int, "size"]
    field: Path = _EVERYWHERE
    note: Template = parse_template("")
    short: ClassVar[str] = "bytes"

    def words(self) -> str:
        return f"cut {_spoken(self.field)} after {spoken_size(self.bytes)}"

    def apply(self, scene: RuleRun) -> None:
        note = self.note.render(scene.message, scene.context)
        _change_texts(scene, self.field, lambda token: _cut(token, self.bytes, note))


def _spoken(field: Path) -> str:
    return "every text" if field == _EVERYWHERE else str(field)


def _cut(token: bytes, size: int, note: str) -> bytes:
    raw = text_of(token).encode("utf-8", "surrogatepass")
    if len(raw) <= size:
        return token
    end = size
    while end and raw[end] & 0xC0 == 0x80:  # in the middle of a character
        end -= 1
    return plain_json(raw[:end].decode("utf-8", "surrogatepass") + note)


def _texts_only(change: Callable[[bytes], bytes]) -> Change:
    """The change, made in strings only."""

    def changed(token: bytes) -> bytes | None:
        after = change(token) if first_byte(token, 0) == b'"' else token
        return None if after == token else after

    return changed


def _change_texts(scene: RuleRun, field: Path, change: Callable[[bytes], bytes]) -> None:
    place = member_place(scene.message, "params" if scene.message.method is not None else "result")
    if place is not None:
        edits = field.edits_to_change(place.text, place.start, place.end, _texts_only(change))
        scene.edit(edits)
