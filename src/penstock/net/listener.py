"""Taking connections, also when the system has nothing left to take them with.

asyncio's own server, out of file descriptors, reports the same failure a hundred times in a row. Here one
descriptor is kept in reserve: it is given up to take the connection, tell it that we are full, and close it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable

from penstock import limits
from penstock.errors import ConfigError

log = logging.getLogger("penstock")

_OUT_OF_RESOURCES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Listener:
    """Listens on one address and gives each connection a protocol."""

    def __init__(self, new_protocol: Callable[[], asyncio.Protocol], refusal: bytes) -> None:
        self._new_protocol = new_protocol
        self._refusal = refusal
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._reserve = -1
        self._is_short = False
        self._retry: asyncio.TimerHandle | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether every address that is bound is of this machine only."""
        return all(_is_loopback(sock) for sock in self._sockets)

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Starts listening on every address `host` stands for; gives the first, with the port in use."""
        try:
            infos = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, address in infos:
                # With port 0 the first address picks, and the others follow it.
                chosen = self._sockets[0].getsockname()[1] if self._sockets else port
                self._bind(family, kind, protocol, (address[0], chosen, *address[2:]))
        except OSError as why:
            self.close()
            raise ConfigError(f"Cannot listen on {host}:{port}", os.strerror(why.errno or 0)) from None
        self._open_reserve()
        for sock in self._sockets:
            self._loop.add_reader(sock, self._accept, sock)
        name = self._sockets[0].getsockname()
        return name[0], name[1]

    def adopt(self, sockets: list[socket.socket]) -> None:
        """Starts to take connections on sockets that listen already."""
        self._sockets = sockets
        self._open_reserve()
        for sock in sockets:
            self._loop.add_reader(sock, self._accept, sock)

    def _bind(self, family: int, kind: int, protocol: int, address: tuple[object, ...]) -> None:
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError:
            if self._sockets:
                return  # the name has an IPv6 address but the machine has no IPv6
            raise
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(limits.LISTEN_BACKLOG)
        except OSError as why:
            sock.close()
            if why.errno == errno.EADDRNOTAVAIL and self._sockets:
                return
            raise
        self._sockets.append(sock)

    def close(self) -> None:
        """Stops listening; connections that were taken live on."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            sock.close()
        self._sockets.clear()
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(limits.ACCEPT_BATCH):
            try:
                connection, _address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as why:
                if why.errno not in _OUT_OF_RESOURCES:
                    log.warning("Cannot take a connection: %s", why)
                    return
                if not self._is_short:
                    self._is_short = True  # said once, and again only after it was over
                    log.warning("No resources for more connections: %s", why)
                if not self._refuse_with_reserve(sock):
                    self._pause()
                return  # if more are waiting we are called again; without a descriptor we could not tell
            self._is_short = False
            connection.setblocking(False)
            task = self._loop.create_task(self._start(connection))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._new_protocol, connection)
        except OSError as why:
            connection.close()
            log.debug("A client was gone before it was served: %s", why)

    def _open_reserve(self) -> None:
        try:
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._reserve = -1

    def _refuse_with_reserve(self, sock: socket.socket) -> bool:
        """Whether one waiting connection could be told that we are full."""
        if self._reserve < 0:
            return False
        os.close(self._reserve)
        try:
            connection, _address = sock.accept()
        except OSError:
            return False
        else:
            try:
                connection.setblocking(False)
                connection.send(self._refusal)
                connection.shutdown(socket.SHUT_WR)
                # Unread bytes turn our close into a reset, which can overtake the refusal.
                connection.recv(limits.HTTP_HEAD_BYTES)
            except OSError:
                pass
            finally:
                connection.close()
            return True
        finally:
            self._open_reserve()

    def _pause(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock)
        if self._retry is None:
            self._retry = self._loop.call_later(limits.ACCEPT_RETRY_SECONDS, self._resume)

    def _resume(self) -> None:
        self._retry = None
        if self._reserve < 0:
            self._open_reserve()
        for sock in self._sockets:
            self._loop.add_reader(sock, self._accept, sock)


def _is_loopback(sock: socket.socket) -> bool:
    if sock.family == socket.AF_UNIX:
        return True
    address = socket.inet_pton(sock.family, sock.getsockname()[0].partition("%")[0])
    if sock.family == socket.AF_INET:
        return address[0] == 127
    return address == _LOOPBACK_V6 or (address.startswith(_MAPPED_V4) and address[12] == 127)


_LOOPBACK_V6 = bytes(15) + b"\x01"
_MAPPED_V4 = bytes(10) + b"\xff\xff"
