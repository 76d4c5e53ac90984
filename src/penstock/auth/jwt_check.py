"""Access tokens of an authorization server: signed JWTs, made for us, not over, with the scopes we want.

Loaded where `auth.jwt` is configured, with PyJWT, which is an extra (`penstock[jwt]`).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any

import jwt
from msgspec import Struct

from penstock import limits
from penstock.auth.caller import BAD_TOKEN, JWT, Admission, Caller, Challenge
from penstock.auth.jwks import KeySet, SigningKey
from penstock.auth.terms import JwtTerms

_NO_PROFILE = "\0"
"""Pins a caller to nothing: no profile is called so."""
_LATER = Challenge(503, None, "The keys of the authorization server are not there yet")


class _Verdict(Struct, frozen=True):
    """What was found out about one token, whatever door it is shown at."""

    admission: Admission
    audiences: frozenset[str]


class JwtCheck:
    """Judges tokens; remembers for a while what it found."""

    def __init__(self, terms: JwtTerms, default: str | None) -> None:
        """`default` is the profile of whose token names none where one is asked for."""
        self.terms = terms
        self.default = default
        self._audiences = frozenset(terms.audiences)
        self._wrong_scope = Challenge(403, "insufficient_scope", "The access token lacks a scope")
        self.keys = KeySet(terms.issuer, terms.jwks)
        self._known: OrderedDict[bytes, _Verdict] = OrderedDict()  # by the digest of the token
        self._callers: OrderedDict[bytes, Caller] = OrderedDict()  # by whose they are

    async def start(self) -> None:
        """Gets the keys."""
        await self.keys.start()

    async def close(self) -> None:
        """Asks for keys no more."""
        await self.keys.close()

    def ask(
        self, token: bytes, digest: bytes, audience: str | None
    ) -> Admission | Challenge | asyncio.Future[Admission | Challenge]:
        """Whether the bearer of `token` is let in at the door that is called `audience`."""
        known = self._known.get(digest)
        if known is not None:
            if known.admission.until > time.time():
                return self._at_door(known, audience)
            del self._known[digest]
        try:
            head = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError):
            return BAD_TOKEN
        key_id = head.get("kid")
        if key_id is not None and not isinstance(key_id, str):
            return BAD_TOKEN
        key = self.keys.maybe_key(key_id)
        if key is not None:
            return self._judge(token, digest, audience, key)
        refresh = self.keys.maybe_refresh()
        if refresh is None:
            return _LATER if self.keys.is_empty else BAD_TOKEN
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Admission | Challenge] = loop.create_future()

        def refreshed(task: asyncio.Task[None]) -> None:
            if waiting.done():
                return
            found = self.keys.maybe_key(key_id)
            if found is not None:
                waiting.set_result(self._judge(token, digest, audience, found))
            else:
                waiting.set_result(_LATER if self.keys.is_empty else BAD_TOKEN)

        refresh.add_done_callback(refreshed)
        return waiting

    def _judge(
        self, token: bytes, digest: bytes, audience: str | None, key: SigningKey
    ) -> Admission | Challenge:
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                issuer=self.terms.issuer,
                # Which audience counts depends on the door; who signs may have a clock that is a bit ahead.
                options={
                    "require": ["exp", "iss", "aud"],
                    "verify_aud": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
            return BAD_TOKEN
        now = time.time()
        begins = claims.get("nbf", 0)
        audiences = _texts(claims["aud"])
        if not isinstance(begins, int | float) or begins > now + limits.TOKEN_AHEAD_SECONDS or not audiences:
            return BAD_TOKEN
        if not set(self.terms.scopes) <= _scopes(claims):
            return self._wrong_scope
        expires = float(claims["exp"])
        admission = Admission(
            self._caller(claims, digest), min(expires, now + limits.VERDICT_KNOWN_SECONDS), expires
        )
        verdict = _Verdict(admission, frozenset(audiences))
        self._known[digest] = verdict
        if len(self._known) > limits.KNOWN_TOKENS:
            self._known.popitem(last=False)
        return self._at_door(verdict, audience)

    def _at_door(self, verdict: _Verdict, audience: str | None) -> Admission | Challenge:
        """A token counts where it was made for us, or for this very door."""
        if self._audiences & verdict.audiences or audience in verdict.audiences:
            return verdict.admission
        return BAD_TOKEN

    def _caller(self, claims: dict[str, Any], digest: bytes) -> Caller:
        """Whose token it is: a subject's, for one client of it. Another token of the same is the same caller:
        a session outlives the tokens that are shown in it."""
        pin = self._pin(claims)
        subject, client = claims.get("sub"), claims.get("client_id") or claims.get("azp")
        if isinstance(subject, str) or isinstance(client, str):
            whose = repr((claims["iss"], subject, client, pin)).encode()
        else:
            whose = digest
        caller = self._callers.get(whose)
        if caller is None:
            name = subject if isinstance(subject, str) else client if isinstance(client, str) else "a token"
            shown = "".join(letter if letter.isprintable() else "?" for letter in name[:64])
            caller = self._callers[whose] = Caller(shown, JWT + whose, pin)
            if len(self._callers) > limits.KNOWN_TOKENS:
                self._callers.popitem(last=False)
        else:
            self._callers.move_to_end(whose)
        return caller

    def _pin(self, claims: dict[str, Any]) -> str | None:
        name = self.terms.profile_claim
        if name is None:
            return None
        named = _texts(claims.get(name, self.default))
        # Two profiles are none: nobody has said which.
        return named[0] if len(named) == 1 else _NO_PROFILE


def _texts(value: object) -> list[str]:
    values: list[object] = value if isinstance(value, list) else [value]
    texts = [one for one in values if isinstance(one, str)]
    return texts if len(texts) == len(values) else []


def _scopes(claims: dict[str, Any]) -> set[str]:
    """What the token may be used for: `scope` (RFC 9068), or `scp` as some servers write it."""
    found: set[str] = set()
    for name in ("scope", "scp"):
        for text in _texts(claims.get(name, [])):
            found.update(text.split(" "))
    return found
