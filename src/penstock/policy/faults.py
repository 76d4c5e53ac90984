"""What is wrong with a configuration, where, and what was probably meant: one wording for every section."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Place = tuple[str | int, ...]
"""Names and numbers from the top of a file, or of a section of it, down to a value."""


class Fault(Struct, frozen=True):
    """One thing that is wrong."""

    path: Place
    message: str
    hint: str | None = None
    about: Literal["value", "name", "whole"] = "value"  # the last step's value or its name; or all is said

    def sentence(self, before: Place = ()) -> str:
        """What is wrong and where; `before` leads to the section that `path` begins in."""
        place = (*before, *self.path)
        if self.about == "whole":
            return self.message
        if self.about == "name":
            return f"{self.message} in {spoken_place(place[:-1])}"
        joint = " " if self.message.startswith(_PREDICATES) else ": "
        return f"{spoken_place(place)}{joint}{self.message}"

    def __str__(self) -> str:
        return self.sentence() + (f"; {self.hint}" if self.hint else "")


_PREDICATES = ("must ", "is ", "needs ", "need ", "nests ", "waits ")


def spoken_place(place: Place) -> str:
    """A place as people write it: `rules[2].actions[0].block`."""
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else (f".{step}" if text else step)
    return text or "the file"


def did_you_mean(word: object, known: Iterable[str]) -> str | None:
    """A hint at the known word that is most like `word`, however it is joined; None when none is."""
    import difflib  # only for those who mistype

    folded = {_folded(name): name for name in reversed(list(known))}
    match = difflib.get_close_matches(_folded(str(word)), folded, 1, 0.6)
    return f'did you mean "{folded[match[0]]}"?' if match else None


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
