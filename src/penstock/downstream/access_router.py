"""The listener's front where callers are known or profiles are served: who it is, then which door.

Nothing behind it sees a credential that was meant for us: a request goes on without its Authorization header,
so that no rule, recording or upstream can have it. What was found out for a head is remembered with the head,
for as long as the credential holds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from time import time as _now

from msgspec import Struct

from penstock.auth.bearer import maybe_token
from penstock.auth.caller import NEVER, Admission, Challenge, kept_id
from penstock.auth.callers import Callers, Outcome
from penstock.auth.terms import ChooseTerms
from penstock.downstream.binding_reply import bind_sessions
from penstock.downstream.era_door import EraDoor
from penstock.downstream.gone_profile import answer_nothing
from penstock.downstream.host_origin_check import HostOriginCheck
from penstock.downstream.mcp_head import Door, McpHead, read_head
from penstock.downstream.replies import refuse
from penstock.downstream.resource_metadata import ResourceMetadata
from penstock.downstream.router import HEALTH, READY, STATUS
from penstock.errors import ClientProtocolError
from penstock.gate.client_name import maybe_client_name
from penstock.net.http_exchange import Reply, Request
from penstock.policy.profile_choice import choose_profile
from penstock.wire.http.http1 import Headers, Memo
from penstock.wire.mcp.message import Message, read_client_message

# Byte for byte: what some would decode or fold into such a path (%2f, //, ..) is another path, and nobody's.
_PATH = re.compile(rb"(?:/p/([A-Za-z0-9_-]{1,64}))?(/mcp|/sse|/messages|/readyz)").fullmatch
_NO_SESSION = "Session not found"
_NOT_FOUND = "Not found"
_POSTS = b"/messages"


class Entry(McpHead, kw_only=True):
    """A head that was let in: by whom, until when, and how the doors see it."""

    front: object  # who let it in: after a reload that is another, and nothing of this counts
    admission: Admission
    certificate: bytes | None
    name: bytes  # which door
    profile: str | None  # None: the client's own name must be looked for
    headers: Headers
    fields: dict[bytes, bytes]
    token: bytes | None  # what was shown, where upstreams get another for it
    kept: bytes | None  # what its caller keeps of the session that it names
    peer: tuple[str] | None  # who asks, by the credential and not by the address, where that is known
    led: Led | None = None  # where the last one with this head was led to


class Led(Struct):
    """One door for a head that was let in, and what is remembered of the head there and nowhere else."""

    profile: str | None
    door: Door
    admission: tuple[Admission, str | None]
    memo: Memo
    leads_on: bool  # the door may know another for all that have this head


class AccessRouter:
    """Checks who asks and which profile that gives, then hands the request to the door."""

    def __init__(
        self,
        guard: HostOriginCheck,
        doors: Mapping[str, Mapping[bytes, Door]],
        callers: Callers | None,
        anybody: Admission,
        choose: ChooseTerms,
        default: str | None,
        metadata: ResourceMetadata,
        well_known: Callable[[Request, Reply], bool],
        status: Door | None = None,
        keeps_tokens: bool = False,
    ) -> None:
        """Without `callers`, everybody is `anybody`. `doors` by profile and by path, such as `/mcp`.
        `well_known` takes requests for the metadata of an upstream, where it has some, and says whether it
        did. With `keeps_tokens` the doors find the caller's token with the reply, and nowhere else."""
        self._guard = guard
        self._keeps_tokens = keeps_tokens
        self._doors = doors
        self._callers = callers
        self._anybody = anybody
        self._choose = choose
        self._clients = dict(choose.clients)
        self._default = default
        self._metadata = metadata
        self._well_known = well_known
        self._status = status

    def __call__(self, request: Request, reply: Reply) -> None:
        """Takes one request."""
        entry = request.memo.meaning
        # What was found out for a head like this one, as long as that is so, and for this connection. With an
        # address that is a plain tuple there is no certificate: asking for one is left out, and nothing else.
        if (
            type(entry) is Entry
            and entry.front is self
            and ((until := entry.admission.until) is NEVER or until > _now())
            and entry.certificate == (None if type(request.peer) is tuple else certificate_of(request))
        ):
            reply.extra = entry.extra
            self._enter(request, reply, entry)
            return
        refusal = self._guard.maybe_refusal(request)
        if refusal is not None:
            refuse(reply, 403, refusal)
            return
        reply.extra = self._guard.cors(request)
        path = request.path
        if request.method == b"OPTIONS":
            self._guard.preflight(request, reply)
        elif path == HEALTH:
            reply.send(200, [(b"Content-Type", b"text/plain")], b"ok\n")
        elif path == READY and READY in (doors := self._doors.get(self._default or "", {})):
            doors[READY](request, reply)
        elif path == STATUS and self._status is not None:
            self._status(request, reply)  # it asks for itself who may
        elif self._metadata.serves(path):
            self._metadata.handle(request, reply)
        elif self._callers is None:
            self._admit(request, reply, self._anybody)
        else:
            self._ask(self._callers, request, reply)

    # --- who it is ---------------------------------------------------------------------------------------

    def _ask(self, callers: Callers, request: Request, reply: Reply) -> None:
        audience = self._metadata.resource_of(request.path)
        certificate = certificate_of(request)
        names = getattr(request.peer, "names", ())
        outcome = callers.ask(request.header(b"authorization"), certificate, names, audience)
        if not isinstance(outcome, asyncio.Future):
            self._judge(request, reply, outcome)
            return
        waiting = outcome

        def settled(done: asyncio.Future[Outcome]) -> None:
            if not reply.is_gone and not done.cancelled():
                reply.on_gone = None
                self._judge(request, reply, done.result())

        waiting.add_done_callback(settled)
        reply.on_gone = lambda: (waiting.remove_done_callback(settled), None)[1]

    def _judge(self, request: Request, reply: Reply, outcome: Outcome) -> None:
        if isinstance(outcome, Challenge):
            self._metadata.challenge(outcome, request, reply)
        else:
            self._admit(request, reply, outcome)

    # --- which profile -----------------------------------------------------------------------------------

    def _admit(self, request: Request, reply: Reply, admission: Admission) -> None:
        found = _PATH(request.path)
        if found is None:
            if self._callers is not None or not self._well_known(request, reply):
                refuse(reply, 404, _NOT_FOUND)
            return
        caller = admission.caller
        if caller.pin is not None and caller.pin not in self._doors:
            # Not more than before, and not something else instead: a session that was there sees nothing.
            session = request.header(b"mcp-session-id")
            if session is not None and caller.profile_of(session) == caller.pin:
                answer_nothing(request, reply)
            else:
                refuse(reply, 403, "Forbidden: there is nothing here for this credential")
            return
        path = found[1].decode() if found[1] is not None else None
        header = self._choose.header
        written = request.header(header) if header is not None else None
        wanted = written.decode("latin-1") if written is not None else None
        named = (caller.pin, path, wanted)
        is_open = named == (None, None, None) and bool(self._clients)  # its own name may decide
        profile = None if is_open else choose_profile(*named, default=self._default)
        if not is_open and profile not in self._doors:
            refuse(reply, 404, _NOT_FOUND)
            return
        entry = self._entry(request, admission, found[2], profile)
        entry.extra = reply.extra
        request.memo.meaning = entry
        self._enter(request, reply, entry)

    def _entry(self, request: Request, admission: Admission, name: bytes, profile: str | None) -> Entry:
        headers, fields = request.headers, request.fields
        shown = fields.get(b"authorization")
        if self._callers is not None:
            headers = [field for field in headers if field[0].lower() != b"authorization"]
            fields = {name: value for name, value in fields.items() if name != b"authorization"}
        head = read_head(Request(b"", b"", headers, b"", None, 0, fields))
        key = admission.caller.key
        plain = {name: getattr(head, name) for name in McpHead.__struct_fields__}
        return Entry(
            **plain,
            front=self,
            admission=admission,
            certificate=certificate_of(request),
            name=name,
            profile=profile,
            headers=headers,
            fields=fields,
            token=maybe_token(shown) if self._keeps_tokens and shown is not None else None,
            # Where messages are posted to, the query names the session.
            kept=None if head.session is None or name == _POSTS else kept_id(head.session),
            peer=(key.hex(),) if key else None,
        )

    def _enter(self, request: Request, reply: Reply, entry: Entry) -> None:
        """Hands a request to its door, if its session is the caller's own."""
        profile, kept, admission = entry.profile, entry.kept, entry.admission
        if kept is None and entry.name == _POSTS:
            kept = kept_id(_session_in(request.query))
        if kept is not None:
            sessions = admission.caller.sessions
            own = sessions.pop(kept, None)
            if own is not None:
                sessions[kept] = own  # now the one that was used last, as in `profile_of`
            if own is None or (profile is not None and profile != own):
                refuse(reply, 404, _NO_SESSION)
                return
            profile = own
        elif self._clients:
            profile = self._named(request, entry)
        led = entry.led
        if led is None or led.profile != profile or led.leads_on:
            led = entry.led = self._lead(entry, profile)
            if led is None:
                refuse(reply, 404, _NOT_FOUND)
                return
        reply.admission = led.admission
        if entry.token is not None:
            reply.subject = entry.token
        if kept is None:
            bind_sessions(reply, admission.caller, profile or "")
        # It was made for us alone: from here on nobody finds in it what was meant for us.
        request.headers, request.fields, request.memo = entry.headers, entry.fields, led.memo
        if entry.peer is not None:
            request.peer = entry.peer
        led.door(request, reply)

    def _lead(self, entry: Entry, profile: str | None) -> Led | None:
        """Where a head is led to in a profile; None when there is nothing."""
        led = entry.led
        if led is not None and led.profile == profile:
            head = led.memo.meaning
            if isinstance(head, McpHead) and head.door is not None:
                led.door, led.leads_on = head.door, False
            return led
        door = self._doors.get(profile or "", {}).get(entry.name)
        if door is None:
            return None
        seen = Request(b"", b"", entry.headers, b"", None, 0, entry.fields)
        read_head(seen).caller = entry.admission.caller.key
        leads_on = isinstance(getattr(door, "__self__", None), EraDoor)
        return Led(profile, door, (entry.admission, profile), seen.memo, leads_on)

    def _named(self, request: Request, entry: Entry) -> str | None:
        """The profile, now that the client says its own name. Its name is a convenience and no proof."""
        name = _client_name(request.body) if request.method == b"POST" else None
        named = self._clients.get(name) if name is not None else None
        return choose_profile(entry.profile, named, default=self._default)


def certificate_of(request: Request) -> bytes | None:
    """The certificate that the client of this connection has proven to be its own."""
    return getattr(request.peer, "certificate", None)


def _client_name(body: bytes) -> str | None:
    try:
        message = read_client_message(body)
    except ClientProtocolError:
        return None  # the door refuses it
    return maybe_client_name(message) if isinstance(message, Message) else None


def _session_in(query: bytes) -> bytes:
    ids = [field[11:] for field in query.split(b"&") if field.startswith(b"session_id=")]
    return ids[0] if len(ids) == 1 else b""
