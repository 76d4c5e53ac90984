"""Us as a protected resource (RFC 9728): what clients read before they ask somebody for a token.

What we are called comes from the configuration and never from a Host header, which whoever asks can choose.
Every door has metadata of its own. It is the same for a profile that nobody has, so that nobody can find out
which there are.
"""

from __future__ import annotations

import re

import msgspec

from penstock.auth.caller import Challenge
from penstock.auth.terms import JwtTerms
from penstock.downstream.replies import JSON, refuse
from penstock.net.http_exchange import Reply, Request
from penstock.wire.http.http1 import Headers

_WELL_KNOWN = b"/.well-known/oauth-protected-resource"
_DOOR = re.compile(rb"(?:/p/[A-Za-z0-9_-]{1,64})?/(?:mcp|sse|messages)").fullmatch


class ResourceMetadata:
    """Says who we are, and to whoever is not let in, where that is said."""

    def __init__(self, public_url: str | None, jwt: JwtTerms | None) -> None:
        self._public_url = public_url
        self._jwt = jwt

    def resource_of(self, path: bytes) -> str | None:
        """What the door at `path` is called in tokens; None where it has no name."""
        if self._public_url is None or _DOOR(path) is None:
            return None
        if path.endswith(b"/messages"):  # belongs to the stream that named it
            path = path[: -len(b"messages")] + b"sse"
        return self._public_url + path.decode()

    def serves(self, path: bytes) -> bool:
        """Whether `path` is that of metadata of ours."""
        return self._jwt is not None and path.startswith(_WELL_KNOWN)

    def handle(self, request: Request, reply: Reply) -> None:
        """Takes a request for it."""
        if request.method not in (b"GET", b"HEAD"):
            refuse(reply, 405, "Method not allowed", [(b"Allow", b"GET, HEAD")])
            return
        door = request.path[len(_WELL_KNOWN) :]
        resource = self.resource_of(door or b"/mcp")
        if resource is None or self._jwt is None:
            refuse(reply, 404, "Not found")
            return
        known: dict[str, object] = {
            "resource": resource,
            "authorization_servers": [self._jwt.issuer],
            "bearer_methods_supported": ["header"],
        }
        if self._jwt.scopes:
            known["scopes_supported"] = list(self._jwt.scopes)
        reply.send(200, [*JSON, (b"Cache-Control", b"max-age=3600")], msgspec.json.encode(known))

    def challenge(self, challenge: Challenge, request: Request, reply: Reply) -> None:
        """Answers somebody who was not let in."""
        words = []
        if challenge.error is not None:
            words += [f'error="{challenge.error}"', f'error_description="{challenge.description}"']
        if challenge.error == "insufficient_scope" and self._jwt is not None:
            words.append(f'scope="{" ".join(self._jwt.scopes)}"')
        if self._jwt is not None and self._public_url is not None:
            door = request.path if _DOOR(request.path) is not None else b"/mcp"
            resource = self.resource_of(door) or ""
            path = resource[len(self._public_url) :]
            words.append(f'resource_metadata="{self._public_url}{_WELL_KNOWN.decode()}{path}"')
        value = f"Bearer {', '.join(words)}" if words else "Bearer"
        more: Headers = [(b"WWW-Authenticate", value.encode())]
        is_late = challenge.status == 503
        if is_late:
            more = [(b"Retry-After", b"5")]
        reason = challenge.description or "Unauthorized: a credential is needed"
        refuse(reply, challenge.status, reason, more)
