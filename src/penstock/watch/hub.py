"""The hub: a process of its own that keeps what taps and recordings say, and shows it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from penstock.errors import ConfigError
from penstock.net.http_exchange import Reply, Request
from penstock.net.http_server import HttpServer, ServerLimits
from penstock.observe.file_names import fit_name
from penstock.observe.progress import size_of
from penstock.observe.reader import RecordingReader
from penstock.watch import bounds, runtime
from penstock.watch.api import PREFIX, Api
from penstock.watch.event_streams import EventStreams
from penstock.watch.instance import Instance
from penstock.watch.line_socket import LineSocket
from penstock.watch.logins import Logins, User
from penstock.watch.patterns import Patterns
from penstock.watch.requests import OwnNames, Refused, send_refusal
from penstock.watch.row import HubRow
from penstock.watch.site_files import SAFETY, read_site
from penstock.watch.store import Store
from penstock.watch.studies import Studies
from penstock.watch.summaries import Summaries
from penstock.watch.tap_line import TapHeader

log = logging.getLogger("penstock")

Try = Callable[[str, list[HubRow]], Awaitable[dict[str, object]]]
_LOOK_SECONDS = 0.25
_CONNECTIONS = 64


class Hub:
    """What is known, and who may see it."""

    def __init__(self, try_rules: Try, users: tuple[User, ...] = (), source: str = "live") -> None:
        self.epoch = os.urandom(6).hex()
        self.source = source
        self.store = Store()
        self.summaries = Summaries()
        self.patterns = Patterns()
        self.studies = Studies(self.store)
        self.reading: dict[str, object] | None = None  # how far recordings are read
        self.instances: dict[str, Instance] = {}
        self.breakpoints: dict[str, str] = {}
        self.logins = Logins(users)
        self.streams = EventStreams(self.store)
        self.try_rules = try_rules
        self.told: list[Callable[[str, Instance, dict[str, Any]], None]] = []
        self.api = Api(self)
        self._site: dict[bytes, tuple[bytes, bytes]] = {}
        self._names: OwnNames | None = None
        self._server: HttpServer | None = None
        self._desk: socket.socket | None = None
        self._desk_path = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._visitors: set[LineSocket] = set()
        self.url = ""

    # --- where messages come from ------------------------------------------------------------------------

    async def follow(self, name: str = "", tap: str = "") -> None:
        """Listens to every tap of this user, to those of one name, or to one; new ones join as they come."""
        while True:
            for path in [tap] if tap else runtime.taps():
                known = self.instances.get(path)
                is_wanted = not name or os.path.basename(path).startswith(f"{fit_name(name)}.")
                if is_wanted and (known is None or not (known.is_connected or known.has_ended)):
                    self._meet(path, known)
            await asyncio.sleep(_LOOK_SECONDS)

    def _meet(self, path: str, known: Instance | None) -> None:
        instance = known or Instance(path, self.store, self.summaries, self._on_news, self.patterns)
        if instance.connect():
            self.instances[path] = instance

    async def read(self, path: str) -> None:
        """Takes the messages of a recording. Raises Unreadable."""
        instance = Instance(path, self.store, self.summaries, self._on_news, self.patterns)
        instance.header = TapHeader(
            "hello", name=os.path.basename(path), transport="recording", upstream=path
        )
        instance.has_ended = True
        self.instances[path] = instance
        size, done = size_of([path]), 0

        def add(count: int) -> None:
            nonlocal done
            done += count

        number = 0
        for number, line in enumerate(RecordingReader(path, add), 1):
            instance.take_line(line)
            if number % 2_000 == 0:
                share = round(min(1.0, done / size), 3) if size else 0
                self.reading = {"file": path, "messages": number, "share": share, "is_done": False}
                await asyncio.sleep(0)
        self.reading = {"file": path, "messages": number, "share": 1, "is_done": True}

    def _on_news(self, what: str, instance: Instance, facts: dict[str, Any]) -> None:
        for tell in self.told:
            tell(what, instance, facts)
        if what == "held":
            self.streams.note("held", self.api.held_facts(instance, facts))
        elif what == "decided":
            shown = {**facts, "id": f"{instance.key}-{facts['id']}", "at": instance.header.name}
            shown.pop("tap", None)
            self.streams.note("decided", shown)
        elif what == "log":
            text = instance.masker.text(str(facts.get("text", "")))
            self.streams.note("log", {**facts, "at": instance.header.name, "text": text})
        elif what == "gap":
            self.streams.note("gap", facts)
        elif what in ("gone", "ready"):
            self.streams.note("instances", {})
            if what == "ready":
                self._set_again(instance)

    def _set_again(self, instance: Instance) -> None:
        """Breakpoints are the hub's: a proxy that comes, or comes back, hears of them."""
        for name, words in self.breakpoints.items():
            command = {"do": "break", "id": name, "filter": words}
            self._begin(instance.ask(command))

    def _begin(self, work: Awaitable[object]) -> None:
        async def run() -> None:
            await work

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- the browser -------------------------------------------------------------------------------------

    async def serve(self, host: str, port: int, tls: Any = None, names: tuple[str, ...] = ()) -> str:
        """Serves the page and the API; gives the address. Raises ConfigError when the port is taken."""
        self._site = read_site()
        self._server = HttpServer(self._handle, ServerLimits(connections=_CONNECTIONS, refusals=4))
        bound, chosen = await self._server.listen(host, port, tls)
        scheme = "http" if tls is None else "https"
        own = list(names) or [host, bound]
        if self._server.is_loopback:
            own += ["localhost", "127.0.0.1"] if ":" not in bound else ["localhost", "::1"]
        self._names = OwnNames(scheme, own, chosen)
        shown = names[0] if names else f"[{bound}]" if ":" in bound else bound
        self.url = f"{scheme}://{shown}:{chosen}/"
        self._open_desk(chosen)
        if port:  # a port that was chosen for us is nobody's to come back to
            self.logins.keep_at(runtime.logins_path(chosen))
        return self.url

    def _open_desk(self, port: int) -> None:
        """The socket where our own user gets codes for the login."""
        self._desk_path = runtime.hub_path(port)
        try:
            self._desk = runtime.listen_at(self._desk_path)
        except OSError as why:
            raise ConfigError(f"Cannot open {self._desk_path}", why.strerror or str(why)) from None
        asyncio.get_running_loop().add_reader(self._desk.fileno(), self._at_desk)

    def _at_desk(self) -> None:
        assert self._desk is not None
        try:
            sock, _ = self._desk.accept()
        except OSError:
            return
        if not runtime.is_own(sock):
            sock.close()
            return
        visitor: LineSocket

        def take(line: bytes) -> None:
            seconds = bounds.CODE_TTY_SECONDS if line == b"tty" else bounds.CODE_SECONDS
            answer = {"url": self.url, "code": self.logins.new_code(seconds)}
            visitor.send(msgspec.json.encode(answer) + b"\n")

        visitor = LineSocket(sock, take, lambda: self._visitors.discard(visitor), 1 << 16, 1 << 12)
        self._visitors.add(visitor)

    def _handle(self, request: Request, reply: Reply) -> None:
        assert self._names is not None
        try:
            self._names.check(request)
        except Refused as why:
            send_refusal(reply, why)
            return
        path = request.path
        if path.startswith(PREFIX.encode()):
            self.api.handle(request, reply)
        elif path in self._site and request.method in (b"GET", b"HEAD"):
            kind, body = self._site[path]
            reply.send(200, [(b"Content-Type", kind), *SAFETY], body)
        else:
            send_refusal(reply, Refused(404, "path", "There is nothing here"))

    async def close(self) -> None:
        """Ends it."""
        self.streams.end()
        self.studies.close()
        if self._desk is not None:
            asyncio.get_running_loop().remove_reader(self._desk.fileno())
            self._desk.close()
            try:
                os.unlink(self._desk_path)
            except OSError:
                pass
        for instance in self.instances.values():
            instance.close()
        if self._server is not None:
            await self._server.drain(0.3)


def ask_desk(path: str, is_tty: bool) -> dict[str, Any] | None:
    """A code of the hub whose desk is at `path`; None where nobody is there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.settimeout(3.0)
            sock.connect(path)
            if not runtime.is_own(sock):
                return None
            sock.sendall(b"tty\n" if is_tty else b"browser\n")
            data = b""
            while not data.endswith(b"\n"):
                part = sock.recv(4096)
                if not part:
                    return None
                data += part
        except OSError:
            return None
    found: dict[str, Any] = msgspec.json.decode(data)
    return found
