"""Headers that must say what the body says."""

from __future__ import annotations

import base64
import json

import pytest
from msgspec import Raw

from gate_messages import client
from penstock.errors import ClientProtocolError
from penstock.wire.mcp.eras import META_VERSION
from penstock.wire.mcp.mcp_headers import Mirror, modern_headers
from penstock.wire.mcp.message import Message
from penstock.wire.mcp.routing_headers import check_routing_headers, decode_header, maybe_mirror_mismatch

META = {META_VERSION: "2026-07-28"}


def _message(method: str | None = "tools/call", **params: object) -> Message:
    content: dict[str, object] = {"jsonrpc": "2.0", "id": 7}
    content.update({"result": {}} if method is None else {"method": method, "params": params})
    return client(json.dumps(content).encode())


def _fields(**values: str) -> dict[bytes, bytes]:
    return {name.replace("_", "-").encode(): value.encode() for name, value in values.items()}


def _refusal(message: Message, fields: dict[bytes, bytes], is_required: bool) -> tuple[int, str]:
    with pytest.raises(ClientProtocolError) as refused:
        check_routing_headers(message, fields, is_required)
    assert refused.value.id_token == b"7"
    return refused.value.code, refused.value.reason


GOOD = _fields(mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name="read")


def test_headers_that_agree_pass() -> None:
    check_routing_headers(_message(name="read", _meta=META), GOOD, True)
    check_routing_headers(_message(name="read", _meta=META), GOOD, False)


def test_a_response_has_nothing_that_a_header_could_repeat() -> None:
    check_routing_headers(_message(None), _fields(mcp_protocol_version="2025-11-25"), True)
    for name in (b"mcp-method", b"mcp-name"):
        refusal = _refusal(_message(None), {name: b"tools/call"}, False)
        assert refusal == (-32020, "Header mismatch: the body has no method of its own")


@pytest.mark.parametrize("left_out", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
def test_a_modern_request_must_have_all_three(left_out: str) -> None:
    fields = {name: value for name, value in GOOD.items() if name != left_out.lower().encode()}
    message = _message(name="read", _meta=META)
    assert _refusal(message, fields, True) == (-32020, f"Header mismatch: {left_out} is missing")
    check_routing_headers(message, fields, False)


@pytest.mark.parametrize("header", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
@pytest.mark.parametrize("value", [b"other", b"", b"tools/call, tools/call", b"=?base64?!?=", b"\xff"])
def test_a_header_that_says_something_else_is_refused(header: str, value: bytes) -> None:
    fields = {**GOOD, header.lower().encode(): value}
    message = _message(name="read", _meta=META)
    wanted = (-32020, f"Header mismatch: {header} does not say what the body says")
    assert _refusal(message, fields, True) == wanted
    if header != "MCP-Protocol-Version":  # which a legacy request settles by its session
        assert _refusal(message, fields, False) == wanted


@pytest.mark.parametrize("meta", [{}, {META_VERSION: 1}, {"other": "2026-07-28"}])
def test_a_modern_request_names_its_version_in_the_body(meta: dict[str, object]) -> None:
    code, reason = _refusal(_message(name="read", _meta=meta), GOOD, True)
    assert (code, reason) == (-32602, f"Invalid params: _meta must name {META_VERSION}")


def test_legacy_requests_need_no_version_in_the_body() -> None:
    check_routing_headers(_message(name="read"), GOOD, False)


@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "x"}), ("resources/read", {"uri": "x"}), ("tools/call", {"name": "x"})],
)
def test_the_name_is_what_the_method_is_about(method: str, params: dict[str, object]) -> None:
    message = _message(method, **params)
    check_routing_headers(message, _fields(mcp_method=method, mcp_name="x"), False)
    assert _refusal(message, _fields(mcp_method=method, mcp_name="y"), False)[0] == -32020


@pytest.mark.parametrize("params", [{}, {"name": 1}, {"name": ["x"]}])
def test_where_the_body_has_no_name_the_header_is_left_to_the_upstream(params: dict[str, object]) -> None:
    check_routing_headers(_message(**params), _fields(mcp_method="tools/call", mcp_name="x"), False)
    check_routing_headers(_message("ping"), _fields(mcp_method="ping", mcp_name="x"), False)


def test_a_request_without_params_is_compared_too() -> None:
    message = client(b'{"jsonrpc":"2.0","id":7,"method":"tools/call"}')
    check_routing_headers(message, _fields(mcp_method="tools/call"), False)
    assert _refusal(message, _fields(mcp_method="ping"), False)[0] == -32020


@pytest.mark.parametrize("text", ["", "plain", "日本", " blank ", "=?base64?eA==?="])
def test_text_that_needs_it_travels_in_base64(text: str) -> None:
    assert decode_header(b"=?base64?" + base64.b64encode(text.encode()) + b"?=") == text


@pytest.mark.parametrize(
    "value", [b"=?base64?eA==", b"base64?eA==?=", b"=?base65?eA==?=", b"=?BASE64?eA==?="]
)
def test_what_is_not_marked_whole_is_plain(value: bytes) -> None:
    assert decode_header(value) == value.decode()


@pytest.mark.parametrize(
    "value",
    [
        b"=?base64?eA?=",
        b"=?base64?eB==?=",
        b"=?base64?e A==?=",
        b"=?base64?eA=*=?=",
        b"=?base64?eA==eA==?=",
        b"=?base64?/w==?=",
        b"\xc3\xa9",
        b"=?base64?eA==\n?=",
    ],
)
def test_what_has_a_second_reading_is_no_text(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_header(value)


def test_base64_has_one_spelling() -> None:
    with pytest.raises(ValueError, match=r"^not canonical base64$"):
        decode_header(b"=?base64?eB==?=")


REGION = Mirror(("region",), b"Mcp-Param-Region", False)
COUNT = Mirror(("page", "count"), b"Mcp-Param-Count", True)


def _mismatch(arguments: object, **fields: str) -> str | None:
    raw = None if arguments is None else Raw(json.dumps(arguments).encode())
    return maybe_mirror_mismatch((REGION, COUNT), raw, _fields(**fields))


def test_arguments_and_their_headers_agree() -> None:
    assert (
        _mismatch({"region": "eu", "page": {"count": 2}}, mcp_param_region="eu", mcp_param_count="2") is None
    )
    assert _mismatch({"region": "日"}, mcp_param_region="=?base64?5pel?=") is None
    assert _mismatch({}) is None
    assert _mismatch(None) is None


@pytest.mark.parametrize("said", ["2.0", "2.00"])
def test_a_whole_number_may_be_said_with_zeros(said: str) -> None:
    assert _mismatch({"page": {"count": 2}}, mcp_param_count=said) is None


@pytest.mark.parametrize("said", ["2.", "2.5", "02", "2.01", "x2.0", "2.0x", "3.0", "3", "-2", "\xe9"])
def test_another_number_is_another(said: str) -> None:
    assert _mismatch({"page": {"count": 2}}, mcp_param_count=said) == "Mcp-Param-Count"


def test_a_negative_number_is_compared_with_its_sign() -> None:
    assert _mismatch({"page": {"count": -12}}, mcp_param_count="-12.0") is None


def test_no_digits_say_no_number() -> None:
    assert _mismatch({"page": {"count": ""}}, mcp_param_count=".0") == "Mcp-Param-Count"
    assert _mismatch({"page": {"count": "-"}}, mcp_param_count="-.0") == "Mcp-Param-Count"


def test_only_integers_may_be_said_with_zeros() -> None:
    assert _mismatch({"region": "2"}, mcp_param_region="2.0") == "Mcp-Param-Region"


def test_the_header_or_the_argument_alone_is_a_mismatch() -> None:
    assert _mismatch({"region": "eu"}) == "Mcp-Param-Region"
    assert _mismatch({}, mcp_param_region="eu") == "Mcp-Param-Region"
    assert _mismatch(None, mcp_param_count="1") == "Mcp-Param-Count"
    assert (
        _mismatch({"region": "eu", "page": {}}, mcp_param_region="eu", mcp_param_count="1")
        == "Mcp-Param-Count"
    )


def test_a_task_is_named_by_its_id_where_a_header_names_it() -> None:
    message = _message("tasks/get", taskId="t1", _meta=META)
    fields = _fields(mcp_protocol_version="2026-07-28", mcp_method="tasks/get")
    check_routing_headers(message, fields, True)  # only the extension asks for it
    check_routing_headers(message, {**fields, b"mcp-name": b"t1"}, True)
    refusal = _refusal(message, {**fields, b"mcp-name": b"t2"}, True)
    assert refusal == (-32020, "Header mismatch: Mcp-Name does not say what the body says")
    assert (b"Mcp-Name", b"t1") in modern_headers("2026-07-28", "tasks/get", message.params)
