"""What a rule found out about a value is true for whoever reads the message next.

A rule that blocks on a value: of what it lets pass, no parser reads that value. One that allows on a value,
or blocks everything else: of what passes, every parser reads it. One that sets or removes it: the same of
what goes on. The arguments are written in the ways in which parsers differ: names twice, in another case, in
escapes, inherited, cut at a NUL; numbers that are another in 64 bits. The servers of the official SDKs, run
live, are readers as well: they convert a value to the type that their tool declares.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from scenes import Pass, client, interceptor, rule, send

from node_reader import maybe_node, node_reader
from readers import READERS, Reader
from sdk_readers import SDKS, sdk_server

FIELD = "arguments.opts.mode"
WANTED = ["evil", 1, 0, 9007199254740992, "a.b", None, True]

_ABSENT = object()


def _spelt(*forms: bytes) -> st.SearchStrategy[bytes]:
    return st.sampled_from(forms)


OPTS = _spelt(
    b'"opts"', b'"OPTS"', b'"\\u006fpts"', b'"opt\xc5\xbf"', b'"opts\\u0000"', b'"__proto__"', b'"x"'
)
MODE = _spelt(
    b'"mode"', b'"Mode"', b'"mod\\u0065"', b'"mode\\u0000x"', b'"__proto__"', b'"constructor"', b'"\xc3\xa4"'
)
VALUES = _spelt(
    b'"evil"',
    b'"\\u0065vil"',
    b'"evil\\u0000"',
    b'"Evil"',
    b'"a.b"',
    b"1",
    b"1.0",
    b"10e-1",
    b"1.00000000000000000001",
    b"0.99999999999999999999",
    b'"1"',
    b"0",
    b"-0",
    b"1e-400",
    b"-1e400",
    b"9007199254740993",
    b"9007199254740992",
    b"true",
    b"null",
    b"[1]",
    b"{}",
)


def _objects(names: st.SearchStrategy[bytes], values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    members = st.lists(st.tuples(names, values), max_size=4)
    return members.map(lambda pairs: b"{" + b" , ".join(b"%b: %b" % pair for pair in pairs) + b"}")


INNER = _objects(MODE, VALUES | _objects(MODE, VALUES))
ARGUMENTS = _objects(OPTS, INNER | _objects(OPTS, INNER) | VALUES)


def _passed(raw: bytes, *rules: dict[str, object], **section: object) -> bytes | None:
    """What goes on of a call with these arguments, if it does."""
    message = client(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":%b}}' % raw
    )
    verdict = send(interceptor(*rules, **section), message).verdict
    event("passed" if isinstance(verdict, Pass) else "stopped")
    return verdict.raw if isinstance(verdict, Pass) else None


def _values(raw: bytes, readers: dict[str, Reader] = READERS) -> dict[str, Any]:
    """What each reader finds at the path."""
    out = {}
    for which, read in readers.items():
        for value in read(raw):  # one, or none where it refuses
            for step in ("params", *FIELD.split(".")):
                value = value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT
            out[which] = value
    return out


def _is(found: object, wanted: object, test: Callable[[Any, Any], bool] = operator.eq) -> bool:
    def is_number(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    if is_number(found) and is_number(wanted):
        return test(found, wanted)
    return type(found) is type(wanted) and found == wanted


def _equal(wanted: object) -> dict[str, object]:
    return {"param_equals": {"field": FIELD, "value": wanted}}


@given(arguments=ARGUMENTS, wanted=st.sampled_from(WANTED))
@example(b'{"opts":{"mode":"x"},"OPTS":{"mode":"evil"}}', "evil")
@example(b'{"opts":{"__proto__":{"mode":"evil"}}}', "evil")
@example(b'{"opts":{"mode":1e-400}}', 0)
def test_of_what_a_rule_lets_pass_nobody_reads_what_it_blocks(arguments: bytes, wanted: object) -> None:
    raw = _passed(arguments, rule({"block": "no"}, when=[_equal(wanted)]))
    if raw is not None:
        assert not {which for which, found in _values(raw).items() if _is(found, wanted)}, raw


@given(arguments=ARGUMENTS, bound=st.sampled_from([0, 1, 9007199254740992]))
def test_no_reader_sees_a_number_beyond_the_bound(arguments: bytes, bound: int) -> None:
    for condition, test in (("param_greater_than", operator.gt), ("param_less_than", operator.lt)):
        raw = _passed(arguments, rule({"block": "no"}, when=[{condition: {"field": FIELD, "value": bound}}]))
        if raw is not None:
            beyond = {which: found for which, found in _values(raw).items() if _is(found, bound, test)}
            assert not {which for which, found in beyond.items() if found != bound}, raw


ONLY: dict[str, Callable[[object], tuple[list[dict[str, object]], dict[str, object]]]] = {
    "allowed, and the rest blocked": lambda wanted: (
        [
            rule("allow", when=[_equal(wanted)], priority=1),
            rule({"block": "no"}, id="rest"),
        ],
        {},
    ),
    "blocked unless": lambda wanted: ([rule({"block": "no"}, when=[{"not": _equal(wanted)}])], {}),
    "the only thing that a rule speaks about": lambda wanted: (
        [rule({"log": "seen"}, when=[_equal(wanted)])],
        {"chain": {"default_action": "block"}},
    ),
}


@pytest.mark.parametrize("way", ONLY)
@given(arguments=ARGUMENTS, wanted=st.sampled_from(WANTED))
@example(b'{"opts":{"mode":"evil"},"opts":{}}', "evil")
@example(b'{"opts":{"mode":"evil"},"opts":{"mode":"x"}}', "evil")
@example(b'{"opts":{"MODE":"evil"}}', "evil")
@example(b'{"opts":{"mode":0.99999999999999999999}}', 1)
def test_of_what_only_one_value_lets_pass_everybody_reads_it(
    way: str, arguments: bytes, wanted: object
) -> None:
    rules, section = ONLY[way](wanted)
    raw = _passed(arguments, *rules, **section)
    if raw is not None:
        assert not {which for which, found in _values(raw).items() if not _is(found, wanted)}, raw


@given(arguments=ARGUMENTS)
def test_what_a_rule_sets_everybody_reads(arguments: bytes) -> None:
    raw = _passed(arguments, rule({"set_param": {"field": FIELD, "value": "set"}}))
    if raw is not None:
        assert set(_values(raw).values()) == {"set"}, raw


@given(arguments=ARGUMENTS)
def test_what_a_rule_removes_nobody_reads(arguments: bytes) -> None:
    raw = _passed(arguments, rule({"remove_param": FIELD}))
    assert raw is not None
    assert set(_values(raw).values()) == {_ABSENT}, raw


def _texts(value: object) -> set[str]:
    """Every text in a value, names of members included."""
    if isinstance(value, dict):
        return {str(name) for name in value}.union(*map(_texts, value.values()))
    if isinstance(value, list):
        return set().union(*map(_texts, value))
    return {value} if isinstance(value, str) else set()


def _texts_read(raw: bytes) -> dict[str, set[str]]:
    return {
        which: _texts(value["params"])
        for which, read in READERS.items()
        for value in read(raw)
        if isinstance(value, dict)
    }


@given(arguments=ARGUMENTS)
@example(b'{"opts":{"x":{"x":"a"},"X":{"y":"evil"}}}')
@example(b'{"evil":1}')
def test_of_what_passes_nobody_reads_a_text_that_is_blocked_wherever_it_stands(arguments: bytes) -> None:
    raw = _passed(arguments, rule({"block": "no"}, when=[{"text_matches": "^evil$"}]))
    if raw is not None:
        assert not {which for which, texts in _texts_read(raw).items() if "evil" in texts}, raw


@given(arguments=ARGUMENTS)
@example(b'{"opts":{"mode":"evil"},"opts":{}}')
@example(b'{"opts":"evil","OPTS":1}')
def test_a_text_that_allows_is_read_by_everybody(arguments: bytes) -> None:
    rules = [rule("allow", when=[{"text_matches": "^evil$"}], priority=1), rule({"block": "no"}, id="rest")]
    raw = _passed(arguments, *rules)
    if raw is not None:
        assert not {which for which, texts in _texts_read(raw).items() if "evil" not in texts}, raw


@given(arguments=ARGUMENTS)
def test_what_a_rule_replaces_nobody_reads(arguments: bytes) -> None:
    raw = _passed(arguments, rule({"replace": {"field": FIELD, "pattern": "(?i)evil", "with": "good"}}))
    assert raw is not None
    found = {which: value for which, value in _values(raw).items() if isinstance(value, str)}
    assert not {which for which, value in found.items() if "evil" in value.lower()}, raw


@given(arguments=ARGUMENTS)
def test_an_object_that_is_allowed_is_that_object_to_everybody(arguments: bytes) -> None:
    condition = {"param_equals": {"field": "arguments.opts", "value": {"mode": "evil"}}}
    raw = _passed(arguments, rule("allow", when=[condition], priority=1), rule({"block": "no"}, id="rest"))
    if raw is not None:
        assert not {which for which, found in _values(raw).items() if found != "evil"}, raw


@pytest.mark.node
@pytest.mark.skipif(maybe_node() is None, reason="there is no Node here")
@given(arguments=ARGUMENTS, wanted=st.sampled_from([value for value in WANTED if value is not None]))
def test_node_reads_what_the_rules_read(arguments: bytes, wanted: object) -> None:
    node = {"node": node_reader()}  # it tells us null where it has read an infinite number
    raw = _passed(arguments, rule({"block": "no"}, when=[_equal(wanted)]))
    if raw is not None:
        assert not _is(_values(raw, node)["node"], wanted), raw
    raw = _passed(arguments, rule({"block": "no"}, when=[{"not": _equal(wanted)}]))
    if raw is not None:
        assert _is(_values(raw, node)["node"], wanted), raw


def _written(texts: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return texts.map(lambda text: json.dumps(text).encode())


NUMBER_TEXTS = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["", " ", "\t", "+", "-", "00", "0x"]),
    st.sampled_from(
        ["1000", "1_000", "99", "101", "1e3", "3e8", "5", "", "Infinity", "\u0661\u0660\u0660\u0660"]
    ),
    st.sampled_from(["", ".0", ".5", "e2", "_", "n"]),
    st.sampled_from(["", " ", "\n"]),
    st.sampled_from(["", "\u0000"]),
)
NUMBERS = (
    _written(NUMBER_TEXTS)
    | NUMBER_TEXTS.map(lambda text: b"[%b]" % json.dumps(text).encode())
    | _spelt(b"1000", b"1e3", b"1000.0", b"true", b"false", b"null", b"[1000]", b"[[1000]]", b"[]", b"1e400")
)
TRUTHS = _written(
    st.sampled_from("true True TRUE t T yes YES y on On 1 1.0 enabled false f no n off 0 disabled".split())
) | _spelt(b"true", b"1", b"1.0", b"1e0", b"0", b"false", b"null", b"2")
NESTED = st.sampled_from(
    [
        ["/etc/passwd"],
        ["/ok", "/etc/x"],
        {"force": 1},
        {"a": {"force": None}},
        ["a secret"],
        "a secret",
        [],
        {},
    ]
)
JSON_TEXTS = st.builds(
    lambda value, before, after: json.dumps(before + json.dumps(value) + after).encode(),
    NESTED | NESTED.map(json.dumps),
    st.sampled_from(["", " ", "\n\t"]),
    st.sampled_from(["", " ", "x"]),
) | _spelt(
    rb'"{\"force\":NaN}"',
    rb'"\u005b\"/etc/\u0078\"]"',
    rb'"[\"/\\u0065tc/x\"]"',
    b'["/etc/passwd"]',
    b'{"force":1}',
)
GIVEN = (
    st.tuples(st.sampled_from([b"count", b"ratio"]), NUMBERS)
    | st.tuples(st.just(b"sudo"), TRUTHS)
    | st.tuples(st.sampled_from([b"paths", b"options", b"anything", b"text"]), JSON_TEXTS)
)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict | list):
        return [
            leaf for part in (value.values() if isinstance(value, dict) else value) for leaf in _leaves(part)
        ]
    return [value]


def _at(field: str, **more: object) -> dict[str, object]:
    return {"field": f"arguments.{field}", **more}


MEANT: list[tuple[str, dict[str, object], Callable[[Any], bool]]] = [
    ("count", {"param_greater_than": _at("count", value=100)}, lambda given: given > 100),
    ("count", {"param_less_than": _at("count", value=100)}, lambda given: given < 100),
    ("count", {"param_equals": _at("count", value=1000)}, lambda given: given == 1000),
    ("count", {"param_in": _at("count", values=[1, 1000])}, lambda given: given in (1, 1000)),
    ("ratio", {"param_greater_than": _at("ratio", value=100)}, lambda given: given > 100),
    ("sudo", {"param_equals": _at("sudo", value=True)}, lambda given: given is True),
    ("sudo", {"param_equals": _at("sudo", value=False)}, lambda given: given is False),
    (
        "paths",
        {"param_matches": _at("paths.*", pattern="^/etc/")},
        lambda given: any(path.startswith("/etc/") for path in given or ()),
    ),
    ("paths", {"param_is_array": "arguments.paths"}, lambda given: isinstance(given, list)),
    ("options", {"param_exists": "arguments.options.force"}, lambda given: "force" in (given or {})),
    ("options", {"param_equals": _at("options", value={"force": 1})}, lambda given: given == {"force": 1}),
    ("anything", {"param_is_array": "arguments.anything"}, lambda given: isinstance(given, list)),
    (
        "anything",
        {"param_matches": _at("**", pattern="secret")},
        lambda given: any(isinstance(leaf, str) and "secret" in leaf for leaf in _leaves(given)),
    ),
]


@pytest.mark.parametrize("sdk", SDKS)
@given(given=GIVEN)
@example((b"count", b'"1000"'))
@example((b"sudo", b'"yes"'))
@example((b"sudo", b"1"))
@example((b"paths", rb'"[\"/etc/passwd\"]"'))
@example((b"options", rb'"{\"force\":1}"'))
def test_what_a_rule_blocks_no_server_of_an_sdk_makes_of_what_passes(
    sdk: str, given: tuple[bytes, bytes]
) -> None:
    member, value = given
    arguments = b'{"%b":%b}' % (member, value)
    for tool in ("typed",) if "python" in sdk else ("typed", "coerced"):
        ran_with = sdk_server(sdk).maybe_given(tool, arguments)
        if ran_with is None or member.decode() not in ran_with:
            continue
        for about, condition, means in MEANT:
            if about == member.decode() and means(ran_with[about]):
                assert _passed(arguments, rule({"block": "no"}, when=[condition])) is None, (
                    condition,
                    ran_with,
                )


URIS = st.builds(
    "{}vault:{}{}/{}{}".format,
    st.sampled_from(["", " ", "\x1f"]),
    st.sampled_from(["//", "/\t/", "/\n/", "/\r/"]),
    st.sampled_from(
        [
            "secret",
            "se\tcret",
            "s%65cret",
            "%73%65%63ret",
            "s\r\necret",
            "%61dmin",
            "ADMIN",
            "open",
            "%2561dmin",
        ]
    ),
    st.sampled_from(["doc", "./secret", "../secret", "%2e%2e/secret", "se%63ret", "s\tecret"]),
    st.sampled_from(["", " ", "?q", "#f"]),
)


@pytest.mark.parametrize("sdk", SDKS)
@given(uri=URIS)
@example("vault://se\tcret/key")
@example("vault://%61dmin/doc")
def test_no_server_of_an_sdk_reads_a_resource_that_a_rule_blocks(sdk: str, uri: str) -> None:
    read = sdk_server(sdk).maybe_read(uri)
    if read is not None and any(word in str(read).lower() for word in ("secret", "admin")):
        message = client(
            json.dumps(
                {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": uri}}
            ).encode()
        )
        when: list[object] = [{"param_matches": {"field": "uri", "pattern": "(?i)secret|admin"}}]
        assert not isinstance(send(interceptor(rule({"block": "no"}, when=when)), message).verdict, Pass), (
            read
        )
