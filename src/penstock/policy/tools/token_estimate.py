"""About how many tokens a model pays for seeing a tool.

Current vocabularies of models are not all public, and the public ones weigh megabytes; so words, marks and
digits are counted and weighted. The weights are fitted to the o200k counts of published tool definitions:
2.5 % off in the mean, 9 % at worst. What counts is what a model is shown, so white space and escapes in the
upstream's JSON change nothing.
"""

from __future__ import annotations

import re

import msgspec

from penstock.wire.json.ambiguity import Members, readable

HOW_ESTIMATED = "estimated from name, description and input schema"

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # camelCase is two words
_MARKS = re.compile(r"[!-/:-@\[-`{-~]+")
_DIGITS = re.compile(r"[0-9]{1,3}")
_LATIN = "[\u00c0-\u024f\u1e00-\u1eff]"
_IDEOGRAPHS = "[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef]"
_OTHER = "[\u0250-\u1dff\u2000-\u2fff\ua000-\uabff\U00010000-\U0010ffff]"

_WORD_WEIGHT = 0.99
_MARKS_WEIGHT = 0.90
_MARK_PAST_THREE_WEIGHT = 0.45
_DIGITS_WEIGHT = 1.27
_LATIN_WEIGHT = 0.5  # on top of the word that the letter is in
_IDEOGRAPH_WEIGHT = 0.75
_OTHER_WEIGHT = 0.36

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` is."""
    total = 0.0
    if not text.isascii():
        # Not compiled before somebody writes such a text: `re` keeps them then, and it takes milliseconds.
        accents = len(re.findall(_LATIN, text))
        total += accents * _LATIN_WEIGHT
        total += len(re.findall(_IDEOGRAPHS, text)) * _IDEOGRAPH_WEIGHT
        total += len(re.findall(_OTHER, text)) * _OTHER_WEIGHT
        if accents:
            text = re.sub(_LATIN, "a", text)
    marks = _MARKS.findall(text)
    total += len(_WORD.findall(text)) * _WORD_WEIGHT + len(marks) * _MARKS_WEIGHT
    total += sum(len(run) - 3 for run in marks if len(run) > 3) * _MARK_PAST_THREE_WEIGHT
    total += len(_DIGITS.findall(text)) * _DIGITS_WEIGHT
    return round(total)


def tool_tokens(entry: Members) -> int:
    """About how many tokens a model pays for the tool with these members."""
    return estimate_tokens(shown_text(entry))


def shown_text(entry: Members) -> str:
    """A tool as models are shown it: compact, with no escape that JSON does not ask for."""
    parts = []
    for member, name in (("name", "name"), ("description", "description"), ("inputSchema", "input_schema")):
        if member in entry:
            parts.append(f'"{name}":{_compact(bytes(entry[member]))}')
    return f"{{{','.join(parts)}}}"


def _compact(raw: bytes) -> str:
    try:
        return _encode(_decode(readable(raw))).decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        return raw.decode("utf-8", "replace")  # a number that no decoder holds; it is an estimate
