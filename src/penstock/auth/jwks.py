"""The keys of an authorization server: fetched at the start, every ten minutes, and for an unknown key id.

Whoever makes up key ids makes us ask once a minute and not more. While the server cannot be reached, what it
said last holds for a day.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import jwt
import msgspec

from penstock import limits
from penstock.errors import PenstockError, RequestFailed, UpstreamError
from penstock.net.fetch import fetch
from penstock.net.http_client import HttpClient
from penstock.wire.http.url import Url, parse_url

log = logging.getLogger("penstock")

_ALGORITHMS = {"RSA": ("RS256", "PS256"), "EC": ("ES256",), "OKP": ("EdDSA",)}
"""By the type of a key. Nothing symmetric: a public key must never be taken for a shared secret."""


class SigningKey(msgspec.Struct, frozen=True):
    """A public key and the algorithms that it is for."""

    key: Any
    algorithms: tuple[str, ...]


class KeySet:
    """The keys in force."""

    def __init__(self, issuer: str, jwks: str | None) -> None:
        self._issuer = issuer
        self._jwks = jwks
        self._keys: dict[str | None, SigningKey] = {}
        self._fetched = 0.0  # when that last went well, on the monotonic clock
        self._asked = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def maybe_key(self, key_id: str | None) -> SigningKey | None:
        """The key with this id; without one, the only key that there is."""
        if self._keys and time.monotonic() - self._fetched > limits.KEYS_OUTAGE_SECONDS:
            log.warning("The keys of %s are too old to be trusted.", self._issuer)
            self._keys = {}
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    @property
    def is_empty(self) -> bool:
        """Whether no key was ever seen, or all are too old."""
        return not self._keys

    def maybe_refresh(self) -> asyncio.Task[None] | None:
        """The task that looks for new keys; None when that was done a moment ago."""
        if self._task is not None:
            return self._task
        if time.monotonic() - self._asked < limits.KEYS_UNKNOWN_SECONDS:
            return None
        self._asked = time.monotonic()
        self._task = asyncio.get_running_loop().create_task(self._refresh())
        self._task.add_done_callback(self._refreshed)
        return self._task

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        self._task = None

    async def start(self) -> None:
        """Fetches the keys, and sees to it that this is done again."""
        task = self.maybe_refresh()
        if task is not None:
            await task
        self._plan()

    def _plan(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(limits.KEYS_SECONDS, self._again)

    def _again(self) -> None:
        self.maybe_refresh()
        self._plan()

    async def close(self) -> None:
        """Asks no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _refresh(self) -> None:
        try:
            where = self._jwks or await self._discover()
            keys = _read_keys(await self._get(parse_url(where)))
            if not keys:
                raise RequestFailed("It has no keys that could be used")
        except PenstockError as error:
            log.warning("Cannot get the keys of %s: %s.", self._issuer, error.detail or error.headline)
            return
        self._keys, self._fetched = keys, time.monotonic()

    async def _discover(self) -> str:
        """Where the keys are, as the server's metadata says (RFC 8414, OpenID Connect Discovery)."""
        url = parse_url(self._issuer)
        path = url.target.decode().rstrip("/")
        failure: PenstockError | None = None
        for place in (
            f"/.well-known/oauth-authorization-server{path}",
            f"{path}/.well-known/openid-configuration",
        ):
            try:
                found = await self._get(parse_url(url.origin + place))
            except UpstreamError as error:
                failure = failure or error
                continue
            if not isinstance(found, dict) or found.get("issuer") != self._issuer:
                failure = RequestFailed("Its metadata is another issuer's")
                continue
            where = found.get("jwks_uri")
            if not isinstance(where, str):
                failure = RequestFailed("Its metadata names no jwks_uri")
                continue
            keys_at = parse_url(where)
            if url.is_tls and not keys_at.is_tls:
                raise RequestFailed("Its jwks_uri is not encrypted")
            return where
        raise failure or RequestFailed("It has no metadata")

    async def _get(self, url: Url) -> object:
        client = HttpClient(url, connect_timeout=limits.KEYS_FETCH_SECONDS)
        try:
            headers = [(b"Accept", b"application/json"), (b"Accept-Encoding", b"identity")]
            answer = await fetch(
                client, b"GET", url.target, headers, b"", limits.KEYS_BYTES, limits.KEYS_FETCH_SECONDS
            )
        finally:
            await client.close()
        if answer.status != 200:
            raise RequestFailed(f"{url.shown} answered {answer.status}")
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise RequestFailed(f"{url.shown} answered with something else than JSON") from None


def _read_keys(document: object) -> dict[str | None, SigningKey]:
    """The usable keys of a JWK set (RFC 7517), by id."""
    rows = document.get("keys") if isinstance(document, dict) else None
    keys: dict[str | None, SigningKey] = {}
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        if not isinstance(row, dict) or row.get("use", "sig") != "sig":
            continue
        kind, curve = row.get("kty"), row.get("crv")
        algorithms = _ALGORITHMS.get(kind) if isinstance(kind, str) else None
        if algorithms is None or curve not in (None, "P-256", "Ed25519"):
            continue
        if "alg" in row:
            algorithms = tuple(name for name in algorithms if name == row["alg"])
        try:
            key = jwt.PyJWK.from_dict(row, algorithm=algorithms[0]).key if algorithms else None
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        key_id = row.get("kid")
        if key is not None:
            name = key_id if isinstance(key_id, str) else f"\0{number}"  # none can be asked for by that
            keys[name] = SigningKey(key, algorithms)
    return keys
