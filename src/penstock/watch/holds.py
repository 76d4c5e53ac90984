"""Messages that wait for a person: which, how long, and what becomes of them. Closed on every doubt."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from penstock.errors import PenstockError
from penstock.gate.held import CannotEdit, HumanWait, edited_message
from penstock.policy.exchange import NO_REQUEST, Exchange
from penstock.policy.verdict import Approval, Caller
from penstock.watch import bounds
from penstock.wire.mcp.message import Kind, Message
from penstock.wire.mcp.replies import printable

if TYPE_CHECKING:  # what rules and filters need is loaded when a message is held, and not before
    from penstock.observe.rows import MessageRow
    from penstock.policy.rules.interceptor_config import Defaults
    from penstock.policy.rules.method_classes import MethodClasses
    from penstock.watch.keep_alive import KeepAlive

log = logging.getLogger("penstock")

FULL = "Blocked: too many messages wait for a person already"
RELOADED = "Blocked: the rules have changed while it waited"
ENDING = "Blocked: the proxy ends"
DENIED = "A person has denied it"
_KINDS = {Kind.REQUEST: "request", Kind.NOTIFICATION: "notification", Kind.RESPONSE: "response"}

Outcome = tuple[int, str]
"""What a command comes to: a status as HTTP has them, and words."""


class Held(Struct):
    """One message that waits."""

    id: int
    kind: str  # breakpoint or approve
    wait: HumanWait
    sha: str
    since: float  # wall clock
    until: float
    approval: Approval | None
    point: str = ""
    timer: asyncio.TimerHandle | None = None
    alive: KeepAlive | None = None
    who: str = ""
    role: str = ""


class Breakpoint(Struct):
    """A filter whose messages are held, and the hub that set it."""

    id: str
    filter: Any  # a Filter
    hub: int


class Holds:
    """The Holder of one proxy. `tell` gets what hubs shall know, `note` what is to be kept, `said` what a
    client was told meanwhile."""

    def __init__(
        self,
        name: str,
        tell: Callable[[dict[str, object]], None],
        note: Callable[[str, dict[str, object], Exchange], None],
        said: Callable[[bytes, Exchange], None],
        classes: MethodClasses | None = None,
        defaults: Defaults | None = None,
    ) -> None:
        self._name = name
        self._tell = tell
        self._note = note
        self._said = said
        self._is_silence_told = False
        self.classes = classes
        self.defaults = defaults
        self.points: dict[str, Breakpoint] = {}
        self.held: dict[int, Held] = {}
        self._last = 0
        self._bytes = 0
        self._over: dict[int, str] = {}  # how those ended that somebody may still click on

    # --- for the gate ------------------------------------------------------------------------------------

    @property
    def is_watching(self) -> bool:
        """Whether there is any breakpoint."""
        return bool(self.points)

    def maybe_breakpoint(self, sender: str, message: Message, exchange: Exchange) -> str | None:
        """The breakpoint that holds this message; one that cannot tell holds it."""
        if not self.points:
            return None
        row = _row_of(self._name, sender, message, exchange)
        for point in self.points.values():
            try:
                if point.filter.matches(row):
                    return point.id
            except Exception:
                return point.id
        return None

    def hold(self, wait: HumanWait, kind: str, approval: Any = None) -> None:
        """Keeps the message until somebody decides; one that there is no room for is blocked at once."""
        session, size = wait.exchange.session.id, len(wait.message.raw)
        of_session = sum(1 for held in self.held.values() if held.wait.exchange.session.id == session)
        if (
            len(self.held) >= bounds.HELD_MESSAGES
            or of_session >= bounds.HELD_OF_SESSION
            or self._bytes + size > bounds.HELD_BYTES
        ):
            asyncio.get_running_loop().call_soon(self._refuse, wait, kind)
            return
        self._last += 1
        seconds = approval.seconds if approval is not None else bounds.HELD_SECONDS
        now = time.time()
        held = Held(self._last, kind, wait, _sha(wait.message.raw), now, now + seconds, approval)
        held.point = wait.rule
        held.timer = asyncio.get_running_loop().call_later(seconds, self._timed_out, held)
        self.held[held.id] = held
        self._bytes += size
        wait.on_over = lambda wait, how: self._ended(held, how)
        if approval is not None and approval.keeps_alive:
            wait.on_heard = lambda message, caller: self._keep_alive(held, message, caller)
        self._note("held", self._facts(held), wait.exchange)
        self._tell({"tap": "held", **self.shown(held)})

    def _keep_alive(self, held: Held, message: Message, caller: Caller | None) -> None:
        """Its client hears of it again and again, if it wants to and can."""
        from penstock.watch.keep_alive import KeepAlive, maybe_token

        token = maybe_token(message)
        if token is None:
            return
        if caller is not None:
            held.alive = KeepAlive(token, held.wait.exchange, caller, self._said)
        elif not self._is_silence_told:
            self._is_silence_told = True
            log.warning(
                "Rule %s says keep_alive, but between two sides of Streamable HTTP no progress can be told.",
                held.point,
            )

    def _refuse(self, wait: HumanWait, kind: str) -> None:
        """Full. What is not reviewed goes by default_action, unless a rule wants it approved."""
        if kind == "approve" or not self._passes(wait):
            wait.deny(FULL)
        else:
            wait.time_out(passes=True)

    def _passes(self, wait: HumanWait) -> bool:
        """Whether a message that nobody decided about passes: never where its kind is reviewed."""
        from penstock.policy.rules.exchange import Context
        from penstock.policy.rules.interceptor_config import Defaults
        from penstock.policy.rules.method_classes import MethodClasses

        exchange = wait.exchange
        classes, defaults = self.classes or MethodClasses(), self.defaults or Defaults()
        direction = "client" if wait.is_from_client else "upstream"
        context = Context(exchange.session, direction, time.monotonic(), exchange, wall=time.time())  # type: ignore[arg-type]
        try:
            is_reviewed = classes.is_reviewed(wait.message, context)
            kind = classes.class_of(wait.message.method or exchange.method or None)
        except Exception:
            return False
        return not is_reviewed and not defaults.blocks("review" if kind == "review" else "log")

    def _timed_out(self, held: Held) -> None:
        held.wait.time_out(held.kind != "approve" and self._passes(held.wait))

    def _ended(self, held: Held, how: str) -> None:
        if self.held.pop(held.id, None) is None:
            return
        self._bytes -= len(held.wait.message.raw)
        if held.timer is not None:
            held.timer.cancel()
        if held.alive is not None:
            held.alive.stop()
            held.alive = None
        if len(self._over) >= bounds.DECIDED:
            self._over.pop(next(iter(self._over)))
        self._over[held.id] = how
        facts = self._facts(held) | {
            "how": how,
            "who": held.who,
            "role": held.role,
            "waited": round(time.time() - held.since, 3),
        }
        if how != "edited":  # that one is noted with both versions, before it goes on
            self._note("decided", facts, held.wait.exchange)
        self._tell({"tap": "decided", "id": held.id, "how": how, "who": held.who, "t": time.time()})

    # --- for people --------------------------------------------------------------------------------------

    def decide(self, command: dict[str, Any]) -> Outcome:
        """Does what a person clicked: release, deny, edit or extend, about the bytes that they saw."""
        held = self.held.get(command.get("id", 0))
        if held is None:
            how = self._over.get(command.get("id", 0))
            return (404, "There is no such message") if how is None else (409, f"It was {how} already")
        if command.get("sha") != held.sha:
            return 409, "These are not the bytes that wait"
        held.who, held.role = str(command.get("who", ""))[:100], str(command.get("role", ""))[:20]
        action = command.get("action")
        if action == "release":
            held.wait.release()
        elif action == "deny":
            self._deny(held, str(command.get("text") or ""))
        elif action == "edit":
            return self._edit(held, str(command.get("part")), str(command.get("value")))
        elif action == "extend":
            return self._extend(held)
        else:
            return 400, "It can be released, denied, edited or extended"
        return 200, "Done"

    def _deny(self, held: Held, text: str) -> None:
        words = printable(" ".join(text.split()))[:200] or DENIED
        if held.approval is not None and held.approval.is_opaque:
            words = "Method not found"
        held.wait.deny(words)

    def _edit(self, held: Held, part: str, value: str) -> Outcome:
        wait = held.wait
        try:
            edited = edited_message(wait.message, part, value.encode("utf-8"), wait.is_from_client)
        except (CannotEdit, UnicodeEncodeError) as why:
            return 422, str(why)
        facts = self._facts(held) | {"how": "edited", "who": held.who, "role": held.role}
        facts |= {"waited": round(time.time() - held.since, 3), "edited_sha": _sha(edited.raw)}
        facts |= {"was": _text(wait.message.raw), "is": _text(edited.raw)}
        self._note("decided", facts, wait.exchange)
        wait.release(edited)
        return 200, "Done"

    def _extend(self, held: Held) -> Outcome:
        most = held.since + bounds.HELD_MOST_SECONDS
        if held.until >= most:
            return 409, "It has waited as long as it may"
        held.until = min(held.until + bounds.HELD_SECONDS, most)
        if held.timer is not None:
            held.timer.cancel()
        left = held.until - time.time()
        held.timer = asyncio.get_running_loop().call_later(left, self._timed_out, held)
        self._tell({"tap": "held", **self.shown(held)})
        return 200, "Done"

    def set_point(self, point_id: str, words: str, hub: int) -> Outcome:
        """Sets a breakpoint. Fields that are known only later are refused."""
        from penstock.observe.filter_words import LATER_FIELDS, FilterFault, compile_filter

        try:
            made = compile_filter(words)
        except FilterFault as fault:
            return 422, f"{fault.headline} (column {fault.column})"
        except PenstockError as fault:
            return 422, fault.headline
        later = sorted(made.fields & LATER_FIELDS)
        if later:
            return 422, f"{later[0]} is known only later"
        if point_id not in self.points and len(self.points) >= bounds.BREAKPOINTS:
            return 409, "There are too many breakpoints"
        self.points[point_id] = Breakpoint(point_id, made, hub)
        self.tell_points()
        return 200, "Done"

    def take_point(self, point_id: str) -> Outcome:
        """Takes a breakpoint away; what it holds still waits."""
        if self.points.pop(point_id, None) is None:
            return 404, "There is no such breakpoint"
        self.tell_points()
        return 200, "Done"

    def tell_points(self) -> None:
        """Says which breakpoints there are."""
        self._tell(self.points_facts())

    def points_facts(self) -> dict[str, object]:
        """The breakpoints, for a hub."""
        return {"tap": "points", "points": {one.id: one.filter.words for one in self.points.values()}}

    def is_of(self, hub: int) -> bool:
        """Whether this hub has set any of them."""
        return any(point.hub == hub for point in self.points.values())

    # --- what ends the waiting ---------------------------------------------------------------------------

    def hub_gone(self, hub: int, is_last: bool) -> None:
        """A hub did not come back: its breakpoints go, and what they hold is decided as if time were up."""
        for point in [one for one in self.points.values() if one.hub == hub]:
            del self.points[point.id]
        if is_last:
            for held in [one for one in self.held.values() if one.kind == "breakpoint"]:
                self._timed_out(held)

    def void_reloaded(self) -> None:
        """Other rules are in force: nothing waits any more."""
        self._void(RELOADED)

    def void_ending(self) -> None:
        """The process ends: nothing waits any more."""
        self._void(ENDING)

    def _void(self, why: str) -> None:
        for held in list(self.held.values()):
            if held.kind == "breakpoint" and self._passes(held.wait):
                held.wait.time_out(passes=True)
            else:
                held.wait.void(why)

    def shown(self, held: Held) -> dict[str, object]:
        """What a hub is told of it."""
        message, exchange = held.wait.message, held.wait.exchange
        part = next((name for name in ("params", "result", "error") if name in message.envelope), "")
        request = exchange.request if exchange.request is not NO_REQUEST else None
        tool = message.tool or (request.tool if request is not None else None)
        if tool is None and message.kind is not Kind.RESPONSE:
            tool = _row_of(self._name, "client", message, exchange).tool
        return {
            **self._facts(held),
            "from": "client" if held.wait.is_from_client else "upstream",
            "message_kind": _KINDS[message.kind],
            "method": message.method or exchange.method,
            "tool": tool or "",
            "client": exchange.session.client_name or "",
            "era": exchange.session.era.value if exchange.session.era is not None else "",
            "until": held.until,
            "passes": held.kind != "approve" and self._passes(held.wait),  # if nobody decides
            "note": held.approval.note if held.approval is not None else "",
            "part": part,
            "text": message.raw.decode("utf-8", "replace"),
            "value": bytes(message.envelope[part]).decode("utf-8", "replace") if part else "",
        }

    def _facts(self, held: Held) -> dict[str, object]:
        return {
            "id": held.id,
            "kind": held.kind,
            "rule": held.point,
            "session": held.wait.exchange.session.id,
            "sha": held.sha,
            "since": held.since,
        }


def _row_of(name: str, sender: str, message: Message, exchange: Exchange) -> MessageRow:
    """The message as a filter looks at it."""
    from penstock.observe.recording import Line
    from penstock.observe.rows import Asked, MessageRow

    session, raw = exchange.session, message.raw
    line = Line(t=time.time(), s=session.id, sender=sender, kind=_KINDS[message.kind], at=name, n=len(raw))
    line.era = session.era.value if session.era is not None else ""
    line.msg = Raw(raw)
    asked = None
    if message.kind is Kind.RESPONSE:
        request = exchange.request
        inner = _row_of(name, sender, request, exchange) if request is not NO_REQUEST else None
        tool = inner.tool if inner is not None else ""
        asked = Asked(0, 0.0, exchange.method, tool, "", session.id, "pass")
    return MessageRow(line, asked, session.client_name or "")


def _sha(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
