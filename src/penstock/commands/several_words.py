"""What `penstock check` says of several servers behind one door."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from penstock.config.model import CommandUpstream, Member, SeveralUpstreams


def describe_several(upstream: SeveralUpstreams) -> Iterator[str]:
    """The members in the order of trust, how they are called, and when their lists are there."""
    names, lists = upstream.terms.names, upstream.terms.lists
    yield f"Upstreams: {len(upstream.members)}, in the order of trust:"
    for member in upstream.members:
        yield from _member(member)
    how = {
        "never": "as their servers call them; the later of two equal names is left out",
        "on-conflict": "as their servers call them; the later of two equal names gets "
        f"SERVER{names.separator} before it",
        "always": f"SERVER{names.separator}NAME",
    }[names.prefix]
    yield f"Names: {how}; at most {names.budget} characters."
    kept = f"kept in {lists.keep}" if lists.keep is not None else "not kept"
    gone = "hidden" if lists.hides_lost else "still listed"
    yield (
        f"Lists: wait {lists.wait_seconds:g} s for all of them, {kept}; "
        f"the tools of a server that is lost are {gone}."
    )
    search = upstream.terms.search
    if search is not None:
        yield f"Search: from {search.from_tokens} tokens on, {search.limit} tools a search."


def _member(member: Member) -> Iterator[str]:
    terms, upstream = member.terms, member.upstream
    if isinstance(upstream, CommandUpstream):
        yield f"  {terms.name}: spawn {shlex.join(upstream.command)}"
        if upstream.cwd is not None:
            yield f"    in {upstream.cwd}"
        if upstream.env:
            yield f"    with variables: {', '.join(name for name, _ in upstream.env)}"
        if upstream.inherits:
            yield "    with all of our environment"
    else:
        yield f"  {terms.name}: {upstream.url.origin}{upstream.url.target.partition(b'?')[0].decode()}"
        if upstream.headers:
            yield f"    with headers: {', '.join(name.decode() for name, _ in upstream.headers)}"
        for source, target in upstream.relays:
            yield f"    with the caller's {source.decode()} as {target.decode()}, on links of its own"
        if upstream.swap is not None:
            yield f"    with a token that {upstream.swap.token_url} makes of the caller's"
        if upstream.lists_by_caller:
            yield "    Note: its tools are learnt with the first caller's credential, and shown to all"
    if terms.slug != terms.name:
        yield f"    called {terms.slug} before names"
    choice = terms.choice
    for word, patterns in (
        ("only tools that match", choice.allow),
        ("without tools that match", choice.deny),
    ):
        if patterns:
            yield f"    {word} {' or '.join(pattern.source for pattern in patterns)}"
    if choice.read_only:
        yield "    without tools that are not annotated readOnlyHint: true"
    for old, new in terms.rename:
        yield f"    {old} is called {new}"
    words = [
        "lazy" if terms.is_lazy else "",
        f"stopped after {terms.idle_seconds:g} s of rest" if terms.idle_seconds is not None else "",
        "required" if terms.is_required else "",
        "its loss ends us" if terms.exits_on_loss else "",
    ]
    if any(words):
        yield f"    {', '.join(word for word in words if word)}"
    if terms.is_shared:
        yield "    Note: one process for all sessions, greeted once, in our words: it learns neither a"
        yield "    client's name nor what that client can do. What it says to several is told to none."
    if len(terms.asks) < 3:
        yield f"    may ask clients: {', '.join(sorted(terms.asks)) or 'nothing'}"
