"""A listener whose clients speak TLS, and what they have proven to be."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock import limits
from penstock.net.http_connection import HttpConnection
from penstock.net.listener import Listener

if TYPE_CHECKING:
    import ssl

log = logging.getLogger("penstock")


class TlsPeer(tuple[object, ...]):
    """The address of a client, and the certificate that it has proven to be its own."""

    certificate: bytes | None = None
    names: tuple[str, ...] = ()


class TlsConnection(HttpConnection):
    """A client's connection over TLS."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Looks at the client's certificate once, for all requests to come."""
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if certificate:
            self._peer = TlsPeer(self._peer or ())
            self._peer.certificate = certificate
            self._peer.names = names_in(tls.getpeercert() or {})


def names_in(certificate: dict[str, object]) -> tuple[str, ...]:
    """Every name that a certificate is for: its subject's common name, and its alternative names."""
    names = []
    alternatives = certificate.get("subjectAltName", ())
    subject = certificate.get("subject", ())
    assert isinstance(alternatives, tuple)
    assert isinstance(subject, tuple)
    for kind, value in alternatives:
        if kind in ("DNS", "URI", "email"):
            names.append(str(value))
    for part in subject:
        names += [str(value) for kind, value in part if kind == "commonName"]
    return tuple(names)


class TlsListener(Listener):
    """A listener whose clients speak TLS."""

    def __init__(
        self, new_protocol: Callable[[], asyncio.Protocol], refusal: bytes, context: ssl.SSLContext
    ) -> None:
        super().__init__(new_protocol, refusal)
        self._context = context

    async def _start(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._new_protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=limits.TLS_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=limits.TLS_SHUTDOWN_SECONDS,
            )
        except OSError as why:  # also what ssl raises: a client without a certificate, or no client of TLS
            connection.close()
            log.info("A client could not be served over TLS: %s.", getattr(why, "reason", None) or why)
