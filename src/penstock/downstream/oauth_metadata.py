"""OAuth through the gate (RFC 9728): the metadata of a protected resource names us as the resource.

A client compares `resource` with the address it talks to, which is ours. Which authorization servers there
are, and everything else, stays as the upstream says it.
"""

from __future__ import annotations

import re

import msgspec

from penstock.wire.http.http1 import Headers
from penstock.wire.http.url import Url
from penstock.wire.json.ambiguity import Ambiguous, NotAnObject, NotJson, members
from penstock.wire.json.splice import with_value

WELL_KNOWN = b"/.well-known/oauth-protected-resource"
_METADATA = re.compile(rb'(?i)(resource_metadata\s*=\s*")([^"]*)(")')


def own_resource(body: bytes, origin: bytes, path: bytes = b"/mcp") -> bytes:
    """Metadata of a protected resource with our endpoint as the resource; anything else as it is."""
    try:
        found = members(body)
    except (Ambiguous, NotAnObject, NotJson):
        return body
    if "resource" not in found or "authorization_servers" not in found:
        return body
    return with_value(body, found, "resource", msgspec.json.encode((origin + path).decode("latin-1")))


def own_challenge(headers: Headers, origin: bytes, upstream: Url, path: bytes = b"/mcp") -> Headers:
    """Headers whose WWW-Authenticate points to the metadata that we relay, and not to the upstream's own."""
    theirs = upstream.origin.encode()

    def ours(found: re.Match[bytes]) -> bytes:
        if not found[2].startswith(theirs + WELL_KNOWN):
            return found[0]  # somewhere else: that is not ours to relay
        return b"%b%b%b%b%b" % (found[1], origin, WELL_KNOWN, path, found[3])

    return [
        (name, _METADATA.sub(ours, value) if name.lower() == b"www-authenticate" else value)
        for name, value in headers
    ]
