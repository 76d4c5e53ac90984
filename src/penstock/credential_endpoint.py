"""An endpoint whose upstreams see callers' own credentials: behind it, one of its own for each of them.

Sessions, links and what is shared in the newer era belong to one credential; with another one, a session is
as unknown as one that never was. There are so many at a time, and each leaves when nobody uses it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from penstock import limits
from penstock.config.model import ProxyConfig, SeveralUpstreams, UrlUpstream
from penstock.digests import sha256
from penstock.downstream.mcp_head import Door
from penstock.downstream.replies import refuse
from penstock.endpoint import Endpoint
from penstock.errors import PenstockError
from penstock.net.http_exchange import Reply, Request

if TYPE_CHECKING:
    from penstock.open_several import CallerCredential

log = logging.getLogger("penstock")

_LED = (b"/mcp", b"/sse", b"/messages")


def new_endpoint(config: ProxyConfig, *args: Any, **named: Any) -> Endpoint:
    """The endpoint that a configuration wants."""
    upstream = config.upstream
    if isinstance(upstream, SeveralUpstreams) and any(one.terms.credential for one in upstream.members):
        return CredentialEndpoint(config, *args, **named)
    return Endpoint(config, *args, **named)


class _Own:
    """What belongs to one credential."""

    def __init__(self, endpoint: Endpoint, credential: CallerCredential) -> None:
        self.endpoint = endpoint
        self.credential = credential
        self.doors = endpoint.doors()
        self.replies: WeakSet[Reply] = WeakSet()
        self.used_at = asyncio.get_running_loop().time()

    @property
    def is_busy(self) -> bool:
        """Whether a session lives here, or something is under way."""
        is_open = any(not reply.is_finished and not reply.is_gone for reply in self.replies)
        return is_open or self.endpoint.session_count > 0


class CredentialEndpoint(Endpoint):
    """Leads each request to the doors of the credential that it brings; without any, to the common ones."""

    def __init__(self, config: ProxyConfig, *args: Any, **named: Any) -> None:
        super().__init__(config, *args, **named)
        assert isinstance(config.upstream, SeveralUpstreams)
        names = ("warden", "reread", "observers", "on_lost", "prefix", "fleet", "several", "sibling")
        self._made = dict(zip((*names, "public_url"), args, strict=False)) | named
        members = config.upstream.members
        relays = [one.upstream.relays for one in members if isinstance(one.upstream, UrlUpstream)]
        self._relayed = sorted({source for pairs in relays for source, _ in pairs})
        self._swaps = any(one.terms.credential == "swap" for one in members)
        self._owns: dict[bytes, _Own] = {}
        self._loop = asyncio.get_running_loop()
        self._patience = min(config.session_idle_seconds, limits.CREDENTIAL_IDLE_SECONDS)
        self._timer: asyncio.TimerHandle | None = None
        self._retiring: set[asyncio.Task[None]] = set()

    def doors(self) -> dict[bytes, Door]:
        """The doors by their paths."""
        led = {self.prefix + path for path in _LED}
        common = super().doors()
        return {path: self._led(path, door) if path in led else door for path, door in common.items()}

    def _led(self, path: bytes, common: Door) -> Door:
        def handle(request: Request, reply: Reply) -> None:
            found = self._brought(request, reply)
            own = self._own(*found) if found is not None else None
            if found is None:
                common(request, reply)
            elif own is None:
                refuse(reply, 503, "Too many callers at a time", [(b"Retry-After", b"5")])
            else:
                self._show(own, reply)
                own.doors[path](request, reply)

        return handle

    def _brought(self, request: Request, reply: Reply) -> tuple[bytes, dict[bytes, bytes], str] | None:
        """What stands for the credential of a request, its headers that go on, and whose it is."""
        headers = {name: request.fields[name] for name in self._relayed if name in request.fields}
        admission = reply.admission[0] if reply.admission is not None else None
        has_token = self._swaps and admission is not None and reply.subject is not None
        if not headers and not has_token:
            return None
        whose = admission.caller.key if admission is not None else b""
        key = sha256(repr((whose, sorted(headers.items()))).encode())
        return key, headers, admission.caller.id if admission is not None else ""

    def _show(self, own: _Own, reply: Reply) -> None:
        own.used_at = self._loop.time()
        own.replies.add(reply)
        if reply.subject is not None:
            own.credential.subject.show(reply.subject, reply.admission[0].expires)

    def _own(self, key: bytes, headers: dict[bytes, bytes], who: str) -> _Own | None:
        own = self._owns.pop(key, None)
        if own is None and len(self._owns) >= limits.CREDENTIALS and not self._make_room():
            return None
        own = self._owns[key] = own or self._new(headers, who)
        if self._timer is None:
            self._timer = self._loop.call_later(self._patience / 2, self._look)
        return own

    def _new(self, headers: dict[bytes, bytes], who: str) -> _Own:
        from penstock.open_several import CallerCredential, Several

        assert self.several is not None
        credential = CallerCredential(headers, who)
        several = Several(self.several.hub, self.several.view, False, credential=credential)
        made = self._made | {"several": several, "sibling": self, "on_lost": self._lost_one}
        return _Own(Endpoint(self._config, **made), credential)

    def _lost_one(self, error: PenstockError) -> None:
        log.warning("%s. It is the matter of one caller.", error.headline)

    # --- the end -----------------------------------------------------------------------------------------

    def _make_room(self) -> bool:
        for key, own in self._owns.items():  # the longest unused first
            if not own.is_busy:
                self._retire_one(key)
                return True
        return False

    def _retire_one(self, key: bytes) -> None:
        task = self._loop.create_task(self._owns.pop(key).endpoint.retire())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    def _look(self) -> None:
        """Lets those go that nobody uses."""
        long_ago = self._loop.time() - self._patience
        for key, own in list(self._owns.items()):
            if own.used_at < long_ago and not own.is_busy:
                self._retire_one(key)
        self._timer = self._loop.call_later(self._patience / 2, self._look) if self._owns else None

    @property
    def _others(self) -> list[Endpoint]:
        return [own.endpoint for own in self._owns.values()]

    @property
    def session_count(self) -> int:
        """Sessions that live in this process."""
        return super().session_count + sum(one.session_count for one in self._others)

    def take_no_more(self) -> None:
        """From now on no session begins here."""
        super().take_no_more()
        for one in self._others:
            one.take_no_more()

    def lose(self, error: PenstockError) -> None:
        """Nobody is served any more because of this error."""
        super().lose(error)
        for one in self._others:
            one.lose(error)

    def end_idle_streams(self) -> None:
        """Ends what has no end of its own and on which nothing is under way."""
        super().end_idle_streams()
        for one in self._others:
            one.end_idle_streams()

    async def retire(self) -> None:
        """Nobody is led here any more."""
        for key in list(self._owns):
            self._retire_one(key)
        await super().retire()

    async def close(self) -> None:
        """Ends every session and closes every link."""
        if self._timer is not None:
            self._timer.cancel()
        for key in list(self._owns):
            self._retire_one(key)
        while self._retiring:
            await asyncio.wait(self._retiring)
        await super().close()
