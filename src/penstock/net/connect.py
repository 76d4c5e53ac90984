"""Connecting to an upstream: name, address, forward proxy, TLS, and plain words when one of them fails."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from penstock import limits
from penstock.errors import ConnectFailed, ConnectTimeout, Failure, MalformedHttp, RequestFailed
from penstock.net.loop import add_tls
from penstock.wire.http.http1 import build_request_head, read_response_head
from penstock.wire.http.url import Url

if TYPE_CHECKING:
    import ssl

TlsFactory = Callable[[], "ssl.SSLContext"]
Admission = Callable[[str], bool]
"""Whether a numeric address may be connected to."""
_Protocol = TypeVar("_Protocol", bound=asyncio.Protocol)

_OURS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
"""Failures that say something about this machine and nothing about the other one."""

_tls: ssl.SSLContext | None = None


def default_tls() -> ssl.SSLContext:
    """The context that trusts what the system trusts; one for all, as making it takes 13 ms."""
    global _tls
    if _tls is None:
        import ssl  # never at the top of a module: it costs 4.5 MiB that plain HTTP does not need

        _tls = ssl.create_default_context()
    return _tls


async def dial(
    new_protocol: Callable[[], _Protocol],
    url: Url,
    proxy: Url | None,
    seconds: float,
    new_tls: TlsFactory = default_tls,
    admits: Admission | None = None,
) -> _Protocol:
    """A protocol connected to `url`, through `proxy` if there is one; ConnectFailed if that cannot be.

    `admits` judges each address that the name stands for. What it refuses is not connected to, and what it
    admits is connected to without asking for the name again. RequestFailed when it is this machine that has
    no descriptor, memory or port left.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _dial(new_protocol, url, proxy, new_tls, admits)
    except TimeoutError:
        raise ConnectTimeout(url.shown, seconds) from None


async def _dial(
    new_protocol: Callable[[], _Protocol],
    url: Url,
    proxy: Url | None,
    new_tls: TlsFactory,
    admits: Admission | None,
) -> _Protocol:
    loop = asyncio.get_running_loop()
    tls = new_tls() if url.is_tls else None
    sock = await _connect(loop, url, proxy or url, admits)
    if proxy is not None and url.is_tls:
        try:
            await _ask_for_tunnel(loop, sock, url, proxy)
        except BaseException:
            sock.close()
            raise
    # From here on the socket belongs to the transport, which closes it also when this fails.
    if tls is None:
        _, protocol = await loop.create_connection(new_protocol, sock=sock)
    else:
        _, protocol = await _start_tls(loop, new_protocol, sock, url, tls)
    return protocol


async def _connect(
    loop: asyncio.AbstractEventLoop, url: Url, where: Url, admits: Admission | None
) -> socket.socket:
    if where.scheme == "unix":
        return await _connect_here(loop, where)
    via = "" if where is url else f" (proxy {where.origin})"
    try:
        infos = await loop.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)
    except OSError as why:
        # The resolver says "no such name" too when it could open no file to look into.
        _raise_if_ours(why if why.errno in _OURS else _maybe_shortage())
        raise ConnectFailed(url.shown, f"Name not known: {where.host}{via}") from None
    if admits is not None:
        infos = [info for info in infos if admits(str(info[4][0]))]
        if not infos:
            raise ConnectFailed(url.shown, f"Address not allowed{via}")
    failure: OSError | None = None
    for family, kind, protocol, _, address in infos:
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as why:
            _raise_if_ours(why)
            failure = failure or why  # no IPv6 here, perhaps
            continue
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
        except OSError as why:
            sock.close()
            _raise_if_ours(why)
            if why.errno == errno.EADDRNOTAVAIL and family == socket.AF_INET:
                raise RequestFailed("No port is left to connect from") from None
            # Of localhost's two addresses often only one is served; a refusal tells more than "no route".
            if failure is None or isinstance(why, ConnectionRefusedError):
                failure = why
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    if isinstance(failure, TimeoutError):
        raise ConnectFailed(url.shown, f"Connection timeout{via}", Failure.TIMEOUT)
    if failure is None or isinstance(failure, ConnectionRefusedError):
        raise ConnectFailed(url.shown, f"Connection refused{via}")
    raise ConnectFailed(url.shown, f"{os.strerror(failure.errno or 0)}{via}")


async def _connect_here(loop: asyncio.AbstractEventLoop, where: Url) -> socket.socket:
    """A connection to a Unix socket, which is another process of ours."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, where.host)
    except OSError as why:
        sock.close()
        _raise_if_ours(why)
        raise ConnectFailed("another worker", os.strerror(why.errno or 0)) from None
    except BaseException:
        sock.close()
        raise
    return sock


def _raise_if_ours(why: OSError | None) -> None:
    if why is not None and why.errno in _OURS:
        raise RequestFailed(f"No resources for a connection: {os.strerror(why.errno)}") from None


def _maybe_shortage() -> OSError | None:
    """Why no file can be opened now; None when one can."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as why:
        return why
    return None


async def _start_tls(
    loop: asyncio.AbstractEventLoop,
    new_protocol: Callable[[], _Protocol],
    sock: socket.socket,
    url: Url,
    tls: ssl.SSLContext,
) -> tuple[asyncio.BaseTransport, _Protocol]:
    import ssl

    add_tls()
    try:
        return await loop.create_connection(new_protocol, sock=sock, ssl=tls, server_hostname=url.host)
    except ssl.SSLCertVerificationError as why:
        detail = f"TLS certificate not accepted: {why.verify_message}"
        error = ConnectFailed(url.shown, detail, Failure.INVALID_RESPONSE)
        error.cause = "SSL_CERT_FILE=ca.pem makes another authority trusted"
        raise error from None
    except (ssl.SSLError, OSError) as why:
        reason = getattr(why, "reason", None) or "the connection was closed"
        detail = f"TLS handshake failed: {str(reason).lower().replace('_', ' ')}"
        raise ConnectFailed(url.shown, detail, Failure.INVALID_RESPONSE) from None


async def _ask_for_tunnel(loop: asyncio.AbstractEventLoop, sock: socket.socket, url: Url, proxy: Url) -> None:
    """CONNECT (RFC 9110, 9.3.6). TLS clients speak first, so nothing can follow the proxy's answer."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    authority = f"{host}:{url.port}".encode()
    credentials = proxy.basic_credentials
    headers = [(b"Proxy-Authorization", credentials)] if credentials else []
    answer = bytearray()
    try:
        await loop.sock_sendall(sock, build_request_head(b"CONNECT", authority, authority, headers, b""))
        while b"\r\n\r\n" not in answer:
            data = await loop.sock_recv(sock, 4096)
            answer += data
            if not data or len(answer) > limits.RESPONSE_HEAD_BYTES:
                raise MalformedHttp("Malformed answer")
        status = read_response_head(bytes(answer[: answer.index(b"\r\n\r\n") + 4])).status
    except (OSError, MalformedHttp):
        detail = f"Proxy {proxy.origin} did not answer as a proxy"
        raise ConnectFailed(url.shown, detail, Failure.INVALID_RESPONSE) from None
    if not 200 <= status < 300:
        raise ConnectFailed(url.shown, f"Proxy {proxy.origin} answered {status}", Failure.REFUSED)
