"""A request on its way to the instance that has its session: signed, for one arrival, for a moment.

The seal covers method, target, headers, body, time, number and whose connection it came on. It is made at
the public door for what has passed the checks there; at the peer door nothing is taken without it.
"""

from __future__ import annotations

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable

from penstock.net.http_exchange import Request
from penstock.state.seals import Seals
from penstock.wire.http.http1 import Headers

HEADER = b"Penstock-Hop"
FIELD = b"penstock-hop"
_HOST = b"Penstock-Hop-Host"
HOST_FIELD = _HOST.lower()
SECONDS = 30.0
"""So far two clocks may be apart, and so long an arrival is remembered."""
_MOST = 200_000  # arrivals that are remembered; beyond that nothing is taken until some are old
_OF_THE_CONNECTION = frozenset(
    b"connection keep-alive proxy-connection te trailer transfer-encoding upgrade host content-length".split()
)
_VALUE = re.compile(rb"1;([0-9]{1,13});([0-9a-f]{32});([\x21-\x3a\x3c-\x7e]{0,64});([0-9a-f]{32})").fullmatch


class Hops:
    """Signs requests that leave, and looks at those that arrive."""

    def __init__(self, seals: Seals, wall: Callable[[], float] = time.time) -> None:
        self._seals = seals
        self._wall = wall
        self._seen: OrderedDict[bytes, float] = OrderedDict()  # numbers, with the time until they are kept

    def headers_for(self, request: Request, tag: str) -> Headers:
        """The headers with which `request` goes to the instance called `tag`."""
        kept = _kept(request.headers)
        host = request.fields.get(b"host")
        if host is not None:
            kept.append((_HOST, host))
        now, number = b"%d" % int(self._wall() * 1000), os.urandom(16).hex().encode()
        peer = _peer_text(request.peer)
        seal = self._seals.seal(
            "hop", tag, now, number, peer, request.method, request.target, _flat(kept), request.body
        )
        return [*kept, (HEADER, b"1;%b;%b;%b;%b" % (now, number, peer, seal.hex().encode()))]

    def maybe_arrived(self, request: Request, tag: str) -> Request | None:
        """The request as it was at the public door; None when nobody of ours sent it to us just now."""
        found = _VALUE(request.fields.get(FIELD, b""))
        if found is None:
            return None
        now, number, peer, seal = found.groups()
        kept = _kept([pair for pair in request.headers if pair[0].lower() != FIELD])
        if not self._seals.is_sealed(
            bytes.fromhex(seal.decode()),
            "hop",
            tag,
            now,
            number,
            peer,
            request.method,
            request.target,
            _flat(kept),
            request.body,
        ):
            return None
        if abs(self._wall() - int(now) / 1000) > SECONDS or not self._is_first(number):
            return None
        fields = {name: value for name, value in request.fields.items() if name != FIELD}
        host = fields.pop(HOST_FIELD, None)
        if host is not None:  # as it was at the public door
            fields[b"host"] = host
            kept = [(b"Host", value) if name == _HOST else (name, value) for name, value in kept]
        return Request(
            request.method,
            request.target,
            kept,
            request.body,
            (peer.decode(), 0) if peer else None,
            request.connection_id,
            fields,
        )

    def _is_first(self, number: bytes) -> bool:
        now = self._wall()
        while self._seen and (next(iter(self._seen.values())) < now):
            self._seen.popitem(last=False)
        if number in self._seen or len(self._seen) >= _MOST:
            return False
        self._seen[number] = now + 2 * SECONDS
        return True


def _kept(headers: Headers) -> Headers:
    return [pair for pair in headers if pair[0].lower() not in _OF_THE_CONNECTION]


def _flat(headers: Headers) -> bytes:
    """All headers in one, each with its lengths."""
    return b"".join(b"%d:%d:%b%b" % (len(name), len(value), name, value) for name, value in headers)


def _peer_text(peer: object) -> bytes:
    text = str(peer[0]).encode("ascii", "replace") if isinstance(peer, tuple) and peer else b""
    return text if re.fullmatch(rb"[0-9A-Za-z:.%]{1,64}", text) else b""
