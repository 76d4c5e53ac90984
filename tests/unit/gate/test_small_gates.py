"""What a client is called, what a wrapped call means to the gate, and which of several rule sets is asked."""

from __future__ import annotations

from typing import Any

import pytest

import hostile
from gate_messages import client
from memory_doors import CHOICE, catalog
from penstock import limits
from penstock.gate.client_name import maybe_client_name
from penstock.gate.gate import Gate
from penstock.gate.ruled import RuledGate, Rules
from penstock.gate.unwrapped import UnwrappedGate
from penstock.gate.variants import PARTS, VariantRules, key_of, part_of
from penstock.policy.exchange import Exchange, Session
from penstock.policy.rules.interceptor import Interceptor
from penstock.policy.rules.interceptor_config import build
from penstock.policy.verdict import FORWARD, Answer, Drop, Forward, Verdict, Wait, Why
from penstock.wire.mcp.message import INVALID_PARAMS, Message

ALLOWED, DENIED = hostile.ALLOWED[0], hostile.DENIED[0]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def call(name: str = ALLOWED) -> Message:
    raw = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":{}}}'
    return client(raw % name.encode())


def begun(message: Message) -> Exchange:
    return Exchange(b"1", message.method or "", session=Session(id="s"), catalog=catalog())


# --- what a client calls itself ----------------------------------------------------------------------------

HELLO = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":%b}'
MODERN = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":%b}}'
SENDER = b'{"io.modelcontextprotocol/clientInfo":%b}'


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (HELLO % b'{"clientInfo":{"name":"editor","version":"1"}}', "editor"),
        (HELLO % b'{"clientInfo":{"version":"1"}}', None),
        (HELLO % (b'{"clientInfo":{"name":"editor"},"_meta":%b}' % (SENDER % b'{"name":"other"}')), "editor"),
        (HELLO % b'{"clientInfo":{"name":3}}', None),
        (HELLO % b'{"clientInfo":7}', None),
        (HELLO % b"{}", None),
        (HELLO % (b'{"_meta":%b}' % (SENDER % b'{"name":"modern"}')), "modern"),
        (MODERN % (SENDER % b'{"name":"modern"}'), "modern"),
        (MODERN % b"{}", None),
        (MODERN % b"7", None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"clientInfo":{"name":"liar"}}}', None),
        (PING, None),
    ],
)
def test_a_client_is_called_what_it_says_at_its_handshake_or_in_meta(raw: bytes, name: str | None) -> None:
    assert maybe_client_name(client(raw)) == name


def test_a_long_name_is_kept_cut_short() -> None:
    raw = HELLO % (b'{"clientInfo":{"name":"%b"}}' % (b"x" * (limits.NAME_LENGTH + 1)))
    assert maybe_client_name(client(raw)) == "x" * limits.NAME_LENGTH


# --- wrapped calls -----------------------------------------------------------------------------------------


def unwrapped(meant: Message | bytes | None, inner: Gate | None = None) -> UnwrappedGate:
    return UnwrappedGate(inner or Gate(CHOICE), lambda message: meant)


def test_what_wraps_nothing_is_judged_as_it_is() -> None:
    gate = unwrapped(None)
    assert gate.client_says(call(), begun(call())) is FORWARD
    assert isinstance(gate.client_says(call(DENIED), begun(call())), Answer)


def test_what_is_meant_is_judged_and_goes_on() -> None:
    meant = call()
    assert unwrapped(meant).client_says(call(DENIED), begun(call())) == Forward(meant)
    verdict = unwrapped(call(DENIED)).client_says(call(), begun(call()))
    assert isinstance(verdict, Answer)
    assert verdict.word == "deny"


def test_what_means_nothing_is_answered() -> None:
    verdict = unwrapped(b"{}").client_says(call(), begun(call()))
    why = Why("tool filter", "refuse", "it wraps no call", INVALID_PARAMS)
    assert verdict == Answer(b"{}", INVALID_PARAMS, word="deny", why=why)


class Saying(Gate):
    """A gate that says what a test wants."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(CHOICE)
        self.verdict = verdict

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        return self.verdict


def test_what_rules_made_of_the_meant_call_is_what_passes_and_their_reason_stays() -> None:
    meant, why = call(), Why("r", "change", "")
    changed = client(meant.raw.replace(b'"arguments":{}', b'"arguments":{"x":1}'))
    for verdict, wanted in (
        (Forward(changed, "change", why), Forward(changed, "change", why)),
        (Forward(None, "pass", why), Forward(meant, "pass", why)),
        (Drop(why), Drop(why)),
    ):
        assert unwrapped(meant, Saying(verdict)).client_says(call(), begun(call())) == wanted


class Undecided(Wait):
    """Waits until a test settles it."""

    ended: str = ""

    def cancel(self) -> None:
        self.ended = "cancelled"

    def fail(self, why: str) -> None:
        self.ended = why


def test_what_is_meant_passes_when_the_gate_inside_has_waited() -> None:
    meant = call()
    inside = Undecided(meant, True)
    wait: Any = unwrapped(meant, Saying(inside)).client_says(call(), begun(call()))
    out: list[Verdict] = []
    wait.then(out.append)
    assert (wait.message, wait.is_from_client, out) == (meant, True, [])
    wait.cancel()
    assert inside.ended == "cancelled"
    wait.fail("gone")
    assert inside.ended == "gone"
    inside.settle(FORWARD)
    assert out == [Forward(meant)]


def test_everything_else_is_the_gate_inside() -> None:
    inner = Gate(CHOICE)
    gate = unwrapped(None, inner)
    for name in ("upstream_says", "said", "in_batch"):
        assert getattr(gate, name) == getattr(inner, name)
    assert gate.keeps_requests == inner.keeps_requests
    assert unwrapped(None, RuledGate(CHOICE, None, Rules(rule_set()))).keeps_requests


# --- several rule sets -------------------------------------------------------------------------------------


def rule_set() -> Interceptor:
    config, faults = build({})
    assert config is not None, faults
    return Interceptor(config, None)  # type: ignore[arg-type]


def test_a_key_falls_into_the_same_part_everywhere() -> None:
    assert [part_of("s", "salt"), part_of("s", "other"), part_of("t", "salt")] == [
        part_of("s", "salt"),
        part_of("s", "other"),
        part_of("t", "salt"),
    ]
    assert len({part_of("s", "salt"), part_of("s", "other"), part_of("t", "salt")}) == 3
    parts = [part_of(f"session {number}", "salt") for number in range(2_000)]
    assert min(parts) >= 0
    assert max(parts) < PARTS
    assert PARTS == 10_000
    assert 850 < sum(part < PARTS // 2 for part in parts) < 1_150
    assert part_of("\ud800", "x" * 100) < PARTS  # what is no text, and a salt that is too long


# Written down: another instance, or another release, has to find the same.
@pytest.mark.parametrize(("key", "salt", "part"), [("session", "salt", 7083), ("", "", 9876)])
def test_a_part_does_not_change_from_release_to_release(key: str, salt: str, part: int) -> None:
    assert part_of(key, salt) == part


@pytest.mark.parametrize(
    ("session", "split_by", "key"),
    [
        (Session(id="i", mcp_session_id="m", principal="p", client_name="c"), "session", "m"),
        (Session(id="i", principal="p", client_name="c"), "session", "i"),
        (Session(id="i", mcp_session_id="m", principal="p", is_shared=True), "session", "p"),
        (Session(id="i", mcp_session_id="m", principal="p"), "principal", "p"),
        (Session(id="i", mcp_session_id="m", principal="p", client_name="c"), "client_name", "c"),
        (Session(id="i", mcp_session_id="m", principal="p"), "client_name", ""),
        (Session(id="i", principal="p", client_name="c", is_shared=True), "client_name", "c"),
    ],
)
def test_what_a_session_is_told_by(session: Session, split_by: str, key: str) -> None:
    assert key_of(session, split_by) == key


def test_each_session_has_the_set_that_its_part_falls_into() -> None:
    mine, other = rule_set(), rule_set()
    rules = VariantRules([("a", 2_500, mine, True), ("b", 7_500, other, False)], "salt")
    for number in range(200):
        session = Session(id=f"s{number}")
        picked = rules.pick(session, "tools/call")
        is_first = part_of(session.id, "salt") < 2_500
        assert picked is (mine if is_first else other)
        assert session.variant == ("a" if is_first else "b")


def test_the_border_between_two_sets_belongs_to_the_second() -> None:
    mine, other = rule_set(), rule_set()
    session = Session(id="s")
    place = part_of("s", "salt")
    for share, wanted in ((place, other), (place + 1, mine)):
        rules = VariantRules([("a", share, mine, True), ("b", PARTS - share, other, False)], "salt")
        assert rules.pick(session, "ping") is wanted
    third = rule_set()
    rules = VariantRules(
        [("a", place - 1, mine, True), ("b", 1, other, False), ("c", PARTS - place, third, False)], "salt"
    )
    assert rules.pick(session, "ping") is third


def test_a_handshake_does_not_settle_which_set_a_session_has() -> None:
    rules = VariantRules([("a", PARTS, rule_set(), True)], "salt")
    session = Session(id="s")
    assert rules.pick(session, "initialize") is rules.current
    assert session.variant == ""
    rules.pick(session, None)
    assert session.variant == "a"


def test_sets_are_split_by_what_was_said() -> None:
    mine, other = rule_set(), rule_set()
    place = part_of("editor", "salt")
    rules = VariantRules(
        [("a", place, mine, True), ("b", PARTS - place, other, False)], "salt", "client_name"
    )
    for number in range(20):
        assert rules.pick(Session(id=f"s{number}", client_name="editor"), "ping") is other


def test_whose_part_is_in_no_set_gets_the_first_rules_there_are() -> None:
    mine = rule_set()
    rules = VariantRules([("a", 0, None, True), ("b", 0, mine, False)], "salt")
    session = Session(id="s")
    assert rules.pick(session, "ping") is mine
    assert session.variant == ""


def test_a_reload_replaces_the_set_of_the_configuration_and_no_other() -> None:
    mine, other, new = rule_set(), rule_set(), rule_set()
    rules = VariantRules([("a", 5_000, mine, True), ("b", 5_000, other, False)], "salt")
    assert rules.current is mine
    rules.replace(new)
    assert rules.current is new
    found = {rules.pick(Session(id=f"s{number}"), "ping") is new for number in range(50)}
    assert found == {True, False}
    rules.replace(None)
    assert rules.current is other
    picked = [rules.pick(Session(id=f"s{number}"), "ping") for number in range(50)]
    assert {one is None for one in picked} == {True, False}
