"""A place to attack: one upstream that records, Penstock before it, an attacker and a bystander.

With `direct`, the attacker speaks to the upstream itself, to show that the judges see what leaks; with
`behind`, to a reverse proxy that stands before Penstock.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from doors import MODERN, Client, LegacyDoor, Lost, Response, Seen, SseDoor, StdioDoor
from gate import DEADLINE, wait_until
from pairs import Proxy, Upstream
from trials.attack.judge import denied_calls, hidden_names, words_of_ours
from trials.attack.reverse_proxies import ReverseProxy
from trials.attack.rows import DEAD, DENIED, DENY, LEAK, NOISE, ClientBytes, Hostile, HttpBytes, Result

DIRECT = {"stdio": StdioDoor, "sse": SseDoor, "streamable": LegacyDoor}
RULES = {
    "tools": {"deny": [DENY]},
    "interceptor": {
        "rules": [
            {
                "id": "keep-out",
                "conditions": [
                    {"method_equals": "tools/call"},
                    {"param_matches": {"field": "name", "pattern": "^read_fil[e]$"}},
                ],
                "actions": [{"block": "not with us"}],
            },
            {
                "id": "note",
                "direction": "both",
                "conditions": [{"method_matches": "^(tools|notifications)/.*qqq$"}],
                "actions": [{"log": {"level": "info", "message": "${method}"}}],
            },
        ]
    },
}
RULE_TEXTS = (DENY.encode(), b"fil[e]", b".*qqq", b'"note"')
_TRACE = re.compile(
    r'File "[^"]*(?:src|site-packages)/penstock/'
)  # an upstream that is cut off may leave one too
Row = TypeVar("Row", ClientBytes, HttpBytes, Hostile)
_marks = itertools.count(1)


ACROSS = " across eras"


class Cell:
    """One upstream, one way to it, one version of the protocol."""

    def __init__(
        self,
        work: Path,
        client: str,
        upstream: str,
        version: str,
        direct: bool = False,
        ruled: bool = False,
        options: tuple[str, ...] = (),
        deny: tuple[str, ...] = (),
        behind: str = "",
        cross: bool = False,
        config: dict[str, Any] | None = None,
    ) -> None:
        """`config` is a configuration file of its own, with the tools denied as everywhere."""
        self.client, self.transport, self.version = client, upstream, version
        self.direct, self.ruled, self.behind, self.cross = direct, ruled, behind, cross
        self.era = "modern" if version == MODERN else "legacy"
        if cross:
            options = (*options, "--legacy-only" if self.era == "modern" else "--modern-only")
        self.work = Path(tempfile.mkdtemp(dir=work))
        self.bytes_file = self.work / "bytes"
        self.bytes_file.touch()
        self.errors = self.work / "stdio-errors"
        self.errors.touch()
        self.there = Upstream(upstream, self.work, "--bytes", str(self.bytes_file), *options)
        self.rules = [word for pattern in (DENY, *deny) for word in ("--deny", pattern)]
        self.forbidden: tuple[str, ...] = (*DENIED, "read_file") if ruled else DENIED
        if ruled or config is not None:
            file = self.work / "rules.yaml"
            file.write_text(json.dumps(RULES if config is None else {"tools": RULES["tools"], **config}))
            self.rules = ["--config", str(file)]
        if cross:
            self.rules += ["--era", "bridge"]
        self.proxy: Proxy | None = None
        self.reverse: ReverseProxy | None = None
        self.attacker: Any = None
        self.bystander: Any = None
        self._read = self._read_bytes = self._judged_bytes = 0
        self.start()

    @property
    def name(self) -> str:
        way = f"direct {self.client}" if self.direct else f"{self.client}>{self.transport}"
        more = f" behind {self.behind}" if self.behind else " ruled" if self.ruled else ""
        return f"{way} {self.version}{more}{ACROSS if self.cross else ''}"

    # --- starting and ending ---------------------------------------------------------------------------

    def start(self) -> None:
        if self.client != "stdio" and not self.direct:
            self.proxy = Proxy(self.work, self.there.words(), *self.rules)
            if self.behind:
                self.reverse = ReverseProxy(self.behind, self.work, self.proxy.port)
        self.attacker = self.connect()
        self.bystander = self.connect()
        if self.era == "legacy":
            self.bystander.begin_order("hold", b'"held"', mark=self.held_mark)
            assert wait_until(lambda: any(self.held_mark.encode() in line for line in self.there.reached()))
        self.check_alive()
        self.forget()

    @property
    def held_mark(self) -> str:
        return f"held-{id(self.bystander)}"

    def connect(self, begin: bool = True) -> Any:
        """One more client."""
        door: Client
        if self.client == "stdio":
            words = [sys.executable, "-m", "penstock", "--stdio", *self.rules, *self.there.words()]
            with self.errors.open("ab") as errors:
                door = StdioDoor(self.there.command if self.direct else words, self.era, errors)
        else:
            door = DIRECT[self.client](self.port, self.era)
        door.seen = Seen()
        if begin:
            door.begin(self.version) if self.era == "legacy" else door.begin()
        return door

    @property
    def port(self) -> int:
        if self.direct:
            return int(self.there.url.rpartition(":")[2].partition("/")[0])
        assert self.proxy is not None
        return self.reverse.port if self.reverse is not None else self.proxy.port

    @property
    def pid(self) -> int:
        """The process under attack."""
        process = self.attacker.process if self.proxy is None else self.proxy.process
        return int(process.pid)

    def restart(self) -> None:
        """After an attack that has ended something."""
        self.stop_clients()
        if self.there.process is not None and self.there.process.poll() is not None:
            self.there.start()
        self.start()

    def stop_clients(self) -> None:
        for door in (self.attacker, self.bystander):
            if isinstance(door, StdioDoor):
                door.process.kill()
                door.process.wait()
                for pipe in (door.process.stdin, door.process.stdout):
                    assert pipe is not None
                    pipe.close()
            elif door is not None:
                door.close()
        if self.reverse is not None:
            self.reverse.stop()
            self.reverse = None
        if self.proxy is not None:
            self.proxy.process.terminate()
            self.proxy.process.wait(20)
            self.proxy = None

    def close(self) -> str:
        """Ends it all; what was wrong at the end, if anything."""
        fault = ""
        try:
            if self.era == "legacy":
                self.bystander.order("release", mark=self.held_mark)
                if b"released" not in self.bystander.answer(b'"held"'):
                    fault = "what a bystander had asked before was not answered after"
        except (Lost, OSError) as lost:
            fault = f"what a bystander had asked before was lost: {str(lost)[:100]}"
        self.stop_clients()
        self.there.stop()
        return fault

    @property
    def stderr(self) -> str:
        return self.errors.read_text("utf-8", "replace") + (self.proxy.stderr if self.proxy else "")

    # --- watching --------------------------------------------------------------------------------------

    def forget(self) -> None:
        """What was said until now is nobody's business any more."""
        self._read = self.there.record.stat().st_size
        # What came after the last look has not been judged yet, so it is the next look's.
        self._read_bytes = self.bytes_file.stat().st_size if self.direct else self._judged_bytes
        for door in (self.attacker, self.bystander):
            door.heard.clear()
            door.seen = Seen()

    def reached(self) -> list[bytes]:
        """The messages of the attack that reached the upstream since."""
        with self.there.record.open("rb") as file:
            file.seek(self._read)
            lines = file.read().split(b"\n")[:-1]
        return [line for line in lines if b"alive-" not in line]

    def bytes_reached(self) -> list[bytes]:
        """Every byte that reached the upstream since, connection by connection."""
        until = time.monotonic() + 5
        while True:
            with self.bytes_file.open("rb") as file:
                file.seek(self._read_bytes)
                lines = file.read().split(b"\n")[:-1]
            try:
                entries = [json.loads(line) for line in lines]
                break
            except ValueError:  # seen while it was being written
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        self._judged_bytes = self._read_bytes + sum(len(line) + 1 for line in lines)
        streams: dict[str, list[str]] = {}
        for entry in entries:
            streams.setdefault(entry["on"], []).append(entry["data"])
        return ["".join(pieces).encode("latin-1") for pieces in streams.values()]

    def told(self) -> list[bytes]:
        """The messages that the attacker heard since, but for the answers to its signs of life."""
        return [heard.raw for heard in self.attacker.heard if b"alive-" not in heard.raw]

    def check_alive(self) -> None:
        """An allowed call works for both, and the bystander hears nothing but its answer."""
        for door in (self.attacker, self.bystander):
            alive(door, 3.0 if self.direct else DEADLINE)
        strange = [heard.raw for heard in self.bystander.heard if b"alive-" not in heard.raw]
        begun = b'"protocolVersion"', b"supportedVersions"
        strange = [raw for raw in strange if not any(word in raw for word in begun)]
        if strange:
            raise Lost(f"a bystander heard {strange[0][:200]!r}")

    def faults(self, is_named: bool = False, more: Iterable[bytes] = ()) -> tuple[str, str] | None:
        """What is wrong after an attack, whatever it was; `is_named` when hidden names may be shown, `more`
        what the attacker was told besides."""
        dead = self._maybe_dead()
        if dead and not self.direct:
            return DEAD, dead
        if calls := denied_calls(self.bytes_reached(), self.forbidden):
            return LEAK, f"a call of {', '.join(sorted(calls))} reached the upstream"
        seen = bytes(self.attacker.seen or b"")
        names = hidden_names(seen, [*more, *self.told()])
        if names and not is_named:
            return LEAK, f"the client was shown {', '.join(sorted(names))}"
        if hidden_names(bytes(self.bystander.seen or b""), []):
            return LEAK, "a bystander was shown a hidden name"
        if self.direct:
            return (DEAD, dead) if dead else None
        if words := words_of_ours(seen, RULE_TEXTS):
            return NOISE, f"the client was shown {words[0]!r}"
        if _TRACE.search(self.stderr):
            return NOISE, "a traceback on stderr"
        return None

    def _maybe_dead(self) -> str:
        try:
            self.check_alive()
        except (Lost, OSError, ValueError, KeyError, AssertionError) as lost:
            return str(lost)[:300] or type(lost).__name__
        return ""


def alive(door: Any, within: float = DEADLINE) -> None:
    """An allowed call comes through; all that was said before on this way has been heard by then."""
    token = b'"alive-%d"' % next(_marks)
    # The mark is in the arguments too: where one link serves many, the upstream sees another id.
    door.request(token, "tools/call", b'{"name":"echo","arguments":{"mark":%b}}' % token)
    raw = door.answer(token, within)
    if b'"called" : "echo"' not in raw:
        raise Lost(f"an allowed call got {raw[:200]!r}")
    post: Response | None = getattr(door, "posts", {}).pop(token, None)
    if post is not None:
        post.close()


def one_by_one(
    cell: Cell, rows: Sequence[Row], one: Callable[[Cell, Row], tuple[str, str]]
) -> Iterator[Result]:
    """What `one` says came of each row, in a cell that is made anew when one has ended it."""
    for row in rows:
        cell.forget()
        verdict, why = one(cell, row)
        yield Result(row.row, row.what, cell.name, verdict, why)
        if verdict == DEAD:
            cell.restart()
