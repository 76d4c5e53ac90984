"""Exchanges as spans, by OpenTelemetry's conventions for MCP. Every name of theirs stands in this file.

A request of a client is a SERVER span, its way to the upstream and back a CLIENT span below it. What is made
here is plain data: the exporter gives it to the official SDK, and `penstock export` writes it to a file.
"""

from __future__ import annotations

import hashlib
import re

import msgspec
from msgspec import Struct, field

from penstock.observe import bounds
from penstock.observe.masking import Masker
from penstock.observe.recording import Line
from penstock.observe.rows import MessageRow, Rows, arguments_of
from penstock.observe.values import maybe_value

METHOD = "mcp.method.name"
VERSION = "mcp.protocol.version"
SESSION = "mcp.session.id"
URI = "mcp.resource.uri"
TOOL = "gen_ai.tool.name"
PROMPT = "gen_ai.prompt.name"
OPERATION = "gen_ai.operation.name"
ARGUMENTS = "gen_ai.tool.call.arguments"
REQUEST_ID = "jsonrpc.request.id"
STATUS_CODE = "rpc.response.status_code"
ERROR_TYPE = "error.type"
TRANSPORT = "network.transport"
ADDRESS = "server.address"
PORT = "server.port"
VERDICT = "penstock.verdict"
RULE = "penstock.rule"

TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
"""As W3C has it; other versions are taken for none."""

_MODERN = "modern"


class Span(Struct):
    """One span, not yet in anybody's format."""

    name: str
    is_server: bool
    trace_id: str
    span_id: str
    parent_id: str
    start: float
    end: float
    attributes: dict[str, str | int] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)
    is_error: bool = False


class SpanSettings(Struct):
    """What goes into spans beside what always does."""

    content: bool = False
    session_ids: bool = False
    transport: str = "pipe"  # to the client: pipe or tcp
    address: str = ""  # of the upstream, where it has one
    port: int = 0
    upstream_transport: str = "pipe"


class _Asked(Struct):
    line: Line
    attributes: dict[str, str | int]
    name: str
    ids: Trace


class Trace(Struct, frozen=True):
    """The ids of one exchange's spans."""

    trace_id: str
    server_span: str
    client_span: str
    parent: str = ""
    link: str = ""  # another parent, which the header named: trace id and span id

    def __str__(self) -> str:
        return ".".join((self.trace_id, self.server_span, self.client_span, self.parent, self.link))


def maybe_traceparent(text: str | None) -> tuple[str, str] | None:
    """Trace id and span id, if `text` is a valid traceparent."""
    found = TRACEPARENT.fullmatch(text or "")
    if found is None or set(found[1]) == {"0"} or set(found[2]) == {"0"}:
        return None
    return found[1], found[2]


class SpanMaker:
    """Makes spans of rows as they come: two when an answer came, one when nothing went upstream."""

    def __init__(self, settings: SpanSettings, masker: Masker) -> None:
        self._settings = settings
        self._masker = masker
        self._rows = Rows()
        self._open: dict[int, _Asked] = {}
        self._versions: dict[str, str] = {}

    def take(self, line: Line) -> list[Span]:
        """The spans that the next line completes."""
        row = self._rows.row(line)
        if line.kind == "request" and line.sender == "client":
            if len(self._open) >= bounds.OPEN_REQUESTS:
                self._open.pop(next(iter(self._open)))
            self._open[line.i] = self._begin(row)
        elif line.kind == "response" and line.re in self._open:
            return self._end(self._open.pop(line.re), row)
        return []

    def _begin(self, row: MessageRow) -> _Asked:
        line, method = row.line, row.method
        attributes: dict[str, str | int] = {
            METHOD: self._masker.text(method),
            REQUEST_ID: row.id.strip('"')[:128],
        }
        name = self._masker.text(method)
        tool = self._masker.text(row.tool)
        if method == "tools/call" and tool:
            attributes[TOOL] = tool
            attributes[OPERATION] = "execute_tool"
            name = f"{method} {tool}"
            if self._settings.content:
                self._add_arguments(attributes, row)
        elif method == "prompts/get" and tool:
            attributes[PROMPT] = tool
            name = f"{method} {tool}"
        elif method.startswith("resources/") and tool:
            attributes[URI] = self._masker.text(tool.partition("?")[0])
        self._add_session(attributes, row)
        return _Asked(line, attributes, name[:256], self._trace(line))

    def _add_arguments(self, attributes: dict[str, str | int], row: MessageRow) -> None:
        arguments = arguments_of(row.line.raw)
        if arguments is None:
            return
        kept = self._masker.arguments(arguments, bounds.AUDIT_ARGUMENT_BYTES)
        attributes[ARGUMENTS] = kept if isinstance(kept, str) else msgspec.json.encode(kept).decode()

    def _add_session(self, attributes: dict[str, str | int], row: MessageRow) -> None:
        line = row.line
        version = next(iter(row.inner("arg", "protocolVersion")), "") if row.method == "initialize" else ""
        if version:
            if len(self._versions) >= bounds.OPEN_REQUESTS:
                self._versions.pop(next(iter(self._versions)))
            self._versions[line.s] = version[:32]
        if line.era == _MODERN:
            told = meta_text(line.raw, "io.modelcontextprotocol/protocolVersion")
            attributes[VERSION] = (told or "2026-07-28")[:32]
        elif line.s in self._versions:
            attributes[VERSION] = self._versions[line.s]
        if self._settings.session_ids and line.era != _MODERN:
            attributes[SESSION] = line.s

    def _trace(self, line: Line) -> Trace:
        if line.trace:
            parts = (line.trace + "....").split(".")
            return Trace(parts[0], parts[1], parts[2], parts[3], parts[4])
        parent = maybe_traceparent(meta_text(line.raw, "traceparent"))
        made = hashlib.sha256(f"{line.s} {line.i} {line.t}".encode()).hexdigest()
        trace_id = parent[0] if parent is not None else made[:32]
        return Trace(trace_id, made[32:48], made[48:64], parent[1] if parent is not None else "")

    def _end(self, asked: _Asked, row: MessageRow) -> list[Span]:
        line, ids = row.line, asked.ids
        end = max(line.t + line.us / 1e6, asked.line.t)
        outcome: dict[str, str | int] = {}
        if row.is_tool_error:
            outcome[ERROR_TYPE] = "tool_error"
        elif row.is_error and row.code:
            outcome = {ERROR_TYPE: str(row.code), STATUS_CODE: str(row.code)}
        elif row.is_error:
            outcome[ERROR_TYPE] = "_OTHER"
        verdict = {VERDICT: asked.line.verdict if asked.line.verdict != "pass" else line.verdict}
        rule = asked.line.by or line.by
        attributes = {**asked.attributes, **outcome, **verdict, **({RULE: rule} if rule else {})}
        server = Span(
            asked.name,
            True,
            ids.trace_id,
            ids.server_span,
            ids.parent,
            asked.line.t,
            end,
            {**attributes, TRANSPORT: self._settings.transport},
            [_link(ids.link)] if ids.link else [],
            bool(outcome),
        )
        if line.sender != "upstream":
            return [server]
        hop: dict[str, str | int] = {
            **asked.attributes,
            **outcome,
            TRANSPORT: self._settings.upstream_transport,
        }
        if self._settings.address:
            hop |= {ADDRESS: self._settings.address, PORT: self._settings.port}
        sent = asked.line.t + asked.line.us / 1e6
        client = Span(
            asked.name, False, ids.trace_id, ids.client_span, ids.server_span, sent, max(line.t, sent), hop
        )
        client.is_error = bool(outcome)
        return [server, client]


def _link(text: str) -> tuple[str, str]:
    return text[:32], text[32:]


def meta_text(raw: bytes, name: str) -> str | None:
    """A text in the `_meta` of a request's params."""
    if name.encode() not in raw:
        return None
    try:
        found = maybe_value(raw)["params"]["_meta"].get(name)
    except (KeyError, TypeError, AttributeError):
        return None
    return found if isinstance(found, str) else None
