"""Exchanging a caller's access token for one that an upstream takes (RFC 8693).

What was made of a token is kept for that caller and that upstream alone, until it lapses; calls that come
meanwhile wait for the one exchange that is under way. Neither token, nor our own secret, is ever logged.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from penstock import limits
from penstock.auth.bearer import maybe_token
from penstock.auth.caller import Subject
from penstock.auth.terms import SwapTerms
from penstock.errors import PenstockError, RequestFailed, SessionRefused
from penstock.net.fetch import fetch
from penstock.net.http_client import HttpClient
from penstock.wire.http.http1 import Headers
from penstock.wire.http.url import parse_url
from penstock.wire.mcp.replies import printable

log = logging.getLogger("penstock")

_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind
_FORM = b"application/x-www-form-urlencoded"


class _Answer(Struct):
    access_token: str = ""
    token_type: str = ""
    expires_in: float | None = None
    error: str = ""


class SwappedToken:
    """What one upstream gets in the place of one caller's token."""

    def __init__(self, name: str, terms: SwapTerms, subject: Subject) -> None:
        self._name = name
        self._terms = terms
        self._subject = subject
        self._headers: Headers = []
        self._until = 0.0
        self._task: asyncio.Task[None] | None = None
        self._failed_until = 0.0

    def maybe_headers(self) -> Headers | None:
        """The headers to send, as long as they count."""
        return self._headers if time.time() < self._until else None

    async def headers(self) -> Headers:
        """The headers to send, exchanged now if need be. Raises UpstreamError."""
        if self.maybe_headers() is None:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._exchange())
            await asyncio.shield(self._task)
        found = self.maybe_headers()
        if found is None:
            raise SessionRefused(self._name, "The caller's token could not be exchanged")
        return found

    def forget(self) -> None:
        """The upstream does not take it."""
        self._until = 0.0

    async def _exchange(self) -> None:
        try:
            if time.time() < self._failed_until:
                return  # who asks again at once hears the same, and the authorization server nothing
            self._failed_until = time.time() + limits.SWAP_AGAIN_SECONDS
            subject, expires = self._subject.token, self._subject.expires
            if not subject:
                raise RequestFailed("It has shown none")
            token, seconds = await self._ask(subject)
            self._headers = [(b"Authorization", b"Bearer " + token)]
            self._until = min(time.time() + seconds - limits.SWAP_EARLY_SECONDS, expires)
            self._failed_until = 0.0
        except PenstockError as why:
            said = "%s: the token of %s could not be exchanged: %s."
            log.warning(said, self._name, self._subject.who or "a client", why.detail or why.headline)
        finally:
            self._task = None

    async def _ask(self, subject: bytes) -> tuple[bytes, float]:
        terms = self._terms
        form = {
            "grant_type": _GRANT,
            "subject_token": subject.decode("ascii"),
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
        }
        form |= {"audience": terms.audience} if terms.audience else {}
        form |= {"resource": terms.resource} if terms.resource else {}
        form |= {"scope": " ".join(terms.scopes)} if terms.scopes else {}
        url = parse_url(terms.token_url)
        client = HttpClient(url, connect_timeout=limits.KEYS_FETCH_SECONDS)
        head = [(b"Content-Type", _FORM), (b"Accept", b"application/json"), (b"Accept-Encoding", b"identity")]
        if terms.client_id:
            # Both are encoded before they are joined (RFC 6749, 2.3.1).
            pair = f"{quote(terms.client_id, safe='')}:{quote(terms.client_secret, safe='')}"
            head.append((b"Authorization", b"Basic " + base64.b64encode(pair.encode())))
        try:
            body = urlencode(form).encode()
            answer = await fetch(
                client, b"POST", url.target, head, body, limits.KEYS_BYTES, limits.KEYS_FETCH_SECONDS
            )
        finally:
            await client.close()
        return _read(answer.status, answer.body)


def _read(status: int, body: bytes) -> tuple[bytes, float]:
    """The token in an answer, and for how many seconds it counts. Raises RequestFailed."""
    try:
        found = msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = _Answer()
    if status != 200:
        raise RequestFailed(f"HTTP {status} {printable(found.error[:64])}".rstrip())
    token = maybe_token(b"Bearer " + found.access_token.encode("utf-8", "replace"))
    if token is None or found.token_type.lower() != "bearer":
        raise RequestFailed("It answered with no bearer token")
    seconds = found.expires_in
    return token, limits.SWAP_UNSAID_SECONDS if seconds is None else max(0.0, seconds)
