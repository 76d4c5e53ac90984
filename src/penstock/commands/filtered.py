"""Reading words of which some are a filter."""

from __future__ import annotations

import argparse


def parse_with_filter(made: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Parses words of which some are a filter: a term like -rule:x is no option."""
    known = {name for action in made._actions for name in action.option_strings}
    options, terms = [], []
    for word in words:
        if word.startswith("-") and len(word) > 1 and word.split("=")[0] not in known:
            if word.startswith("--"):
                options.append(word)  # argparse complains, with a hint
            else:
                terms.append(word)
        else:
            options.append(word)
    parsed, more = made.parse_known_intermixed_args(options)
    if more:
        made.error(f"unrecognized arguments: {' '.join(more)}")
    parsed.words = _in_order(words, [*parsed.words, *terms])
    return parsed


def _in_order(words: list[str], terms: list[str]) -> list[str]:
    left = list(terms)
    out = []
    for word in words:
        if word in left:
            left.remove(word)
            out.append(word)
    return out
