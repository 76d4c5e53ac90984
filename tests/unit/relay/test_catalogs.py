"""One kept list, seen through several filters."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gate_messages import client
from penstock import limits
from penstock.errors import ToolListFailed, ToolListRefused, UpstreamError
from penstock.policy.patterns.patterns import compile_pattern
from penstock.policy.tools.budget import Budget
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.tools.tool_filter import NOT_THERE_AT_FIRST, ToolFilter
from penstock.policy.tools.upstream_tools import UpstreamTools, read_tools
from penstock.relay.catalogs import LIST_CHANGED, Catalogs, maybe_own, principal_of, rights_of, say_frozen
from penstock.relay.kept_lists import EVERYBODYS, CatalogKey, KeptLists
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import Message

LEGACY, MODERN = EVERYBODYS
Outcome = ToolCatalog | UpstreamError


def _tools(*names: str) -> UpstreamTools:
    entries = ",".join(f'{{"name":"{name}","inputSchema":{{"type":"object"}}}}' for name in names)
    return read_tools([f'{{"tools":[{entries}]}}'.encode()])


def _deny(*names: str) -> ToolFilter:
    return ToolFilter(deny=tuple(compile_pattern(f"^{name}$", "deny") for name in names))


def _allow(*names: str) -> ToolFilter:
    return ToolFilter(allow=tuple(compile_pattern(f"^{name}$", "allow") for name in names))


TOO_CHEAP = ToolFilter(budget=Budget(most=1))


async def _never(era: Era) -> UpstreamTools:
    raise AssertionError("nobody asks the upstream")


def _names(catalog: Outcome | None) -> set[str]:
    assert isinstance(catalog, ToolCatalog)
    return {tool.name for tool in catalog.allowed}


def _through(ours: Catalogs, choice: ToolFilter) -> Catalogs:
    """The same lists, seen through another filter."""
    return Catalogs(choice, ours.lists)


def test_one_list_is_seen_through_several_filters_without_asking_the_upstream_again() -> None:
    ours = Catalogs(_deny("b"), KeptLists(_never))
    ours.put(LEGACY, _tools("a", "b", "c"))
    theirs = _through(ours, _allow("b"))
    assert _names(ours.by_era()[Era.LEGACY]) == {"a", "c"}
    assert _names(theirs.by_era()[Era.LEGACY]) == {"b"}
    seen: list[Outcome] = []
    nobody = _through(ours, _deny(".*"))
    nobody.wait(LEGACY, seen.append)
    assert [_names(one) for one in seen] == [set()]
    assert b'"a"' not in theirs.by_era()[Era.LEGACY].result


def test_all_who_wait_share_one_fetch_and_each_gets_what_its_own_filter_leaves() -> None:
    ours = Catalogs(_deny("b"), KeptLists(_never))
    theirs = _through(ours, _deny("a"))
    fetches: list[str] = []
    seen: dict[str, Outcome] = {}
    ours.wait(LEGACY, lambda one: seen.setdefault("ours", one), lambda: fetches.append("first"))
    theirs.wait(LEGACY, lambda one: seen.setdefault("theirs", one), lambda: fetches.append("second"))
    assert fetches == ["first"]
    assert not seen
    ours.lists.put(LEGACY, _tools("a", "b"))
    assert {who: _names(one) for who, one in seen.items()} == {"ours": {"a"}, "theirs": {"b"}}


def test_the_upstream_is_asked_in_our_own_name_where_no_client_has_to() -> None:
    async def learn(era: Era) -> UpstreamTools:
        asked.append(era)
        return _tools("a")

    async def run() -> None:
        catalogs = Catalogs(ToolFilter(), KeptLists(learn))
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        catalogs.wait(MODERN, answer.set_result)
        assert _names(await answer) == {"a"}
        assert _names(catalogs.maybe_known(MODERN)) == {"a"}

    asked: list[Era] = []
    asyncio.run(run())
    assert asked == [Era.MODERN]


def test_who_waits_hears_that_the_list_cannot_be_had_and_the_next_one_asks_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def learn(era: Era) -> UpstreamTools:
        raise ToolListFailed("not today")

    async def run() -> None:
        catalogs = Catalogs(ToolFilter(), KeptLists(learn))
        for _ in range(2):
            answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            catalogs.wait(MODERN, answer.set_result)
            assert isinstance(await answer, ToolListFailed)
        assert catalogs.maybe_known(MODERN) is None

    asyncio.run(run())
    assert caplog.text.count("not today") == 2
    assert {record.name for record in caplog.records} == {"penstock"}


def test_who_has_gone_is_told_nothing() -> None:
    catalogs = Catalogs(ToolFilter(), KeptLists(_never))
    seen: list[Outcome] = []
    catalogs.wait(LEGACY, seen.append, lambda: None)
    catalogs.withdraw(LEGACY, seen.append)
    catalogs.withdraw(MODERN, seen.append)  # nobody waited there
    catalogs.put(LEGACY, _tools("a"))
    assert not seen


def test_what_the_other_era_lists_anew_stays_hidden_in_every_view() -> None:
    ours = Catalogs(ToolFilter(), KeptLists(_never))
    theirs = _through(ours, _deny("a"))
    ours.put(LEGACY, _tools("a", "b"))
    late = ours.put(MODERN, _tools("a", "b", "new"))
    assert late.names == {"a", "b"}
    assert [tool.why for tool in late.denied] == [NOT_THERE_AT_FIRST]
    assert b"new" not in late.result
    assert theirs.by_era()[Era.MODERN].names == {"b"}


def test_an_upstream_without_tools_in_one_era_freezes_nothing_in_the_other() -> None:
    catalogs = Catalogs(ToolFilter(), KeptLists(_never))
    catalogs.put(LEGACY, UpstreamTools(refusal=b'{"code":-32601}'))
    assert catalogs.put(MODERN, _tools("a")).names == {"a"}


def test_a_list_that_follows_the_upstream_is_not_frozen_and_is_new_in_every_view() -> None:
    ours = Catalogs(ToolFilter(), KeptLists(_never))
    ours.lists.is_refreshed = True
    theirs = _through(ours, _deny("a"))
    ours.put(LEGACY, _tools("a", "b"))
    assert theirs.by_era()[Era.LEGACY].names == {"b"}
    assert ours.put(MODERN, _tools("new")).names == {"new"}
    seen: list[Outcome] = []
    ours.refresh(LEGACY, seen.append, lambda: None)
    assert ours.by_era()[Era.LEGACY].names == {"a", "b"}  # until the new one is there
    ours.lists.put(LEGACY, _tools("a", "c"))
    assert [_names(one) for one in seen] == [{"a", "c"}]
    assert theirs.by_era()[Era.LEGACY].names == {"c"}


def test_a_view_that_must_not_be_shown_is_refused_to_its_own_clients_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours = Catalogs(TOO_CHEAP, KeptLists(_never))
    theirs = _through(ours, ToolFilter())
    seen: dict[str, Outcome] = {}
    theirs.wait(LEGACY, lambda one: seen.setdefault("theirs", one), lambda: None)
    ours.wait(LEGACY, lambda one: seen.setdefault("ours", one), lambda: None)
    with pytest.raises(ToolListRefused):
        ours.put(LEGACY, _tools("a"))
    assert isinstance(seen["ours"], ToolListRefused)
    assert _names(seen["theirs"]) == {"a"}
    assert ours.maybe_known(LEGACY) is None
    assert ours.lists.maybe_kept(LEGACY) is None  # whoever comes next looks whether it has changed
    assert ours.by_era() == {}
    assert str(seen["ours"].detail) in caplog.text


def test_a_new_list_that_must_not_be_shown_leaves_the_old_one_in_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    catalogs = Catalogs(ToolFilter(budget=Budget(most=100)), KeptLists(_never))
    catalogs.lists.is_refreshed = True
    old = catalogs.put(LEGACY, _tools("a"))
    assert catalogs.put(LEGACY, _tools(*(f"t{number}" for number in range(100)))) is old
    assert catalogs.maybe_known(LEGACY) is old
    (record,) = caplog.records
    assert record.getMessage().startswith("The tool list costs about ")


def test_people_hear_once_of_every_catalog_that_is_made(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    told: list[ToolCatalog] = []
    ours = Catalogs(_deny("a"), KeptLists(_never), told.append)
    ours.put(LEGACY, _tools("a", "b"))
    ours.by_era()
    assert [_names(one) for one in told] == [{"b"}]
    Catalogs(_deny("b"), ours.lists, told.append).by_era()
    assert [_names(one) for one in told] == [{"b"}, {"a"}]


def test_each_principal_has_a_list_of_its_own_and_the_oldest_are_forgotten() -> None:
    catalogs = Catalogs(ToolFilter(), KeptLists(_never, is_by_principal=True))
    keys = [
        catalogs.key(Era.LEGACY, [(b"Authorization", b"Bearer %d" % number)])
        for number in range(limits.CATALOGS + 1)
    ]
    assert len(set(keys)) == len(keys)
    for number, key in enumerate(keys):
        catalogs.put(key, _tools(f"t{number}"))
    assert catalogs.maybe_known(keys[0]) is None
    assert catalogs.lists.maybe_kept(keys[0]) is None
    assert _names(catalogs.maybe_known(keys[1])) == {"t1"}
    assert catalogs.by_era() == {}
    assert catalogs.key(Era.MODERN, []) == CatalogKey(Era.MODERN)


def test_without_principals_credentials_make_no_difference() -> None:
    catalogs = Catalogs(ToolFilter(), KeptLists(_never))
    assert catalogs.key(Era.LEGACY, [(b"Authorization", b"x")]) is LEGACY
    assert catalogs.key(Era.MODERN, [(b"Authorization", b"x")]) is MODERN


def test_a_view_that_nobody_uses_any_more_is_not_kept() -> None:
    ours = Catalogs(ToolFilter(), KeptLists(_never))
    _through(ours, _deny("a"))
    assert list(ours.lists.views) == [ours]


HARMLESS = """accept accept-encoding baggage b3 cache-control content-encoding content-language content-length
content-type date dnt expect host last-event-id mcp-method mcp-name mcp-protocol-version mcp-session-id origin
pragma priority referer te traceparent tracestate upgrade-insecure-requests user-agent via x-correlation-id
x-request-id mcp-param-path sec-fetch-mode x-b3-traceid if-none-match"""


@pytest.mark.parametrize("name", HARMLESS.split())
def test_a_header_that_says_nothing_of_its_sender_makes_no_other_principal(name: str) -> None:
    assert rights_of([(name.encode(), b"x")]) == b""
    assert rights_of([(name.title().encode(), b"x")]) == b""


def test_whatever_else_a_request_has_may_tell_who_sends_it() -> None:
    def rights(*headers: tuple[bytes, bytes]) -> bytes:
        return rights_of(list(headers))

    assert rights() == b""
    key, cookie = (b"X-Api-Key", b"1"), (b"Cookie", b"a=b")
    assert len(rights(key)) == 32
    assert rights(key) == rights((b"x-api-key", b"1"), (b"Accept", b"y"))
    assert rights(key, cookie) == rights(cookie, key)
    several = [
        rights(key),
        rights(cookie),
        rights(key, cookie),
        rights((b"X-Api-Key", b"2")),
        rights((b"X-Api-Ke", b"y1")),
        rights((b"X-Api-Key", b"12:cookie3:a=b")),
    ]
    assert len(set(several)) == len(several)


def test_credentials_stand_for_their_principal_and_none_for_nobody() -> None:
    assert principal_of(None) == principal_of(b"") == b""
    assert len(principal_of(b"Bearer x")) == 32
    assert principal_of(b"Bearer x") != principal_of(b"Bearer y")


def test_people_hear_once_that_new_tools_stay_hidden(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.relay.catalogs._told", set())
    for _ in range(3):
        say_frozen()
    (record,) = caplog.records
    assert record.name == "penstock"
    assert record.getMessage().startswith(
        "The upstream's tool list has changed. Clients keep the list they had,"
    )
    assert LIST_CHANGED == "notifications/tools/list_changed"


def _message(raw: str) -> Message:
    return client(raw.encode())


MODERN_META = '{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}'


@pytest.mark.parametrize(
    ("raw", "is_begun", "era"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"initialize"}', False, Era.LEGACY),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', False, Era.LEGACY),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":' + MODERN_META + "}", False, Era.MODERN),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","params":' + MODERN_META + "}", True, Era.LEGACY),
        ('{"jsonrpc":"2.0","id":1,"method":"initialize","params":' + MODERN_META + "}", False, Era.LEGACY),
        ('{"jsonrpc":"2.0","method":"notifications/x"}', False, None),
        ('{"jsonrpc":"2.0","method":"notifications/x"}', True, Era.LEGACY),
    ],
)
def test_which_catalog_is_a_sessions_own_is_told_by_its_first_message(
    raw: str, is_begun: bool, era: Era | None
) -> None:
    catalogs = Catalogs(ToolFilter(), KeptLists(_never))
    catalogs.put(LEGACY, _tools("a"))
    catalogs.put(MODERN, _tools("a", "b"))
    known = catalogs.by_era()
    assert maybe_own(known, _message(raw), is_begun) is (None if era is None else known[era])
    assert maybe_own({}, _message(raw), is_begun) is None
