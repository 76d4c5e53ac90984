"""Masking what is kept: secrets by the name of their key, by their look, and by being values that we hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import structs

from penstock.observe import bounds
from penstock.observe.record import Record
from penstock.observe.settings import MaskSettings
from penstock.observe.values import spelt_value_of, value_of
from penstock.policy.masks import MASK, mask_secrets

KEYS = (
    "password passwd secret token apikey authorization cookie credential credentials privatekey "
    "accesstoken refreshtoken clientsecret setcookie xapikey".split()
)
_FOLD = re.compile(r"[-_\s]")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}+")
_USERINFO = re.compile(r"(?<=://)[^/\s:@]{1,256}:[^/\s@]{1,256}(?=@)")
# A member in a text that may be cut: its name, the colon, and its value as far as it is there.
_MEMBER = re.compile(r'("(?:[^"\\]|\\.){0,256}")(\s{0,8}:\s{0,8})("(?:[^"\\]|\\.)*+"?|[^,}\]\s"]++)')
_WORD_END = re.compile(r"[^\s\"',;:{}\[\]()]*$")

_encode = msgspec.json.Encoder().encode


class Masker:
    """Takes secrets out of values and texts. `held` are values that we hold ourselves: headers, variables."""

    def __init__(self, settings: MaskSettings = MaskSettings(), held: Iterable[str] = ()) -> None:  # noqa: B008
        self._keys = frozenset(KEYS) | {_fold(key) for key in settings.keys}
        self._patterns = [_compile(pattern) for pattern in settings.patterns]
        self._held = _held_pattern(held)

    def text(self, text: str) -> str:
        """`text` without what looks like a secret or is one of ours."""
        if len(text) < _SHORTEST:
            return text
        if self._held is not None:
            text = self._held.sub(MASK, text)
        text = mask_secrets(text)
        if "://" in text:
            text = _USERINFO.sub(MASK, text)
        text = _BEARER.sub(lambda found: f"{found[1]} {MASK}", text)
        for pattern in self._patterns:
            text = pattern.sub(MASK, text)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value without its secrets, however deep they lie."""
        if isinstance(value, str):
            return self._inner_json(value)
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if isinstance(value, dict):
            return {
                self.text(name) if isinstance(name, str) else name: (
                    MASK if self.is_secret_key(name) and inner not in (None, "") else self.value(inner)
                )
                for name, inner in value.items()
            }
        return value

    def _inner_json(self, text: str) -> str:
        """Texts may hold JSON, whose keys tell what is secret."""
        if text[:1] in "{[" and text[-1:] in "}]" and len(text) <= bounds.AUDIT_ARGUMENT_BYTES:
            try:
                return _encode(self.value(spelt_value_of(text.encode("utf-8", "replace")))).decode()
            except ValueError:
                pass
        return self.text(text)

    def is_secret_key(self, name: Any) -> bool:
        """Whether the value under this key is secret by its name."""
        if not isinstance(name, str):
            return False
        folded = _fold(name)
        return folded in self._keys or any(folded.endswith(key) for key in ("password", "secret", "apikey"))

    def cut(self, text: str, most: int) -> str:
        """`text` masked and cut to `most` characters; a word that touches the cut goes."""
        if len(text) <= most:
            return self.text(text)
        masked = self.text(text[: most + bounds.MASK_OVERLAP_BYTES])
        kept = masked[:most]
        return _WORD_END.sub("", kept) + "…"

    def arguments(self, raw: bytes, most: int) -> object:
        """A JSON value as the audit keeps it: masked; past so many bytes the beginning of its text."""
        if len(raw) <= most:
            try:
                return self.value(value_of(raw))
            except ValueError:
                pass
        text = raw[: most + bounds.MASK_OVERLAP_BYTES].decode("utf-8", "replace")
        return self.cut(_MEMBER.sub(self._mask_member, text), most)

    def loose_text(self, text: str) -> str:
        """`text` masked, also where members of JSON stand somewhere in it."""
        return self.text(_MEMBER.sub(self._mask_member, text) if '"' in text else text)

    def _mask_member(self, found: re.Match[str]) -> str:
        try:
            name = msgspec.json.decode(found[1])
        except msgspec.DecodeError:
            name = found[1][1:-1]
        return f'{found[1]}{found[2]}"{MASK}"' if self.is_secret_key(name) else found[0]

    def message(self, raw: bytes) -> bytes:
        """A whole message, masked and encoded anew: its bytes are no longer the original's."""
        try:
            value = spelt_value_of(raw)
        except ValueError:
            text = raw.decode("utf-8", "replace")
            return self.text(_MEMBER.sub(self._mask_member, text)).encode("utf-8", "replace")
        if isinstance(value, dict) and "method" in value and len(value) <= 4:
            # The envelope's own words are no secrets, and others find the message by them.
            return _encode(
                {name: inner if name in _OPEN else self.value(inner) for name, inner in value.items()}
            )
        return _encode(self.value(value))

    def masked_record(self, record: Record) -> Record:
        """The record with its messages masked."""
        sent = record.sent if record.sent is None else self.message(record.sent)
        return structs.replace(record, raw=self.message(record.raw), sent=sent)


_SHORTEST = 8  # characters of anything that we would mask
_OPEN = frozenset({"jsonrpc", "id", "method"})


def _fold(name: str) -> str:
    return _FOLD.sub("", name).lower()


def _compile(pattern: str) -> Any:
    import re2

    return re2.compile(pattern)


def _held_pattern(held: Iterable[str]) -> re.Pattern[str] | None:
    """What finds the values, as they are and as they stand in a JSON text; the longest first."""
    spelt: set[str] = set()
    for value in held:
        if len(value) >= bounds.MASK_VALUE_CHARACTERS:
            spelt.add(value)
            spelt.add(_encode(value).decode()[1:-1])
            scheme, _, rest = value.partition(" ")
            if scheme.lower() in ("bearer", "basic") and len(rest) >= bounds.MASK_VALUE_CHARACTERS:
                spelt.add(rest)
    if not spelt:
        return None
    return re.compile("|".join(re.escape(one) for one in sorted(spelt, key=len, reverse=True)))
