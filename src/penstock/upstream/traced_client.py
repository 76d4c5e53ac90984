"""An HTTP client that tells the upstream of our span in a header too. Loaded where spans are injected."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from penstock.net.http_client import HttpClient
from penstock.net.upstream_connection import Receiver, Ticket
from penstock.wire.http.http1 import Headers

_VALID = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}").fullmatch


class _Meta(Struct):
    traceparent: str = ""


class _Params(Struct):
    meta: _Meta = msgspec.field(name="_meta", default_factory=_Meta)


class _Traced(Struct):
    params: _Params = msgspec.field(default_factory=_Params)


_read = msgspec.json.Decoder(_Traced).decode


class TracedClient(HttpClient):
    """Sends with each message the traceparent that stands in its `_meta`."""

    def request(
        self,
        method: bytes,
        target: bytes,
        headers: Headers,
        body: bytes,
        receiver: Receiver,
        is_kept_used: bool = True,
    ) -> Ticket:
        """Sends a request; its header says what its body says."""
        try:
            value = _read(body).params.meta.traceparent if body else ""
        except (msgspec.DecodeError, UnicodeDecodeError):
            value = ""  # tracing is no reason to stop a message
        if _VALID(value):
            headers = [field for field in headers if field[0].lower() != b"traceparent"]
            headers.append((b"traceparent", value.encode()))
        return super().request(method, target, headers, body, receiver, is_kept_used)
