"""What a configuration says of who may come in and what they get, in plain words, for `penstock check`."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.auth.terms import ALL, AccessTerms, AuthTerms, ProfileTerms


def summarize_access(access: AccessTerms) -> Iterator[str]:
    """A line each. Digests are not shown: nobody can read them."""
    if access.tls is not None:
        yield f"TLS: with {access.tls.cert}" + (
            f"; clients' certificates are signed by {access.tls.client_ca}" if access.tls.client_ca else ""
        )
    if access.public_url is not None:
        yield f"Public address: {access.public_url}"
    yield from _callers(access.auth)
    yield from _profiles(access)
    for name, profile in access.pins:
        if profile not in access.names:
            yield f'Note: {name} is pinned to "{profile}", which is no profile; it gets nothing (403).'
    auth, tls = access.auth, access.tls
    if auth is not None and auth.tokens and tls is None and access.public_url is None:
        yield ("Note: tokens travel in plain text unless TLS is spoken here (tls) or before us (public_url).")


def _callers(auth: AuthTerms | None) -> Iterator[str]:
    if auth is None:
        yield "Callers: anybody who can connect; over HTTP, auth says who may."
        return
    yield "Callers over HTTP, and nobody else:"
    for kind, rows in (("token", auth.tokens), ("certificate", auth.certs)):
        for row in rows:
            yield f"  {kind} {row.id}, {_opens(row.profile)}"
    if auth.jwt is not None:
        wanted = f" with {' and '.join(auth.jwt.scopes)}" if auth.jwt.scopes else ""
        claim = auth.jwt.profile_claim
        opens = f"the profile that {claim} names" if claim is not None else _opens(None)
        yield f"  access tokens of {auth.jwt.issuer}{wanted}, {opens}"


def _opens(profile: str | None) -> str:
    return "any profile" if profile is None else f"profile {profile}"


def _profiles(access: AccessTerms) -> Iterator[str]:
    if not access.profiles:
        return
    yield "Profiles, each at /p/NAME/mcp and /p/NAME/sse:"
    for profile in access.profiles:
        yield f"  {profile.name}: {_left(profile)}"
    choose = access.choose
    if choose.header is not None:
        yield f"  chosen by the header {choose.header.decode()}"
    for client, name in choose.clients:
        yield f"  {client} gets {name}, as long as it says so: a client's name proves nothing"
    if access.default is not None:
        whole = " (everything)" if access.default == ALL else ""
        yield f"  who chooses none gets {access.default}{whole}"
    else:
        yield "  who chooses none gets nothing"


def _left(profile: ProfileTerms) -> str:
    words = []
    if profile.upstreams is not None:
        words.append(f"upstreams {', '.join(profile.upstreams)}")
    choice = profile.choice
    if choice.allow:
        words.append(f"only tools that match {' or '.join(pattern.source for pattern in choice.allow)}")
    if choice.deny:
        words.append(f"no tools that match {' or '.join(pattern.source for pattern in choice.deny)}")
    if choice.read_only:
        words.append("only tools annotated readOnlyHint: true")
    if profile.search is not None:
        words.append(f"tools are found, from {profile.search.from_tokens} tokens on")
    return "; ".join(words) or "everything"
