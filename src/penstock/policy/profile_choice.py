"""Which profile a request gets: by its credential, path, header or client's name, in this order."""

from __future__ import annotations


def choose_profile(*named: str | None, default: str | None) -> str | None:
    """The profile that the sources in `named`, the strongest first, agree on; None when they do not.

    A weaker source that names another is no choice but a contradiction: whoever pins a credential to a
    profile, or an entry of a client's file to a path, must not find that something else was served.
    """
    chosen = None
    for name in named:
        if name is None:
            continue
        if chosen is None:
            chosen = name
        elif name != chosen:
            return None
    return default if chosen is None else chosen
