"""The tools of the conformance fixture: names and answers are the suites' own, and so are the pauses."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

LOGGER = "conformance-fixture"
STEP_SECONDS = 0.05  # the pause the suites name between two log or progress messages
WATCHED = "test://watched-resource"
CHANGES = InMemorySubscriptionBus()

Context = ServerRequestContext[Any, Any]
Call = types.CallToolRequestParams
ToolAnswer = types.CallToolResult | types.InputRequiredResult
ToolBody = Callable[[Context, Call], Awaitable[ToolAnswer]]


def is_modern(ctx: Context) -> bool:
    """Whether this request came without a handshake, so that nothing may be asked of the client meanwhile."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


# --- Things to send -------------------------------------------------------------------------------------


def _png_of_one_red_pixel() -> str:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")
    return base64.b64encode(png).decode()


def _wav_of_silence() -> str:
    samples = b"\x80" * 8
    form = struct.pack("<HHIIHH", 1, 1, 8000, 8000, 1, 8)
    body = (
        b"WAVEfmt "
        + struct.pack("<I", len(form))
        + form
        + b"data"
        + struct.pack("<I", len(samples))
        + samples
    )
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


PNG = _png_of_one_red_pixel()
WAV = _wav_of_silence()


def text(words: str) -> types.TextContent:
    return types.TextContent(text=words)


def image() -> types.ImageContent:
    return types.ImageContent(data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    )


def done(*content: types.ContentBlock, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=list(content), is_error=is_error)


# --- Things to ask of the client ------------------------------------------------------------------------


def form(message: str, **properties: dict[str, Any]) -> types.ElicitRequest:
    """A question with one required answer for each property."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(prompt: str, max_tokens: int = 100) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(prompt))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    )


STRING = {"type": "string"}
ASK_NAME = form("What is your name?", name=STRING)
CONFIRM = form("Please confirm", ok={"type": "boolean"})


def needs(*, state: str | None = None, **requests: types.InputRequest) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def answer_to(params: types.InputResponseRequestParams, key: str, kind: type) -> Any | None:
    """The client's answer under `key`, if there is one and it is of the kind that was asked for."""
    answer = (params.input_responses or {}).get(key)
    return answer if isinstance(answer, kind) else None


# --- Tools ----------------------------------------------------------------------------------------------

TOOLS: dict[str, types.Tool] = {}
TOOL_BODIES: dict[str, ToolBody] = {}
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def tool(description: str, schema: dict[str, Any] = NO_ARGUMENTS) -> Callable[[ToolBody], ToolBody]:
    """Offer the function as the tool of the same name. The order here is the order of tools/list."""

    def offer(body: ToolBody) -> ToolBody:
        name = body.__name__
        TOOLS[name] = types.Tool(name=name, description=description, input_schema=schema)
        TOOL_BODIES[name] = body
        return body

    return offer


def one_string(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string", **more}}, "required": [name]}


# First on purpose: the header scenarios call the first tool of the list with no arguments at all.
@tool("Answers with one line of text")
async def test_simple_text(ctx: Context, params: Call) -> ToolAnswer:
    return done(text("This is a simple text response for testing."))


@tool("Answers with a picture")
async def test_image_content(ctx: Context, params: Call) -> ToolAnswer:
    return done(image())


@tool("Answers with a sound")
async def test_audio_content(ctx: Context, params: Call) -> ToolAnswer:
    return done(types.AudioContent(data=WAV, mime_type="audio/wav"))


@tool("Answers with a resource inside the result")
async def test_embedded_resource(ctx: Context, params: Call) -> ToolAnswer:
    return done(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool("Answers with text, a picture and a resource")
async def test_multiple_content_types(ctx: Context, params: Call) -> ToolAnswer:
    payload = json.dumps({"test": "data", "value": 123})
    resource = embedded("test://mixed-content-resource", "application/json", payload)
    return done(text("Multiple content types test:"), image(), resource)


async def _log_three_times(ctx: Context) -> None:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", words, logger=LOGGER, related_request_id=ctx.request_id)
        await anyio.sleep(STEP_SECONDS)


@tool("Sends three log messages while it runs")
async def test_tool_with_logging(ctx: Context, params: Call) -> ToolAnswer:
    await _log_three_times(ctx)
    return done(text("Three messages were logged."))


@tool("Sends log messages only if the request asked for a log level")
async def test_logging_tool(ctx: Context, params: Call) -> ToolAnswer:
    await _log_three_times(ctx)
    return done(text("Logged, if that was wanted."))


@tool("Reports progress three times while it runs")
async def test_tool_with_progress(ctx: Context, params: Call) -> ToolAnswer:
    for percent in (0, 50, 100):
        await ctx.session.report_progress(percent, 100, f"Completed {percent} of 100")
        await anyio.sleep(STEP_SECONDS)
    return done(text("Progress was reported."))


@tool("Always fails, as a tool fails: with a result that says so")
async def test_error_handling(ctx: Context, params: Call) -> ToolAnswer:
    return done(text("This tool intentionally returns an error for testing"), is_error=True)


@tool("Closes the stream in mid-call, so that the client has to come back for the answer")
async def test_reconnection(ctx: Context, params: Call) -> ToolAnswer:
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
        await anyio.sleep(2 * STEP_SECONDS)
    return done(text("The stream was closed and taken up again."))


@tool("Asks the client's model to continue a prompt", one_string("prompt"))
async def test_sampling(ctx: Context, params: Call) -> ToolAnswer:
    request = sample(str((params.arguments or {}).get("prompt", "")))
    reply = answer_to(params, "sample", types.CreateMessageResult)
    if reply is None and is_modern(ctx):
        return needs(sample=request)
    reply = reply or await ctx.session.create_message(
        request.params.messages, max_tokens=request.params.max_tokens, related_request_id=ctx.request_id
    )
    words = reply.content.text if isinstance(reply.content, types.TextContent) else reply.content.type
    return done(text(f"LLM response: {words}"))


async def _elicit(ctx: Context, params: Call, message: str, schema: dict[str, Any]) -> ToolAnswer:
    reply = answer_to(params, "answer", types.ElicitResult)
    if reply is None and is_modern(ctx):
        question = types.ElicitRequestFormParams(message=message, requested_schema=schema)
        return needs(answer=types.ElicitRequest(params=question))
    reply = reply or await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return done(text(f"Elicitation completed: action={reply.action}, content={json.dumps(reply.content)}"))


@tool("Asks the user for a name and an address", one_string("message"))
async def test_elicitation(ctx: Context, params: Call) -> ToolAnswer:
    properties = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return await _elicit(ctx, params, str((params.arguments or {}).get("message", "")), schema)


@tool("Asks the user, with a default for every kind of field (SEP-1034)")
async def test_elicitation_sep1034_defaults(ctx: Context, params: Call) -> ToolAnswer:
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _elicit(
        ctx, params, "Please review these values", {"type": "object", "properties": properties}
    )


@tool("Asks the user to choose, with every spelling of a choice (SEP-1330)")
async def test_elicitation_sep1330_enums(ctx: Context, params: Call) -> ToolAnswer:
    plain = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"}
        for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    properties = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _elicit(ctx, params, "Please choose", {"type": "object", "properties": properties})


@tool(
    "Has a schema full of keywords that a careless proxy drops (SEP-1613, SEP-2106)",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": STRING, "city": STRING},
            }
        },
        "properties": {
            "name": STRING,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": STRING,
            "email": STRING,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema_2020_12_tool(ctx: Context, params: Call) -> ToolAnswer:
    return done(text(json.dumps(params.arguments or {})))


@tool("Mirrors its argument in a header (SEP-2243)", one_string("region", **{"x-mcp-header": "Region"}))
async def test_custom_header(ctx: Context, params: Call) -> ToolAnswer:
    return done(text(f"Region: {(params.arguments or {}).get('region')}"))


@tool("Answers with its own arguments", {"type": "object", "additionalProperties": True})
async def echo(ctx: Context, params: Call) -> ToolAnswer:
    arguments = params.arguments or {}
    return types.CallToolResult(content=[text(json.dumps(arguments))], structured_content=arguments)


@tool("Needs a client that can sample, and refuses any other")
async def test_missing_capability(ctx: Context, params: Call) -> ToolAnswer:
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        missing = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs sampling", missing)
    return done(text("The client can sample."))


@tool("Announces that the list of tools changed")
async def test_trigger_tool_change(ctx: Context, params: Call) -> ToolAnswer:
    if is_modern(ctx):
        await CHANGES.publish(ToolsListChanged())
    else:
        await ctx.session.send_tool_list_changed()
    return done(text("Announced."))


@tool("Announces that the list of prompts changed")
async def test_trigger_prompt_change(ctx: Context, params: Call) -> ToolAnswer:
    if is_modern(ctx):
        await CHANGES.publish(PromptsListChanged())
    else:
        await ctx.session.send_prompt_list_changed()
    return done(text("Announced."))


@tool("Announces that the watched resource changed")
async def test_trigger_resource_update(ctx: Context, params: Call) -> ToolAnswer:
    if is_modern(ctx):
        await CHANGES.publish(ResourceUpdated(uri=WATCHED))
    else:
        await ctx.session.send_resource_updated(WATCHED)
    return done(text("Announced."))


# --- Tools that need input, as the newest revision asks for it: by an unfinished result -------------------


@tool("Asks for a name with an unfinished result, and greets")
async def test_input_required_result_elicitation(ctx: Context, params: Call) -> ToolAnswer:
    reply = answer_to(params, "user_name", types.ElicitResult)
    if reply is None or reply.action != "accept":
        return needs(user_name=ASK_NAME)
    return done(text(f"Hello, {(reply.content or {}).get('name')}!"))


@tool("Must not send a request of its own on the stream of the call")
async def test_streaming_elicitation(ctx: Context, params: Call) -> ToolAnswer:
    await ctx.session.report_progress(0, 1)
    return await test_input_required_result_elicitation(ctx, params)


@tool("Asks for a sample with an unfinished result")
async def test_input_required_result_sampling(ctx: Context, params: Call) -> ToolAnswer:
    reply = answer_to(params, "capital_question", types.CreateMessageResult)
    if reply is None:
        return needs(capital_question=sample("What is the capital of France?"))
    return done(text(f"The model said: {reply.content}"))


@tool("Asks for the client's roots with an unfinished result")
async def test_input_required_result_list_roots(ctx: Context, params: Call) -> ToolAnswer:
    reply = answer_to(params, "client_roots", types.ListRootsResult)
    if reply is None:
        return needs(client_roots=types.ListRootsRequest())
    return done(text("Roots: " + ", ".join(str(root.uri) for root in reply.roots)))


@tool("Gives the client a state to bring back")
async def test_input_required_result_request_state(ctx: Context, params: Call) -> ToolAnswer:
    if (
        params.request_state != "awaiting-confirmation"
        or answer_to(params, "confirm", types.ElicitResult) is None
    ):
        return needs(state="awaiting-confirmation", confirm=CONFIRM)
    return done(text("state-ok"))


@tool("Refuses a state that was tampered with")
async def test_input_required_result_tampered_state(ctx: Context, params: Call) -> ToolAnswer:
    # The seal on the state is checked by RequestStateBoundary before this runs.
    return await test_input_required_result_request_state(ctx, params)


@tool("Asks three things of different kinds at once")
async def test_input_required_result_multiple_inputs(ctx: Context, params: Call) -> ToolAnswer:
    given = params.input_responses or {}
    if not {"user_name", "server_info", "client_roots"} <= set(given):
        return needs(
            state="awaiting-three",
            user_name=ASK_NAME,
            server_info=sample("Generate a server_info", 50),
            client_roots=types.ListRootsRequest(),
        )
    return done(text("All three answers arrived."))


@tool("Asks one thing after another")
async def test_input_required_result_multi_round(ctx: Context, params: Call) -> ToolAnswer:
    if params.request_state == "round-1" and answer_to(params, "step1", types.ElicitResult) is not None:
        return needs(state="round-2", step2=form("Step 2: What is your favorite color?", color=STRING))
    if params.request_state == "round-2" and answer_to(params, "step2", types.ElicitResult) is not None:
        return done(text("Both rounds are through."))
    return needs(state="round-1", step1=form("Step 1: What is your name?", name=STRING))


@tool("Asks only what the client says it can answer")
async def test_input_required_result_capabilities(ctx: Context, params: Call) -> ToolAnswer:
    declared = ctx.session.client_capabilities or types.ClientCapabilities()
    if params.input_responses:
        return done(text("Answered."))
    if declared.sampling is not None:
        return needs(sampled=sample("Say something"))
    if declared.elicitation is not None:
        return needs(user_name=ASK_NAME)
    return done(text("There is nothing that this client could be asked."))
