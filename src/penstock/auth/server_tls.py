"""TLS for a listener: our certificate, and whose certificates of clients we believe."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    import ssl


def server_tls(cert: str, key: str, client_ca: str | None, is_asked_for: bool) -> ssl.SSLContext:
    """The context of a listener. With `client_ca`, clients may show a certificate that it has signed, and
    must when it `is_asked_for`. Raises ConfigError."""
    import ssl  # not at the top: only who names a certificate needs it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    for path in filter(None, (cert, key, client_ca)):
        try:
            with open(path, "rb"):
                pass
        except OSError as why:
            raise ConfigError(f"Cannot read {path}", os.strerror(why.errno or 0)) from None
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (ssl.SSLError, ValueError) as why:
        raise ConfigError(f"Cannot use the certificate {cert} with the key {key}", _reason(why)) from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except ssl.SSLError as why:
            raise ConfigError(f"Cannot use the certificates in {client_ca}", _reason(why)) from None
        context.verify_mode = ssl.CERT_REQUIRED if is_asked_for else ssl.CERT_OPTIONAL
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody could be asked for its password")


def _reason(why: Exception) -> str:
    import ssl

    return str(why.reason or "It is no PEM file") if isinstance(why, ssl.SSLError) else str(why)
