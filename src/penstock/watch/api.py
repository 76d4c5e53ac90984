"""The API of the hub, `/api/v1`: what pages and programs may ask, and who may.

GET changes nothing. Errors are `{"error": {"code", "message"}}`. `schema/watch-api.json` describes it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError, ToolListRefused
from penstock.net.http_exchange import Reply, Request
from penstock.observe.filter_words import FilterFault
from penstock.policy.tools.budget import Budget, Cost
from penstock.watch import bounds
from penstock.watch.api_learning import ROUTES as LEARNING_ROUTES
from penstock.watch.api_learning import LearningCalls
from penstock.watch.detail import detail_of, shown_bytes
from penstock.watch.event_streams import EventStream
from penstock.watch.instance import Instance
from penstock.watch.logins import Login, TooMany
from penstock.watch.masked_text import masked_text
from penstock.watch.requests import Refused, read_body, read_query, send_json, send_refusal, whole
from penstock.watch.row import HubRow
from penstock.watch.site_files import SAFETY

if TYPE_CHECKING:
    from penstock.watch.hub import Hub

PREFIX = "/api/v1/"
Answer = tuple[int, object]
Handler = Callable[["Call"], "Answer | Awaitable[Answer] | None"]


_ROUTES = (
    ("GET", "instances", "view", "instances"),
    ("GET", "sessions", "view", "sessions"),
    ("GET", "rules", "view", "rules"),
    ("GET", "tools", "view", "tools"),
    ("GET", "upstreams", "view", "upstreams"),
    ("GET", "limits", "view", "limits"),
    *LEARNING_ROUTES,
    ("GET", "log", "view", "log"),
    ("GET", "held", "view", "held"),
    ("GET", "rows", "view", "rows"),
    ("GET", "me", "view", "me"),
    ("GET", r"messages/(\d{1,15})", "view", "message"),
    ("GET", r"messages/(\d{1,15})/bytes", "view", "bytes"),
    ("GET", "events", "view", "events"),
    ("POST", "logout", "view", "log_out"),
    ("POST", r"held/([A-Za-z0-9_.-]{1,80})-(\d{1,15})", "approve", "decide"),
    ("POST", r"messages/(\d{1,15})/reveal", "approve", "reveal"),
    ("POST", r"exchanges/(\d{1,15})/replay", "control", "replay"),
    ("POST", "try", "control", "try"),
    ("PUT", r"breakpoints/([A-Za-z0-9_-]{1,40})", "control", "break"),
    ("DELETE", r"breakpoints/([A-Za-z0-9_-]{1,40})", "control", "unbreak"),
)


def routes() -> list[tuple[str, str, str]]:
    """Method, path and role of everything that can be asked for by who is logged in."""
    return [(method, pattern, role) for method, pattern, role, _ in _ROUTES]


class Call:
    """One request of somebody who is logged in."""

    def __init__(self, request: Request, reply: Reply, login: Login, words: tuple[str, ...]) -> None:
        self.request = request
        self.reply = reply
        self.login = login
        self.words = words  # what stands in the path
        self.query = read_query(request)
        self.is_masked = not login.may("approve")


class Api(LearningCalls):
    """Answers requests out of what the hub knows."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._tasks: set[asyncio.Task[None]] = set()
        self._routes: list[tuple[bytes, re.Pattern[str], str, Handler]] = [
            (method.encode(), re.compile(pattern), role, getattr(self, f"_{name}"))
            for method, pattern, role, name in _ROUTES
        ]

    def handle(self, request: Request, reply: Reply) -> None:
        """Answers one request; who it is for and where it comes from was checked before."""
        path = request.path.decode("latin-1")[len(PREFIX) :]
        try:
            if path == "login" and request.method == b"POST":
                self._log_in(request, reply)
                return
            login = self._hub.logins.maybe_login(request.header(b"authorization"))
            if login is None:
                raise Refused(401, "login", "Log in first")
            answer = self._call(path, request, reply, login)
            if isinstance(answer, Awaitable):
                task = asyncio.ensure_future(self._later(reply, answer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif answer is not None:
                send_json(reply, *answer)
        except Refused as why:
            send_refusal(reply, why)
        except FilterFault as fault:
            facts = {"code": "filter", "message": fault.headline, "column": fault.column}
            send_json(reply, 422, {"error": facts})

    async def _later(self, reply: Reply, answer: Awaitable[Answer]) -> None:
        try:
            status, value = await answer
        except Refused as why:
            send_refusal(reply, why)
        except PenstockError as why:
            send_json(reply, 422, {"error": {"code": "value", "message": str(why)}})
        else:
            send_json(reply, status, value)

    def _call(
        self, path: str, request: Request, reply: Reply, login: Login
    ) -> Answer | Awaitable[Answer] | None:
        is_known = False
        method = b"GET" if request.method == b"HEAD" else request.method
        for known, pattern, role, handler in self._routes:
            found = pattern.fullmatch(path)
            if found is not None:
                is_known = True
                if known == method:
                    if not login.may(role):
                        raise Refused(403, "role", f"This needs the role {role}")
                    return handler(Call(request, reply, login, found.groups()))
        if is_known:
            raise Refused(405, "method", "Not with this method")
        if not login.may("approve") and method != b"GET":
            raise Refused(403, "role", "The role view only looks")
        raise Refused(404, "path", "There is nothing here")

    def _log_in(self, request: Request, reply: Reply) -> None:
        body = read_body(request)
        code, token = body.get("code"), body.get("token")
        try:
            found = self._hub.logins.log_in(
                code if isinstance(code, str) else None,
                token if isinstance(token, str) else None,
                str(request.peer[0]) if request.peer else "",
            )
        except TooMany:
            raise Refused(429, "tries", "Too many wrong tries; wait a minute") from None
        if found is None:
            raise Refused(401, "login", "This code is not good, or no more")
        bearer, login = found
        send_json(reply, 200, {"token": bearer, "who": login.who, "role": login.role})

    def _log_out(self, call: Call) -> Answer:
        self._hub.logins.log_out(call.login)
        return 200, {}

    # --- tables ------------------------------------------------------------------------------------------

    def _instances(self, call: Call) -> Answer:
        return 200, {"instances": [one.facts() for one in self._hub.instances.values()]}

    def _me(self, call: Call) -> Answer:
        return 200, {"who": call.login.who, "role": call.login.role}

    def _held(self, call: Call) -> Answer:
        return 200, {"held": self.held_list()}

    def _sessions(self, call: Call) -> Answer:
        table = self._hub.summaries.sessions
        rows = [{"at": at, "name": key, **count.shown()} for (at, key), count in table.items()]
        return 200, {"sessions": rows}

    def _rules(self, call: Call) -> Answer:
        counts = self._hub.summaries.rules
        rows: list[dict[str, object]] = []
        seen = set()
        for one in self._hub.instances.values():
            for rule in one.rules:
                key = (one.header.name, str(rule.get("id")))
                if key in seen:
                    continue  # of another proxy with the same name, and counted with it
                seen.add(key)
                count = counts.get(key)
                told = {**rule, "at": key[0], "name": key[1], "title": rule.get("name", "")}
                rows.append({**told, **(count.shown() if count else {})})
        rows += [
            {"at": at, "name": name, "on": True, "own": True, **count.shown()}
            for (at, name), count in counts.items()
            if (at, name) not in seen
        ]
        points = [
            {"id": name, "filter": words, "at": one.header.name}
            for one in self._hub.instances.values()
            for name, words in one.points.items()
        ]
        return 200, {"rules": rows, "breakpoints": points}

    def _tools(self, call: Call) -> Answer:
        used = self._hub.summaries.tools
        rows: list[dict[str, object]] = []
        totals = {"allowed": 0, "denied": 0}
        costs: list[Cost] = []
        budgets: list[int] = []
        seen = set()
        for one in self._hub.instances.values():
            for tool in one.tools.get("tools") or ():
                key = (one.header.name, tool["name"])
                if key in seen:
                    continue  # the same server, for another client
                seen.add(key)
                count = used.get(key)
                figures = count.shown() if count is not None else {"calls": 0, "errors": 0, "p95": None}
                rows.append({"at": key[0], **figures, **tool})
                totals[tool["state"]] += tool["tokens"]
                if tool["state"] == "allowed":
                    costs.append(Cost(tool["name"], tool["tokens"]))
            budgets += [one.tools["budget"]] if one.tools.get("budget") else []
        rows += [
            {"at": at, "state": "unlisted", **count.shown(), "name": name, "tokens": 0}
            for (at, name), count in used.items()
            if (at, name) not in seen
        ]
        budget = whole(call.query.get("budget"), budgets[0] if budgets else 0)
        return 200, {"tools": rows, "tokens": totals, "budget": _remedy(budget, costs)}

    def _upstreams(self, call: Call) -> Answer:
        open_by: dict[str, int] = {}
        for row in self._hub.store.rows:
            if row.kind == "request" and row.status == "pending" and row.verdict in ("pass", "change"):
                open_by[row.at] = open_by.get(row.at, 0) + 1
        return 200, {
            "upstreams": [
                {**one.facts(), "pending": open_by.get(one.header.name, 0)}
                for one in self._hub.instances.values()
            ]
        }

    def _limits(self, call: Call) -> Answer:
        store = self._hub.store
        held = sum(len(one.held) for one in self._hub.instances.values())
        return 200, {
            "limits": [
                {"name": "rows", "used": len(store.rows), "most": bounds.ROWS},
                {"name": "bytes", "used": store.bytes_kept, "most": bounds.ROW_BYTES},
                {"name": "held", "used": held, "most": bounds.HELD_MESSAGES},
                {"name": "streams", "used": len(self._hub.streams.streams), "most": bounds.STREAMS_OF_LOGIN},
            ]
        }

    def _log(self, call: Call) -> Answer:
        lines = [
            {**line, "at": one.header.name, "text": one.masker.text(str(line.get("text", "")))}
            for one in self._hub.instances.values()
            for line in one.log
        ]
        lines.sort(key=lambda line: float(line.get("t", 0)))
        return 200, {"log": lines[-bounds.LOG_LINES :]}

    # --- messages ----------------------------------------------------------------------------------------

    def _rows(self, call: Call) -> Answer:
        rank, limit = whole(call.query.get("rank"), 0), whole(call.query.get("limit"), 200)
        if not 0 < limit <= bounds.PAGE_ROWS:
            raise Refused(400, "limit", f"At most {bounds.PAGE_ROWS} rows")
        words = call.query.get("filter", "")
        page = self._hub.store.page(words, call.is_masked, rank, limit)
        if not page["matched"] and words.strip():
            page["terms"] = self._term_counts(words, call.is_masked)
        return 200, {**page, "epoch": self._hub.epoch}

    def _term_counts(self, words: str, is_masked: bool) -> list[dict[str, object]]:
        """How many rows each word of a filter finds alone: which of them is too much."""
        counts: list[dict[str, object]] = []
        for word in words.split()[:8]:
            try:
                found = self._hub.store.found(word, is_masked)
            except FilterFault:
                continue
            if found is not None:
                counts.append({"term": word, "matched": len(found.seqs)})
        return counts

    def _row(self, call: Call) -> HubRow:
        row = self._hub.store.maybe_row(int(call.words[0]))
        if row is None:
            raise Refused(404, "gone", "This message is not kept any more")
        return row

    def _message(self, call: Call) -> Answer:
        return 200, detail_of(self._row(call), call.login)

    def _bytes(self, call: Call) -> None:
        kind = (b"Content-Type", b"application/octet-stream")
        name = (b"Content-Disposition", b"attachment; filename=message.json")
        call.reply.send(200, [kind, name, *SAFETY], shown_bytes(self._row(call), call.login))

    async def _reveal(self, call: Call) -> Answer:
        row = self._row(call)
        who, role = call.login.who, call.login.role
        instance = self._instance_of(row)
        if instance is not None:  # written down first
            await instance.ask({"do": "note", "who": who, "role": role, "message": str(row.index)})
        call.login.revealed[row.seq] = time.monotonic() + bounds.REVEAL_SECONDS
        self._hub.streams.note("revealed", {"seq": row.seq, "who": who})
        return 200, detail_of(row, call.login)

    def _instance_of(self, row: HubRow) -> Instance | None:
        return self._hub.instances.get(row.source)

    def _events(self, call: Call) -> None:
        hub, query = self._hub, call.query
        if call.login.streams >= bounds.STREAMS_OF_LOGIN:
            raise Refused(429, "streams", "Too many streams of one login; ask for rows instead")
        epoch, _, seq = query.get("after", "").partition(".")
        is_known = epoch == hub.epoch and seq.isdecimal()
        after = int(seq) if is_known else hub.store.last
        only_held = query.get("only") == "held"
        stream = EventStream(
            call.reply, hub.store, hub.epoch, call.login, query.get("filter", ""), after, only_held
        )
        call.reply.start(200, [(b"Content-Type", b"text/event-stream"), *SAFETY])
        stream.begin(
            {
                "epoch": hub.epoch,
                "reset": bool(epoch) and not is_known,
                "role": call.login.role,
                "who": call.login.who,
                "total": len(hub.store.rows),
                "held": self.held_list(),
                "source": hub.source,
            }
        )
        hub.streams.add(stream)

    # --- what people do ----------------------------------------------------------------------------------

    def held_list(self) -> list[dict[str, object]]:
        """Everything that waits, masked."""
        return [
            self.held_facts(one, facts) for one in self._hub.instances.values() for facts in one.held.values()
        ]

    def held_facts(self, instance: Instance, facts: dict[str, Any]) -> dict[str, object]:
        """One message that waits. Its text is masked; an edit begins with the value as it is shown."""
        masker = instance.masker
        shown = {name: value for name, value in facts.items() if name not in ("tap", "text", "value")}
        for name in ("text", "value"):
            shown[name] = masked_text(str(facts.get(name, "")).encode("utf-8", "surrogatepass"), masker)
        shown["is_masked"] = shown["text"] != facts.get("text")
        return {**shown, "at": instance.header.name, "id": f"{instance.key}-{facts['id']}"}

    async def _decide(self, call: Call) -> Answer:
        key, held_id = call.words
        instance = next((one for one in self._hub.instances.values() if one.key == key), None)
        if instance is None:
            raise Refused(404, "gone", "There is no such proxy")
        body = read_body(call.request)
        action = body.get("action")
        if action == "edit" and not call.login.may("control"):
            raise Refused(403, "role", "To edit needs the role control")
        command = {name: body.get(name) for name in ("action", "sha", "text", "part", "value")}
        if action == "edit":
            self._refuse_masks(instance, int(held_id), str(body.get("value")))
        command |= {"do": "decide", "id": int(held_id), "who": call.login.who, "role": call.login.role}
        return _outcome(await instance.ask(command))

    def _refuse_masks(self, instance: Instance, held_id: int, value: str) -> None:
        """An edit that was begun from a masked text must not send the masks upstream."""
        facts = instance.held.get(held_id)
        if facts is not None and "[masked]" in value and "[masked]" not in str(facts.get("value", "")):
            raise Refused(422, "masked", "It still says [masked]; put the real value there")

    async def _replay(self, call: Call) -> Answer:
        row = self._row(call)
        instance = self._instance_of(row)
        if row.kind != "request" or row.sender != "client":
            raise Refused(422, "kind", "Only a client's request can be replayed")
        if row.is_cut:
            raise Refused(422, "cut", "Of this message only the beginning is kept")
        if instance is None or not instance.is_connected:
            raise Refused(503, "gone", "The proxy is not there")
        body = read_body(call.request)
        if body.get("confirmed") is not True:
            raise Refused(409, "confirm", "Say confirmed: true to call it once more")
        command = {"do": "replay", "text": row.text(), "era": row.era}
        found = await instance.ask(command, bounds.REPLAY_SECONDS + 5)
        status, value = _outcome(found)
        if status == 200 and isinstance(value, dict):
            text = str(found.get("text", ""))
            value = {"ms": found.get("ms"), "text": masked_text(text.encode(), instance.masker)}
        return status, value

    async def _try(self, call: Call) -> Answer:
        body = read_body(call.request)
        rules, words = body.get("rules"), body.get("filter", "")
        if not isinstance(rules, str) or not isinstance(words, str):
            raise Refused(400, "rules", "rules must be a text")
        found = self._hub.store.found(words, call.is_masked)
        rows = [row for row in self._hub.store.rows if found is None or found.matches(row)]
        return 200, await self._hub.try_rules(rules, rows[-bounds.TRY_MESSAGES :])

    async def _break(self, call: Call) -> Answer:
        words = read_body(call.request).get("filter")
        if not isinstance(words, str) or not words.strip():
            raise Refused(400, "filter", "A breakpoint needs a filter")
        self._hub.breakpoints[call.words[0]] = words
        return await self._of_all({"do": "break", "id": call.words[0], "filter": words}, call.words[0])

    async def _unbreak(self, call: Call) -> Answer:
        self._hub.breakpoints.pop(call.words[0], None)
        return await self._of_all({"do": "unbreak", "id": call.words[0]}, call.words[0])

    async def _of_all(self, command: dict[str, Any], name: str) -> Answer:
        """Asks every proxy; the first that objects is heard."""
        asked = [one for one in self._hub.instances.values() if one.is_connected]
        if not asked:
            raise Refused(503, "gone", "There is no proxy")
        outcomes = [_outcome(await one.ask(command)) for one in asked]
        worst = max(outcomes, key=lambda outcome: outcome[0])
        if worst[0] == 422:
            self._hub.breakpoints.pop(name, None)
        return worst


def _outcome(facts: dict[str, Any]) -> Answer:
    status = int(facts.get("code", 500))
    message = str(facts.get("message", ""))
    if status == 200:
        return 200, {"message": message}
    return status, {"error": {"code": "refused", "message": message}}


def _remedy(most: int, costs: list[Cost]) -> dict[str, object] | None:
    """What a budget leaves, and how to meet it."""
    if most <= 0:
        return None
    used = sum(cost.tokens for cost in costs)
    try:
        Budget(most).refuse_excess(costs)
    except ToolListRefused as why:
        return {"most": most, "used": used, "fix": why.detail}
    return {"most": most, "used": used, "fix": ""}
