"""Texts with a few values of the message in them: `${session_id}:${method}`.

What is inserted is data: it is never looked at again, so nothing that a client sends can name a further
value. `$${` stands for `${` itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.json_values import text_of
from penstock.policy.rules.message_parts import method_of, params_of
from penstock.policy.rules.paths import BadPath, Path, parse_path, spliced
from penstock.wire.mcp.message import Message

NAMES = ("session_id", "method", "params_hash", "client_name", "profile", "param.PATH")

_PROGRESS = parse_path("_meta.progressToken")
_HOLE = re.compile(r"\$\$\{|\$\{([^}]*)\}|\$\{")


class BadTemplate(ValueError):
    """The text is no template."""

    def __init__(self, why: str, name: str = "") -> None:
        super().__init__(why)
        self.name = name


class Template(Struct, frozen=True):
    """Literal texts and, between them, what is to be inserted."""

    source: str
    pieces: tuple[str | Hole, ...]

    def __str__(self) -> str:
        return self.source

    def render(self, message: Message, context: Context) -> str:
        """The text with its holes filled."""
        return "".join(self.filled(message, context))

    def filled(self, message: Message, context: Context) -> list[str]:
        """The same in pieces, one for each literal and each hole, so that a key can tell them apart."""
        return [
            piece if isinstance(piece, str) else _tame(piece.fill(message, context)) for piece in self.pieces
        ]

    def counted(self, message: Message, context: Context) -> list[list[str]] | None:
        """The keys under which a message counts, one for each value that somebody could read in a hole.

        However a value is spelt it is one key, and one that is written beside it makes no new one. None when
        there are more values than anybody should count.
        """
        keys: list[list[str]] = [[]]
        for piece in self.pieces:
            values = [piece] if isinstance(piece, str) else piece.values(message, context)
            if len(keys) * len(values) > limits.TEMPLATE_VALUES:
                return None
            keys = [[*key, _tame(value)] for key in keys for value in values]
        return keys


def _tame(value: str) -> str:
    value = value[: limits.TEMPLATE_VALUE]
    # Half a surrogate pair cannot be written as UTF-8.
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


class Hole(Struct, frozen=True):
    """A place where a value goes."""

    name: str
    path: Path | None = None

    def fill(self, message: Message, context: Context) -> str:
        """What goes here; an empty text when there is nothing of the kind."""
        if self.path is not None:
            return ",".join(_shown_values(self.path, message, context))
        if self.name == "session_id":
            return context.session.id
        if self.name == "method":
            return method_of(message, context) or ""
        if self.name == "client_name":
            return context.session.client_name or ""
        if self.name == "profile":
            return context.session.profile or "all"
        return params_hash(message, context)

    def values(self, message: Message, context: Context) -> list[str]:
        """Everything that somebody could read here, in one form of each value."""
        if self.path is None:
            return [self.fill(message, context)]
        tokens = _tokens(self.path, message, context, limits.TEMPLATE_VALUES + 1)
        return sorted({_one_form(token) for token in tokens}) or [""]


class JsonTemplate(Struct, frozen=True):
    """A JSON value whose texts may be templates. What is inserted is part of a string, never of the JSON."""

    tree: Any

    def __str__(self) -> str:
        return msgspec.json.encode(_with_texts(self.tree, str)).decode()

    def render(self, message: Message, context: Context) -> bytes:
        """The value as JSON."""
        return msgspec.json.encode(_with_texts(self.tree, lambda part: part.render(message, context)))


def _with_texts(part: Any, text: Callable[[Template], str]) -> Any:
    if isinstance(part, Template):
        return text(part)
    if isinstance(part, dict):
        return {name: _with_texts(inner, text) for name, inner in part.items()}
    return [_with_texts(inner, text) for inner in part] if isinstance(part, list) else part


def parse_template(source: str) -> Template:
    """The template that `source` spells. Raises BadTemplate."""
    pieces: list[str | Hole] = []
    position = 0
    for found in _HOLE.finditer(source):
        pieces.append(source[position : found.start()])
        position = found.end()
        name = found[1]
        if found[0] == "$${":
            pieces.append("${")
        elif name is None:
            raise BadTemplate("${ is never closed; write $${ for the characters themselves")
        else:
            pieces.append(_hole(name))
    pieces.append(source[position:])
    return Template(source, tuple(piece for piece in pieces if piece != ""))


def _hole(name: str) -> Hole:
    if name.startswith("param."):
        try:
            return Hole("param", parse_path(name.removeprefix("param.")))
        except BadPath as why:
            raise BadTemplate(f"${{{name}}}: {why}") from None
    if name not in NAMES:
        raise BadTemplate(f"there is no ${{{name}}}", name)
    return Hole(name)


def params_hash(message: Message, context: Context) -> str:
    """A digest of params as written, which tells any two apart."""
    return digest([plain_params(message, context)]).hex()


def plain_params(message: Message, context: Context) -> bytes:
    """The params as written, without the token for progress: it is new for each request and means nothing."""
    place = params_of(message, context)
    if place is None:
        return b""
    raw = place.text[place.start : place.end]
    return spliced(raw, _PROGRESS.edits_to_remove(raw, 0, len(raw))) if b"progressToken" in raw else raw


def digest(fields: Iterable[str | bytes]) -> bytes:
    """A short key for all the fields, each with its length, so that no two lists of fields look the same."""
    from hashlib import blake2b  # only for rules that make keys

    state = blake2b(digest_size=16)
    for field in fields:
        raw = field if isinstance(field, bytes) else field.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(raw))
        state.update(raw)
    return state.digest()


def _shown_values(path: Path, message: Message, context: Context) -> list[str]:
    return [
        text_of(token) if token.startswith(b'"') else token.decode("utf-8", "replace")
        for token in _tokens(path, message, context, limits.TEMPLATE_VALUES)
    ]


def _tokens(path: Path, message: Message, context: Context, most: int) -> list[bytes]:
    place = params_of(message, context)
    if place is None:
        return []
    spans = itertools.islice(path.find(place.text, place.start, place.end), most)
    return [place.text[span.start : span.end] for span in spans]


def _one_form(token: bytes) -> str:
    """A value in the one form that it has however it was written: 1, 1.0 and 1e0 are the same."""
    if token.startswith(b'"'):
        return text_of(token).partition("\0")[0]
    import json

    return json.dumps(json.loads(token, parse_int=float), sort_keys=True)
