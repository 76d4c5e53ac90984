"""Which addresses a rule may make us talk to: the guard against server-side request forgery (SSRF).

An address is judged after its name was resolved, and the connection goes to the address that was judged. So
it does not matter how it was spelt (decimal, octal, short, mapped into IPv6) or what its name says the next
time it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

# What ipaddress calls global in some versions of Python, and what we do not mean by it.
_NOT_PUBLIC_V4 = tuple(map(IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4")))
_NOT_PUBLIC_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
_UNICAST_V6 = IPv6Network("2000::/3")  # all that was ever given out (RFC 4291, 2.4)
_NAT64 = IPv6Network("64:ff9b::/96")  # the last four bytes are an IPv4 address (RFC 6052)
_NO_HOST_V4 = IPv4Network("0.0.0.0/8")


def admission(is_private_allowed: bool) -> Callable[[str], bool]:
    """The judgement for a rule that does or does not say `allow_private: true`."""
    return is_somewhere if is_private_allowed else is_public


def is_public(text: str) -> bool:
    """Whether the address belongs to one host on the internet, and not to this machine or its neighbours."""
    address = _maybe_address(text)
    if address is None or not is_somewhere(text) or not address.is_global:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    return address in _UNICAST_V6 and not any(address in network for network in _NOT_PUBLIC_V6)


def is_somewhere(text: str) -> bool:
    """Whether the address belongs to one host at all: it is not a group of them, none, or everybody."""
    address = _maybe_address(text)
    if address is None or address.is_multicast or address.is_unspecified:
        return False
    if isinstance(address, IPv4Address):
        return address not in _NO_HOST_V4 and address != IPv4Address("255.255.255.255")
    return True


def _maybe_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address, without the wrapping in which IPv6 carries one of IPv4."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
