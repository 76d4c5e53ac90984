"""What is wrong with a configuration, where, and what was probably meant: one wording for every section."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

Place = tuple[str | int, ...]
"""Names and numbers from the top of a file, or of a section of it, down to a value."""


class Fault(Struct, frozen=True):
    """One thing that is wrong."""

    path: Place
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{spoken_place(self.path)}: {self.message}" + (f"; {self.hint}" if self.hint else "")


def spoken_place(place: Place, root: str = "interceptor") -> str:
    """A place as people write it: `rules[2].actions[0].block`; `root` stands for the top."""
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else (f".{step}" if text else step)
    return text or root


def did_you_mean(word: object, known: Iterable[str]) -> str | None:
    """A hint at the known word that is most like `word`, however it is joined; None when none is."""
    import difflib  # only for those who mistype

    folded = {_folded(name): name for name in reversed(list(known))}
    match = difflib.get_close_matches(_folded(str(word)), folded, 1, 0.6)
    return f'did you mean "{folded[match[0]]}"?' if match else None


def _folded(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
