"""Who a request is from: asked once for each head, and again when what was found may no longer hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.auth.bearer import TokenTable, digest_of, maybe_token
from penstock.auth.caller import BAD_TOKEN, JWT, NO_CREDENTIALS, Admission, Caller, Challenge
from penstock.auth.terms import AuthTerms

if TYPE_CHECKING:
    import asyncio

    from penstock.auth.certificates import CertTable
    from penstock.auth.jwt_check import JwtCheck

Outcome = Admission | Challenge


class Callers:
    """Everybody whom the configuration lets in."""

    def __init__(self, terms: AuthTerms, certs: CertTable | None = None, jwt: JwtCheck | None = None) -> None:
        self.terms = terms
        self._tokens = TokenTable(terms.tokens)
        self._certs = certs
        self._jwt = jwt

    def ask(
        self,
        authorization: bytes | None,
        certificate: bytes | None,
        names: tuple[str, ...],
        audience: str | None,
    ) -> Outcome | asyncio.Future[Outcome]:
        """Whether somebody is let in; a future where that has to be found out elsewhere.

        Who shows a token is judged by it, whatever certificate the connection has: a caller that means to be
        one must not be served as another. `audience` is what the door is called in tokens made for it alone.
        """
        if authorization is None:
            caller = self._certs.maybe_caller(certificate, names) if self._certs is not None else None
            return NO_CREDENTIALS if caller is None else Admission(caller)
        token = maybe_token(authorization)
        if token is None:
            return BAD_TOKEN
        digest = digest_of(token)
        known = self._tokens.maybe_caller(digest)
        if known is not None:
            return Admission(known)
        return BAD_TOKEN if self._jwt is None else self._jwt.ask(token, digest, audience)

    @property
    def _listed(self) -> list[Caller]:
        return [*self._tokens.callers, *(self._certs.callers if self._certs is not None else ())]

    def keep_sessions_of(self, before: Callers) -> None:
        """After a reload: who is still here, by the same credential, keeps the sessions that were its own."""
        known = {caller.key: caller for caller in before._listed}
        for caller in self._listed:
            if caller.key in known:
                caller.sessions = known[caller.key].sessions

    def is_known(self, caller: Caller) -> bool:
        """Whether the configuration still has the row that let `caller` in, with the same rights."""
        if caller.key.startswith(JWT):
            return self._jwt is not None
        return any(one.key == caller.key and one.pin == caller.pin for one in self._listed)
