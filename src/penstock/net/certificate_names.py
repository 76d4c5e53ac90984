"""For which names a certificate is good: what a listener may be called, where it listens on every address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    import ssl


def certificate_names(cert: str, context: ssl.SSLContext) -> tuple[str, ...]:
    """Names and addresses in the certificate that `context` serves, out of the file `cert`; patterns are none
    of them. Found by a handshake with ourselves, as a client would read it. Raises ConfigError for one that
    no client would take."""
    import ssl

    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is all that is trusted
    try:
        client.load_verify_locations(cert)
        found = _shown(client, context)
    except ssl.SSLError as why:
        reason = getattr(why, "verify_message", None) or why.reason or str(why)
        raise ConfigError(f"No client would take the certificate {cert}", str(reason)) from None
    alternatives = found.get("subjectAltName", ())
    names = [str(value) for kind, value in alternatives if kind in ("DNS", "IP Address")]
    return tuple(name for name in names if "*" not in name)


def _shown(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, tuple[tuple[str, str], ...]]:
    """The certificate as a client sees it after a handshake in memory."""
    import ssl

    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):  # flights: two are enough
        for side in (asking, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        found = asking.getpeercert() if asking.version() is not None else None
        if found:
            return found  # type: ignore[return-value]
    return {}
