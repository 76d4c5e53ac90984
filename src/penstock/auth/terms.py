"""Who may come in and what they get, as the configuration says it: credentials, TLS, profiles."""

from __future__ import annotations

from msgspec import Struct

from penstock.policy.several.terms import SearchTerms
from penstock.policy.tools.tool_filter import ToolFilter

ALL = "all"
"""The profile that is the whole configuration, with nothing taken away."""


class TokenTerms(Struct, frozen=True):
    """A bearer token: only its digest is known here."""

    id: str
    digest: bytes
    profile: str | None = None  # the only one that it opens; None: its bearer may choose
    admin: bool = False  # its bearer may see how the upstreams are


class CertTerms(Struct, frozen=True):
    """A client certificate, by its fingerprint or by a name in it."""

    id: str
    digest: bytes | None = None
    name: str | None = None
    profile: str | None = None


class JwtTerms(Struct, frozen=True):
    """Whose tokens are taken, and what must be in them."""

    issuer: str
    audiences: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    profile_claim: str | None = None
    jwks: str | None = None  # where its keys are, if its metadata is not to be asked


class AuthTerms(Struct, frozen=True):
    """How clients show who they are."""

    tokens: tuple[TokenTerms, ...] = ()
    certs: tuple[CertTerms, ...] = ()
    jwt: JwtTerms | None = None


class SwapTerms(Struct, frozen=True):
    """Where callers' tokens are exchanged for those of an upstream, and in whose name."""

    token_url: str
    client_id: str = ""
    client_secret: str = ""
    audience: str = ""
    resource: str = ""
    scopes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"SwapTerms({self.token_url!r})"  # whoever prints a configuration prints no secret


class TlsTerms(Struct, frozen=True):
    """Files, each PEM: our certificate and key, and who signs those of clients."""

    cert: str
    key: str
    client_ca: str | None = None


class ProfileTerms(Struct, frozen=True):
    """What a profile leaves of the whole."""

    name: str
    choice: ToolFilter = ToolFilter()
    upstreams: tuple[str, ...] | None = None  # None: all
    search: SearchTerms | None = None  # None: as in the whole


class ChooseTerms(Struct, frozen=True):
    """By what clients choose a profile that nothing pins them to."""

    header: bytes | None = None  # lower case
    clients: tuple[tuple[str, str], ...] = ()  # a client's own name, and its profile
    default: str | None = None


class AccessTerms(Struct, frozen=True):
    """All of it."""

    auth: AuthTerms | None = None
    tls: TlsTerms | None = None
    public_url: str | None = None  # without a slash at its end
    profiles: tuple[ProfileTerms, ...] = ()
    choose: ChooseTerms = ChooseTerms()

    @property
    def speaks_tls(self) -> bool:
        """Whether TLS is spoken with clients, or with whoever signs their tokens."""
        jwt = self.auth.jwt if self.auth is not None else None
        return self.tls is not None or (jwt is not None and f"{jwt.issuer} {jwt.jwks}".find("https:") >= 0)

    @property
    def default(self) -> str | None:
        """The profile of who chooses none; None: there is none for them, since it must be written."""
        if self.choose.default is not None:
            return self.choose.default
        return None if self.auth is not None and self.profiles else ALL

    def profile(self, name: str) -> ProfileTerms:
        """The profile called `name`; for one that is not written down, the whole."""
        return next((row for row in self.profiles if row.name == name), ProfileTerms(name))

    @property
    def pins(self) -> list[tuple[str, str]]:
        """Callers that open one profile only, and which."""
        if self.auth is None:
            return []
        found = [(row.id, row.profile) for row in self.auth.tokens]
        found += [(row.id, row.profile) for row in self.auth.certs]
        return [(name, profile) for name, profile in found if profile is not None]

    @property
    def names(self) -> tuple[str, ...]:
        """Every profile that somebody can get."""
        names = [profile.name for profile in self.profiles]
        wanted = [self.default, *(name for _, name in (*self.pins, *self.choose.clients))]
        return tuple([*names, ALL] if ALL in wanted and ALL not in names else names)
