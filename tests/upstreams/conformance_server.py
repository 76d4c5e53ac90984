"""An MCP server that passes the official conformance suites, so that a proxy in front of it can be judged.

The suites ask for tools, prompts and resources of set names and read what comes back. This server has all
of them, in both eras (2025-11-25 and older with a handshake, 2026-07-28 without), over every transport:

    python conformance_server.py --transport stdio
    python conformance_server.py --transport http --port 0     # /mcp, the address is written to stderr
    python conformance_server.py --transport sse  --port 0     # /sse and /messages/

Whatever a suite reports as lost behind a proxy was therefore there in front of it.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import sys
import warnings
from typing import Any, ClassVar

import anyio
import mcp_types as types
import uvicorn
from conformance_tools import (
    CHANGES,
    PNG,
    STRING,
    TOOL_BODIES,
    TOOLS,
    WATCHED,
    Call,
    Context,
    ToolAnswer,
    answer_to,
    embedded,
    form,
    image,
    is_modern,
    needs,
    text,
)
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import ListenHandler
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import SessionMessage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

# Logging and sampling are deprecated in the newest revision, and the older ones still test them.
warnings.filterwarnings("ignore", category=MCPDeprecationWarning)

NAME = "penstock-conformance-fixture"
RECONNECT_AFTER_MS = 300  # the `retry:` that a client is asked to wait before it polls a closed stream

Page = types.PaginatedRequestParams | None


# --- Prompts --------------------------------------------------------------------------------------------

PROMPTS = {
    prompt.name: prompt
    for prompt in (
        types.Prompt(name="test_simple_prompt", description="One line of text"),
        types.Prompt(
            name="test_prompt_with_arguments",
            description="Repeats its two arguments",
            arguments=[
                types.PromptArgument(name="arg1", description="First test argument", required=True),
                types.PromptArgument(name="arg2", description="Second test argument", required=True),
            ],
        ),
        types.Prompt(
            name="test_prompt_with_embedded_resource",
            description="Has a resource inside",
            arguments=[types.PromptArgument(name="resourceUri", description="What to embed", required=True)],
        ),
        types.Prompt(name="test_prompt_with_image", description="Has a picture inside"),
        types.Prompt(name="test_input_required_result_prompt", description="Asks the user before it answers"),
    )
}


def _messages_of(name: str, arguments: dict[str, str]) -> list[types.ContentBlock]:
    match name:
        case "test_simple_prompt":
            return [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            return [text("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'".format_map(arguments))]
        case "test_prompt_with_embedded_resource":
            resource = embedded(
                arguments["resourceUri"], "text/plain", "Embedded resource content for testing."
            )
            return [resource, text("Please process the embedded resource above.")]
        case _:
            return [image(), text("Please analyze the image above.")]


async def get_prompt(
    ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    if params.name not in PROMPTS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    if params.name == "test_input_required_result_prompt":
        reply = answer_to(params, "user_context", types.ElicitResult)
        if reply is None:
            return needs(user_context=form("What context should the prompt use?", context=STRING))
        content: list[types.ContentBlock] = [text(f"Context: {(reply.content or {}).get('context')}")]
    else:
        try:
            content = _messages_of(params.name, params.arguments or {})
        except KeyError as missing:
            raise MCPError(types.INVALID_PARAMS, f"Missing argument: {missing.args[0]}") from None
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=part) for part in content]
    )


# --- Resources ------------------------------------------------------------------------------------------

TEMPLATE = re.compile(r"test://template/([^/]+)/data")
RESOURCES = [
    types.Resource(uri="test://static-text", name="static-text", description="Text", mime_type="text/plain"),
    types.Resource(
        uri="test://static-binary", name="static-binary", description="A picture", mime_type="image/png"
    ),
    types.Resource(
        uri=WATCHED, name="watched-resource", description="Can be watched", mime_type="text/plain"
    ),
]


async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = params.uri
    contents: types.TextResourceContents | types.BlobResourceContents
    if uri == "test://static-text":
        words = "This is the content of the static text resource."
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    elif uri == "test://static-binary":
        contents = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri == WATCHED:
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text="Watch this.")
    elif match := TEMPLATE.fullmatch(uri):
        which = match[1]
        payload = json.dumps({"id": which, "templateTest": True, "data": f"Data for ID: {which}"})
        contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=payload)
    else:
        # -32002 was the code until 2026-07-28 moved to -32602 (SEP-2164).
        code = types.INVALID_PARAMS if is_modern(ctx) else -32002
        raise MCPError(code, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[contents])


# --- The server -----------------------------------------------------------------------------------------


async def list_tools(ctx: Context, params: Page) -> types.ListToolsResult:
    return types.ListToolsResult(tools=list(TOOLS.values()))


async def call_tool(ctx: Context, params: Call) -> ToolAnswer:
    body = TOOL_BODIES.get(params.name)
    if body is None:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    return await in_its_era(ctx, params, body)


IN_FLIGHT: dict[str, anyio.CancelScope] = {}
ANSWERS = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


async def in_its_era(ctx: Context, params: Any, body: Any) -> Any:
    """The answer of `body`. In the older era an unfinished one is finished meanwhile: each question is a
    request to the client, under the key that it has in the newer one."""
    answer = await body(ctx, params)
    while isinstance(answer, types.InputRequiredResult) and not is_modern(ctx):
        replies: dict[str, Any] = {}
        async with anyio.create_task_group() as group:
            for key, question in (answer.input_requests or {}).items():
                group.start_soon(ask_now, ctx, key, question, replies)
        more = {"input_responses": replies, "request_state": answer.request_state}
        answer = await body(ctx, params.model_copy(update=more))
    return answer


async def ask_now(ctx: Context, key: str, question: Any, replies: dict[str, Any]) -> None:
    data = question.model_dump(by_alias=True, mode="json", exclude_none=True)
    channel = ctx.session._request_outbound
    while key in IN_FLIGHT:  # a client that never came back has left it open: it is asked no more
        IN_FLIGHT[key].cancel()
        await anyio.sleep(0.1)  # the cancel travels on another stream than the next question of this name
    reply = None
    with anyio.CancelScope() as scope:
        IN_FLIGHT[key] = scope
        try:
            reply = await channel.send_raw_request(question.method, data.get("params"), {"request_id": key})
        finally:
            del IN_FLIGHT[key]
    if reply is None:
        raise MCPError(types.INTERNAL_ERROR, "Somebody else is asked now")
    replies[key] = ANSWERS[question.method].model_validate(reply, by_name=False)


async def list_prompts(ctx: Context, params: Page) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=list(PROMPTS.values()))


async def list_resources(ctx: Context, params: Page) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=RESOURCES)


async def list_templates(ctx: Context, params: Page) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        description="Data by number",
        mime_type="application/json",
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    words = [
        word for word in ("test", "tested", "testing", "paris") if word.startswith(params.argument.value)
    ]
    return types.CompleteResult(completion=types.Completion(values=words, total=len(words), has_more=False))


async def accept(ctx: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def build() -> Server[Any]:
    server: Server[Any] = Server(
        NAME,
        version="1.0.0",
        title="Conformance fixture",
        instructions="A server for tests. Every tool does what its description says.",
        cache_hints={
            "tools/list": CacheHint(60_000, "public"),
            "prompts/list": CacheHint(60_000, "public"),
            "resources/list": CacheHint(60_000, "public"),
            "resources/templates/list": CacheHint(60_000, "public"),
            "resources/read": CacheHint(1_000, "private"),
            "server/discover": CacheHint(60_000, "public"),
        },
        get_tool_input_schema=lambda name: TOOLS[name].input_schema if name in TOOLS else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=lambda ctx, params: in_its_era(ctx, params, get_prompt),
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_subscriptions_listen=ListenHandler(CHANGES),
        on_completion=complete,
        on_set_logging_level=accept,
    )
    # A key of this process alone, as servers have by default: a proxy that brings the state to another
    # process than the one that gave it out is found out.
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    offers = server.create_initialization_options
    every_change = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    server.create_initialization_options = lambda *_, **more: offers(every_change, **more)  # type: ignore[method-assign]
    return server


class RememberedEvents(EventStore):
    """Every event of every stream, so that a client can take up a stream where it was cut."""

    def __init__(self) -> None:
        self._events: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        seen = int(last_event_id) if last_event_id.isdecimal() else 0
        if not 0 < seen <= len(self._events):
            return None
        stream = self._events[seen - 1][0]
        for number, (stream_id, message) in enumerate(self._events[seen:], seen + 1):
            # A message of None is a priming event: it only carries an id.
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class OneEra:
    """What comes to a server that speaks one era: the first words of the other are refused, as it would."""

    ERRORS: ClassVar[dict[str, types.ErrorData]] = {
        "initialize": types.ErrorData(
            code=-32022, message="Unsupported protocol version", data={"supported": ["2026-07-28"]}
        ),
        "server/discover": types.ErrorData(code=-32601, message="Method not found"),
    }

    def __init__(self, app: Any, refused: str) -> None:
        self._app = app
        self._refused = refused

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Over HTTP: every request says in its head which era it is of."""
        version = dict(scope.get("headers", [])).get(b"mcp-protocol-version")
        is_modern = version == b"2026-07-28"
        if scope["type"] != "http" or is_modern is (self._refused == "initialize"):
            await self._app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        token = (json.loads(body) if body else {}).get("id")
        reply = types.JSONRPCError(jsonrpc="2.0", id=token, error=self.ERRORS[self._refused])
        text = reply.model_dump_json(by_alias=True, exclude_none=True)
        await Response(text, 400, media_type="application/json")(scope, receive, send)

    @classmethod
    def filtered(cls, incoming: Any, outgoing: Any, group: Any, refused: str) -> Any:
        """Over a stream: what is left of `incoming` without the first words of the other era."""
        into, rest = anyio.create_memory_object_stream[Any](16)

        async def pump() -> None:
            async with into:
                async for item in incoming:
                    message = getattr(item, "message", None)
                    if getattr(message, "method", None) != refused:
                        await into.send(item)
                        continue
                    reply = types.JSONRPCError(jsonrpc="2.0", id=message.id, error=cls.ERRORS[refused])
                    await outgoing.send(SessionMessage(reply))

        group.start_soon(pump)
        return rest


async def run_over(server: Server[Any], incoming: Any, outgoing: Any, refused: str | None) -> None:
    async with anyio.create_task_group() as group:
        if refused is not None:
            incoming = OneEra.filtered(incoming, outgoing, group, refused)
        await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


def legacy_sse_app(server: Server[Any], refused: str | None = None) -> Starlette:
    loopback = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=["127.0.0.1:*", "localhost:*"],
        allowed_origins=["http://127.0.0.1:*", "http://localhost:*"],
    )
    transport = SseServerTransport("/messages/", security_settings=loopback)

    async def stream(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (
            incoming,
            outgoing,
        ):
            await run_over(server, incoming, outgoing, refused)
        return Response()

    post = Mount("/messages/", app=transport.handle_post_message)
    return Starlette(routes=[Route("/sse", stream, methods=["GET"]), post])


async def serve_stdio(server: Server[Any], refused: str | None) -> None:
    async with stdio_server() as (incoming, outgoing):
        await run_over(server, incoming, outgoing, refused)


async def serve_web(app: Any, path: str, port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}{path}", file=sys.stderr, flush=True)
    # Streams stay open for as long as clients like: do not wait for them when told to stop.
    # h11 rather than httptools: llhttp leaves white space behind a header value, and the suite wants it gone.
    config = uvicorn.Config(app, http="h11", log_level="warning", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transport", choices=("stdio", "sse", "http"), default="stdio")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--era", choices=("both", "legacy", "modern"), default="both")
    chosen = parser.parse_args()
    refused = {"both": None, "legacy": "server/discover", "modern": "initialize"}[chosen.era]
    server = build()
    if chosen.transport == "stdio":
        anyio.run(serve_stdio, server, refused)
    elif chosen.transport == "sse":
        anyio.run(serve_web, legacy_sse_app(server, refused), "/sse", chosen.port)
    else:
        app = server.streamable_http_app(event_store=RememberedEvents(), retry_interval=RECONNECT_AFTER_MS)
        anyio.run(serve_web, app if refused is None else OneEra(app, refused), "/mcp", chosen.port)


if __name__ == "__main__":
    main()
