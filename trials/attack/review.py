"""What a review with the source in hand had found, as attacks: rows 201 to 216 are its R1 to R16.

What the other tables show is not here: R3 is among the rows 62, R13 among 91, R14 and R15 among 90.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from doors import Lost
from gate import call, cpu_seconds, request
from pairs import Proxy
from trials.attack.cell import Cell, alive
from trials.attack.client_bytes import in_era
from trials.attack.messages import fire
from trials.attack.rows import DROPPED, HELD, NOISE, REFUSED, RuleRun, Weight
from trials.soak import abuses

Played = tuple[str, str]
HTTP = ("sse", "streamable")


@contextlib.contextmanager
def _ruled(cell: Cell, *rules: dict[str, Any], version: str = "") -> Iterator[Cell]:
    """The same place with these rules, for as long as it is needed."""
    numbered = [{"id": f"r{number}", **rule} for number, rule in enumerate(rules)]
    config = {"interceptor": {"chain": {"timeout": "60s"}, "rules": numbered}}
    other = Cell(
        cell.work, cell.client, cell.transport, version or cell.version, cross=cell.cross, config=config
    )
    try:
        yield other
    finally:
        other.close()


def _judged(cell: Cell, verdict: str, wrong: list[str]) -> Played:
    """What has to be said after a scene in a cell of its own."""
    if wrong:
        return NOISE, "; ".join(wrong)[:300]
    return cell.faults() or (verdict, "")


# --- R1, R11: values that servers convert ----------------------------------------------------------------

VALUES = [
    {"param_greater_than": {"field": "arguments.count", "value": 100}},
    {"param_equals": {"field": "arguments.sudo", "value": True}},
    {"param_matches": {"field": "arguments.paths.*", "pattern": "^/etc/"}},
    {"param_exists": "arguments.options.force"},
    {"param_matches": {"field": "arguments.**", "pattern": "AKIA[0-9A-Z]{4}"}},
]
CONVERTED = [
    rb'{"count":1000}', rb'{"count":"1000"}', rb'{"count":"1e3"}', rb'{"sudo":true}', rb'{"sudo":"true"}',
    rb'{"sudo":1}', rb'{"sudo":"yes"}', rb'{"paths":["/etc/passwd"]}', rb'{"paths":"[\"/etc/passwd\"]"}',
    rb'{"options":{"force":1}}', rb'{"options":"{\"force\":1}"}', rb'{"x":["AKIA1234"]}',
    rb'{"x":"[\"AKIA\\u0031234\"]"}',
]  # fmt: skip
URIS = ["vault://secret/x", "vault://se\tcret/key", "file:///etc/se\rcret", "vault://%61dmin/doc"]


def values_that_servers_convert(cell: Cell) -> Played:
    with _ruled(cell, *({"conditions": [one], "actions": [{"block": "no"}]} for one in VALUES)) as there:
        there.forget()
        answers = {arguments: there.attacker.call("echo", arguments) for arguments in CONVERTED}
        wrong = [
            f"{arguments!r} got {answer}" for arguments, answer in answers.items() if "error" not in answer
        ]
        wrong += [f"{line[:200]!r} reached the upstream" for line in there.reached()]
        return _judged(there, REFUSED, wrong)


def addresses_that_servers_convert(cell: Cell) -> Played:
    pattern = {"param_matches": {"field": "uri", "pattern": "(?i)secret|admin"}}
    with _ruled(cell, {"conditions": [pattern], "actions": [{"block": "no"}]}) as there:
        there.forget()
        for uri in URIS:
            fire(
                there, in_era(request(b'"u"', "resources/read", json.dumps({"uri": uri}).encode()), cell.era)
            )
        alive(there.attacker)
        wrong = [f"{line[:200]!r} reached the upstream" for line in there.reached()]
        wrong += [f"answered {raw[:200]!r}" for raw in there.told() if b'"error"' not in raw]
        return _judged(there, REFUSED, wrong)


# --- R4: answers of clients ------------------------------------------------------------------------------


ANSWER = b'{"jsonrpc":"2.0","id":%b,"result":{"action":"accept","content":{"x":"hunter2"}}}'


def an_answer_under_another_spelling(cell: Cell) -> Played:
    rule = {
        "direction": "client",
        "conditions": [{"method_equals": "elicitation/create"}],
        "actions": [{"block": "no answers"}],
    }
    asked = {"method": "elicitation/create", "params": {"message": "?"}}
    with _ruled(cell, rule) as there:
        door = there.connect(begin=False)
        door.begin(there.version, b'{"elicitation":{}}')
        there.forget()
        if there.cross:
            door.begin_order("input", b'"ask"', ask={"q": asked})
        else:
            door.begin_order("ask", b'"ask"', raw=json.dumps({"jsonrpc": "2.0", "id": 0, **asked}))
        heard = door.message(lambda raw: b"elicitation/create" in raw)
        token = json.dumps(json.loads(heard.raw)["id"]).encode()
        for spelling in (b'"%b"' % token.strip(b'"'), b'""', b"0.0", b"[0]", token, token):
            fire(
                there,
                b'{"jsonrpc":"2.0","id":%b,"result":{"action":"accept","content":{"x":"hunter2"}}}'
                % spelling,
                door=door,
            )
        alive(door)
        wrong = [f"{line[:200]!r} reached the upstream" for line in there.reached() if b"hunter2" in line]
        door.close()
        return _judged(there, DROPPED, wrong)


# --- R5, R7, R8, R10: what one client can do to others, or to get out of a limit --------------------------

SLOW = {
    "conditions": [{"method_equals": "tools/call"}, {"param_exists": "arguments.slow"}],
    "actions": [{"delay": "2s"}],
}
SLOWLY = b'{"name":"echo","arguments":{"slow":1}}'


def _heard_slowly(there: Cell) -> list[str]:
    """What is wrong with the answer to the bystander's slow call, which is under way."""
    answer = there.bystander.answer(b'"slow"', 30)
    if post := getattr(there.bystander, "posts", {}).pop(b'"slow"', None):
        post.close()
    there.bystander.heard.clear()
    return [] if b'"called" : "echo"' in answer else [f"a bystander's call got {answer[:200]!r}"]


def ending_what_another_waits_for(cell: Cell) -> Played:
    with _ruled(cell, SLOW) as there:
        there.forget()
        there.bystander.request(b'"slow"', "tools/call", SLOWLY)
        for _ in range(2):
            door = there.connect()
            if getattr(door, "session", None):
                door.whole("DELETE", "/mcp", {"Mcp-Session-Id": door.session})
            door.close()
        try:
            for number in range(200):
                there.attacker.more = {"Authorization": f"Bearer {number}"}
                alive(there.attacker)
        finally:
            there.attacker.more = {}
        return _judged(there, HELD, _heard_slowly(there))


def all_places_to_wait(cell: Cell) -> Played:
    with _ruled(cell, SLOW, version="2025-03-26") as there:
        there.forget()
        batch = b",".join(
            b'{"jsonrpc":"2.0","id":"b%d","method":"tools/call","params":%b}' % (number, SLOWLY)
            for number in range(1000)
        )
        with contextlib.suppress(Lost):
            fire(there, b"[%b]" % batch, within=1.0)
        there.bystander.request(b'"slow"', "tools/call", SLOWLY)
        wrong = _heard_slowly(there)
        there.attacker.until(lambda: any(b"b999" in heard.raw for heard in there.attacker.heard), 60)
        return _judged(there, HELD, wrong)


def more_sessions_than_there_are(cell: Cell) -> Played:
    if cell.transport == "stdio":
        return HELD, ""  # hundreds of processes prove no more: tests/transports/test_weight.py
    with _ruled(cell) as there:
        alive(there.bystander)
        there.forget()
        for _ in range(260):
            door = there.connect(begin=False)
            token = door.new_id()
            greeting = b'{"protocolVersion":"%b","capabilities":{},"clientInfo":{"name":"a","version":"1"}}'
            door.request(token, "initialize", greeting % there.version.encode())
            post = door.posts.get(token)
            door.until(lambda post=post: post.is_over or post.is_stream)  # type: ignore[misc]
            door.close()
        return _judged(there, HELD, [])


def keys_that_nobody_checks(cell: Cell) -> Played:
    few = {
        "conditions": [{"method_equals": "tools/call"}, {"param_exists": "arguments.few"}],
        "actions": [{"rate_limit": {"limit": 2, "window": "1h"}}],
    }
    with _ruled(cell, few) as there:
        there.forget()
        try:
            for number in range(8):
                there.attacker.more = {"Authorization": f"Bearer {number}"}
                there.attacker.call("echo", b'{"few":%d}' % number)
        finally:
            there.attacker.more = {}
        passed = [line for line in there.reached() if b'"few":' in line]
        wrong = [f"{len(passed)} of 8 passed a limit of 2"] if len(passed) != 2 else []
        return _judged(there, REFUSED, wrong)


# --- R12: loopback by another spelling -------------------------------------------------------------------


def loopback_by_another_name(cell: Cell) -> Played:
    wrong = []
    for spelling in ("LOCALHOST:0", "0x7f000001:0", "127.1:0"):
        with (
            Proxy(cell.work, cell.there.words(), *cell.rules, listen=spelling) as proxy,
            proxy.connect("streamable", cell.era) as door,
        ):
            body = in_era(call("echo"), cell.era)
            evil = {"Host": f"evil.example:{proxy.port}", "Origin": f"http://evil.example:{proxy.port}"}
            for name, value in evil.items():
                status = door.whole(
                    "POST", "/mcp", {"Content-Type": "application/json", name: value}, body
                ).status
                if status != 403:
                    wrong.append(f"{spelling} with {name}: {status}")
    return _judged(cell, REFUSED, wrong)


LEGACY, STREAMABLE = ("legacy",), ("streamable",)
SCENES = [
    RuleRun("201", "values that servers convert, past rules", values_that_servers_convert),
    RuleRun("204", "an answer under another spelling of its id", an_answer_under_another_spelling, LEGACY),
    RuleRun("205", "ending what another client waits for", ending_what_another_waits_for, clients=HTTP),
    RuleRun("207", "a batch that takes all places to wait", all_places_to_wait, LEGACY, HTTP),
    RuleRun("208", "260 sessions beside one that rests", more_sessions_than_there_are, LEGACY, STREAMABLE),
    RuleRun("210", "a limit, with a new key for each call", keys_that_nobody_checks, clients=STREAMABLE),
    RuleRun("211", "addresses that servers convert, past rules", addresses_that_servers_convert),
    RuleRun("212", "another name, loopback spelt otherwise", loopback_by_another_name, clients=STREAMABLE),
]


# --- R2, R6, R9: memory and time -------------------------------------------------------------------------

MEMBERS = 49_000
SECONDS = 0.6
"""Processor time that one message of nine megabytes may cost with twenty patterns that look at all of it."""


def many_patterns(cell: Cell) -> tuple[str, str, float]:
    rules = [
        {"conditions": [{"param_matches": {"field": "arguments.*", "pattern": f"secret{number}[0-9]+x"}}],
         "actions": [{"block": "no"}]}
        for number in range(20)
    ]  # fmt: skip
    members = b",".join(b'"m%d":"%b"' % (number, b"secret " * 25) for number in range(MEMBERS))
    raw = in_era(
        b'{"jsonrpc":"2.0","id":"t","method":"tools/call","params":{"name":"echo","arguments":{%b}}}'
        % members,
        cell.era,
    )
    with _ruled(cell, *rules) as there:
        there.attacker.seen = None
        before = cpu_seconds(there.pid)
        fire(there, raw, within=90.0)
        there.attacker.until(lambda: any(b'"t"' in heard.raw[:200] for heard in there.attacker.heard), 90.0)
        spent = cpu_seconds(there.pid) - before
        verdict, why = _judged(there, HELD, [] if spent <= SECONDS else [f"{spent:.2f} s of processor time"])
    return verdict, why or f"{spent:.2f} s of processor time for {len(raw) / 1e6:.1f} MB", 0.0


def memory_after(cell: Cell, what: str) -> tuple[str, str, float]:
    """A hundred times half a megabyte, and nobody collects: `make soak` does it a thousand times."""
    client = cell.client if cell.client == "sse" else cell.era
    if cell.client == "stdio" or (client, cell.transport) not in abuses.PATHS:
        return HELD, "", 0.0
    # With rules, what hung up is remembered for its answer, within a bound that a hundred do not fill.
    row = asyncio.run(abuses.abuse(cell.work, client, cell.transport, what, what != "hung up", 100))
    return (HELD if row.is_held else NOISE), row.verdict, 0.0


WEIGHTS = [
    Weight("202", "memory after exchanges that were refused", partial(memory_after, what="refused")),
    Weight("202", "memory after keys and names that were invented", partial(memory_after, what="invented")),
    Weight("206", "9 MB of members before twenty patterns", many_patterns),
    Weight("209", "memory after clients that hung up", partial(memory_after, what="hung up")),
]
