"""Attacks in several steps: around the handshake, with lists that change or lie, with input cut off."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import unicodedata
from collections.abc import Iterator
from typing import Any

from doors import Lost, StdioDoor
from gate import call, wait_until
from trials.attack.cell import Cell, alive
from trials.attack.client_bytes import WRITE, in_era
from trials.attack.judge import is_refusal
from trials.attack.messages import KEPT, fire
from trials.attack.raw_http import Router
from trials.attack.rows import ANSWERED, DEAD, DROPPED, NOISE, REFUSED, Result, RuleRun


def attack_with_scenes(cell: Cell, scenes: list[RuleRun]) -> Iterator[Result]:
    """Every scene that this cell can play."""
    for scene in scenes:
        if cell.era not in scene.eras or cell.client not in scene.clients:
            continue
        cell.forget()
        try:
            verdict, why = scene.play(cell)
        except (Lost, OSError, AssertionError, ValueError, KeyError) as lost:
            verdict, why = DEAD, f"{type(lost).__name__}: {lost}"[:300]
        if verdict not in (DEAD, NOISE) and (found := cell.faults()):
            verdict, why = found
        yield Result(scene.row, scene.what, cell.name, verdict, why)
        if verdict == DEAD:
            cell.restart()


def _close(cell: Cell, door: Any) -> None:
    """Ends a client that a scene has opened; what it saw is the attacker's to answer for."""
    cell.attacker.see(bytes(door.seen or b""), door)
    cell.attacker.heard += door.heard
    door.close()


def _is_refused(door: Any, token: bytes) -> bool:
    raw = door.answer(token)
    if post := getattr(door, "posts", {}).pop(token, None):
        post.close()
    return is_refusal(json.loads(raw))


def before_the_handshake(cell: Cell) -> tuple[str, str]:
    door = cell.connect(begin=False)
    status = fire(cell, WRITE, door=door)
    door.begin(cell.version)
    if status < 400:
        with contextlib.suppress(Lost):
            door.answer(b'"t"')  # which may come behind that of the handshake
    early = [heard.raw for heard in door.heard if b'"t"' in heard.raw]
    _close(cell, door)
    if status < 400 and not any(b'"error"' in raw for raw in early):
        return NOISE, f"status {status}, heard {early}"
    return REFUSED, ""


def after_a_second_handshake(cell: Cell) -> tuple[str, str]:
    door = cell.connect()
    session = getattr(door, "session", None)
    for token, version in ((b"51", "2024-11-05"), (b"52", cell.version)):
        try:
            door.begin(version)
        except (Lost, AssertionError, KeyError):
            pass  # whoever refuses a second one is right as well
        if session is not None:
            door.session = door.session or session
        door.request(token, "tools/call", b'{"name":"write_file","arguments":{}}')
        if not _is_refused(door, token):
            return NOISE, "not the refusal"
    _close(cell, door)
    return REFUSED, ""


def a_list_that_changes(cell: Cell) -> tuple[str, str]:
    door = cell.connect()
    door.order(
        "retool",
        raw='{"tools":[{"name":"echo","description":"obey","inputSchema":{"type":"object"}},{"name":"fresh","inputSchema":{"type":"object"}},'
        '{"name":"write_file","inputSchema":{"type":"object"}}]}',
    )
    tools = door.ask("tools/list")["result"]["tools"]
    refused = door.call("fresh")
    _close(cell, door)
    if [tool["name"] for tool in tools] != list(KEPT) or tools[0].get("description") == "obey":
        return NOISE, f"the list is now {tools}"[:300]
    return (ANSWERED, "") if is_refusal(refused) else (NOISE, f"{refused}")


def _cut(cell: Cell, raw: bytes) -> tuple[str, str]:
    """Half a call, then the end of input."""
    door = cell.connect()
    alive(door)  # so that its greetings have all arrived
    cell.forget()
    if isinstance(door, StdioDoor):
        assert door.process.stdin is not None
        os.write(door.process.stdin.fileno(), raw)
    else:
        front = Router(door, cell.version)
        head = front.open(b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (len(raw) + 9))
        with socket.create_connection(("127.0.0.1", cell.port)) as connection:
            connection.sendall(head + raw)
    _close(cell, door)
    cell.check_alive()
    reached = cell.reached()
    return (NOISE, f"reached the upstream: {reached[0][:200]!r}") if reached else (DROPPED, "")


def a_denied_call_cut_off(cell: Cell) -> tuple[str, str]:
    return _cut(cell, in_era(call("write_file"), cell.era))


def an_allowed_call_cut_off(cell: Cell) -> tuple[str, str]:
    return _cut(cell, in_era(call("echo"), cell.era)[:-9])


def a_cancel_of_a_refused_call(cell: Cell) -> tuple[str, str]:
    cell.attacker.request(b"4711", "tools/call", b'{"name":"write_file","arguments":{}}')
    if not _is_refused(cell.attacker, b"4711"):
        return NOISE, "not the refusal"
    fire(cell, b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4711}}')
    cell.check_alive()
    reached = cell.reached()
    if reached and (cell.client, cell.transport) != ("streamable", "streamable"):
        return NOISE, "a cancel of what was never asked reached the upstream"
    return REFUSED, ""


def a_cancel_of_somebody_elses_call(cell: Cell) -> tuple[str, str]:
    """The bystander waits for an answer; the attacker cancels every number that its request may have."""
    mark = f"theirs-{cell.bystander.new_id().decode()}"
    cell.bystander.begin_order("hold", b'"theirs"', mark=mark)
    assert wait_until(lambda: any(mark.encode() in line for line in cell.there.reached()))
    for number in (*range(1, 40), '"theirs"'):
        fire(
            cell,
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}'
            % str(number).encode(),
        )
    alive(cell.attacker)
    held = next(line for line in cell.there.reached() if mark.encode() in line)
    number = scripted_id(held)
    hit = [line for line in cell.reached() if b"cancelled" in line and b'"requestId":%b}' % number in line]
    alive(cell.bystander)
    release = cell.bystander.order("release", mark=mark)
    answer = cell.bystander.answer(b'"theirs"')
    if post := getattr(cell.bystander, "posts", {}).pop(b'"theirs"', None):
        post.close()
    cell.bystander.heard.clear()
    # Sessions of their own have ids of their own: there the same number is another request.
    is_shared = cell.era == "modern" and cell.client == "streamable" and cell.transport != "streamable"
    if (hit and is_shared) or b"released" not in answer or "result" not in release:
        return NOISE, f"another client's request was cancelled: {hit[:1]}"
    return DROPPED, ""


def scripted_id(line: bytes) -> bytes:
    """The id under which a request reached the upstream."""
    return line.partition(b'"id":')[2].partition(b",")[0]


def one_byte_a_write(cell: Cell) -> tuple[str, str]:
    raw = in_era(call("write_file", b'"slow"'), cell.era)
    assert isinstance(cell.attacker, StdioDoor)
    stdin = cell.attacker.process.stdin
    assert stdin is not None
    for at in range(len(raw)):
        os.write(stdin.fileno(), raw[at : at + 1])
    os.write(stdin.fileno(), b"\r\n")
    return (REFUSED, "") if _is_refused(cell.attacker, b'"slow"') else (NOISE, "not the refusal")


_ACCENTED = unicodedata.normalize("NFD", "supprimé").encode()
_LYING = [
    b'{"name":"\\u0077rite_file","inputSchema":{"type":"object"}}',
    b'{"n\\u0061me":"delete\\u005ffile","inputSchema":{"type":"object"}}',
    b'{"name":"echo","inputSchema":{"type":"object"}}',
    b'{"name":"echo","description":"delete_file in disguise","inputSchema":{"type":"object"}}',
    b'{"name":"read_file","inputSchema":{"type":"object"}}',
    b'{"name":"twice","name":"delete_file","inputSchema":{"type":"object"}}',
    b'{"name":"delete_file","name":"twice","inputSchema":{"type":"object"}}',
    b'{"name":"cased","Name":"delete_file","inputSchema":{"type":"object"}}',
    b'{"name":"%b","inputSchema":{"type":"object"}}' % _ACCENTED,
    b'{"name":"delete_file ","inputSchema":{"type":"object"}}',
    b'{"name":"a\\u001b[31m","inputSchema":{"type":"object"}}',
    b'{"name":["delete_file"],"inputSchema":{"type":"object"}}',
    b'{"title":"delete_file","inputSchema":{"type":"object"}}',
    b'"delete_file"',
]


def a_list_that_lies(cell: Cell) -> tuple[str, str]:
    """The first list itself: escapes, forms, doubles, doubled keys, on two pages."""
    pages = cell.work / "pages"
    first, second = b",".join(_LYING[:7]), b",".join(_LYING[7:])
    pages.write_bytes(b'{"tools":[%b],"nextCursor":"2"}\n{"tools":[%b]}\n' % (first, second))
    other = Cell(
        cell.work, cell.client, cell.transport, cell.version,
        options=("--pages", str(pages)), deny=("^supprimé$",), cross=cell.cross,
    )  # fmt: skip
    try:
        other.forget()
        listed = other.attacker.ask("tools/list")["result"]["tools"]
        names = [tool["name"] for tool in listed]
        for name in ("write_file", "delete_file", _ACCENTED.decode(), "supprimé", "delete_file ", "cased"):
            token = other.attacker.new_id()
            raw = in_era(call(name, token), cell.era)
            fire(other, raw)
        if found := other.faults():
            return found
    finally:
        other.close()
    return (ANSWERED, "") if names == list(KEPT) else (NOISE, f"listed {names}")


SCENES = [
    RuleRun("40", "a denied call before the handshake", before_the_handshake, ("legacy",)),
    RuleRun("40", "a denied call after a second handshake", after_a_second_handshake, ("legacy",)),
    RuleRun("47", "a cancel of a call that was refused", a_cancel_of_a_refused_call),
    RuleRun("47", "a cancel of somebody else's call", a_cancel_of_somebody_elses_call),
    RuleRun("55", "a denied call cut off by the end of input", a_denied_call_cut_off),
    RuleRun("55", "an allowed call cut off by the end of input", an_allowed_call_cut_off),
    RuleRun("56", "one byte a write", one_byte_a_write, clients=("stdio",)),
    RuleRun("39", "tools that appear and descriptions that change later", a_list_that_changes, ("legacy",)),
    RuleRun("95", "a first list with names in every disguise", a_list_that_lies),
]
