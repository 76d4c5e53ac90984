"""A configuration as one of its profiles leaves it."""

from __future__ import annotations

from msgspec import structs

from penstock.auth.terms import ALL, AccessTerms
from penstock.config.model import ProxyConfig
from penstock.errors import ConfigError, UsageError


def view_of(config: ProxyConfig, name: str) -> ProxyConfig:
    """The configuration as the profile called `name` leaves it."""
    assert config.access is not None
    terms = config.access.profile(name)
    choice = config.choice
    if terms.choice.is_active:
        choice = structs.replace(choice, also=terms.choice)
    return structs.replace(config, choice=choice, profile=name, only=terms.upstreams, search=terms.search)


def only_profile(config: ProxyConfig, name: str) -> ProxyConfig:
    """The profile called `name` as if it were all that there is, for `--profile`. With a listener, callers
    still have to show who they are; whoever is pinned to another profile gets nothing."""
    access = config.access
    if access is None or not access.profiles:
        raise UsageError("--profile needs a configuration with profiles")
    known = [profile.name for profile in access.profiles]
    if name not in (*known, ALL):
        raise ConfigError(f'No profile is called "{name}"', f"The profiles are {', '.join(known)}")
    view = view_of(config, name)
    kept = AccessTerms(
        auth=access.auth,
        tls=access.tls,
        public_url=access.public_url,
        profiles=tuple(profile for profile in access.profiles if profile.name == name),
        choose=structs.replace(access.choose, default=name, clients=()),
    )
    is_plain = access.auth is None and access.tls is None and access.public_url is None
    return structs.replace(view, access=None if is_plain else kept)
