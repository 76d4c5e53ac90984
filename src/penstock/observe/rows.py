"""A recorded message as people and filters see it: with what its session and its exchange tell of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.observe import bounds
from penstock.observe.recording import Line
from penstock.observe.values import maybe_value
from penstock.policy.tools.token_estimate import estimate_tokens
from penstock.wire.json.ambiguity import readable


class _Params(Struct):
    name: Raw | UnsetType = UNSET
    uri: Raw | UnsetType = UNSET
    arguments: Raw | UnsetType = UNSET


class _Message(Struct):
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode_message = msgspec.json.Decoder(_Message).decode
_decode_params = msgspec.json.Decoder(_Params).decode
_decode_text = msgspec.json.Decoder(str).decode
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_EMPTY = _Message()
TOOL_ERROR = (b'"isError":true', b'"isError": true')


class Asked(Struct):
    """What is remembered of a request until its answer comes."""

    index: int
    time: float
    method: str
    tool: str
    sender: str
    session: str
    verdict: str


class MessageRow:
    """One line of a recording. What is asked for is found out when it is asked for."""

    def __init__(self, line: Line, asked: Asked | None, client: str) -> None:
        self.line = line
        self.asked = asked
        self.client = client
        self._message: _Message | None = None
        self._tokens: int | None = None

    @property
    def time(self) -> float:
        return self.line.t

    @property
    def message(self) -> _Message:
        """The outermost members, as far as they can be read."""
        if self._message is None:
            self._message = _read(self.line.raw)
        return self._message

    @property
    def method(self) -> str:
        """The method; of a response, its request's."""
        if self.line.kind == "response":
            return self.asked.method if self.asked is not None else ""
        return _text(self.message.method)

    @property
    def tool(self) -> str:
        """The tool or prompt that is asked for, or the resource; of a response, its request's."""
        if self.line.kind == "response":
            return self.asked.tool if self.asked is not None else ""
        params = self.message.params
        if params is UNSET:
            return ""
        try:
            found = _decode_params(params)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        return _text(found.name) or _text(found.uri)

    @property
    def id(self) -> str:
        token = self.message.id
        return "" if token is UNSET else bytes(token).decode("utf-8", "replace")

    @property
    def status(self) -> str:
        """Of a response ok or error; a request waits."""
        if self.line.kind == "response":
            return "error" if self.is_error else "ok"
        return "pending" if self.line.kind == "request" else ""

    @property
    def is_error(self) -> bool:
        """Whether this is a response that is an error, of the protocol or of the tool."""
        return self.message.error is not UNSET or self.is_tool_error

    @property
    def is_tool_error(self) -> bool:
        """Whether this is a tool's result that says it failed."""
        result = self.message.result
        if result is UNSET or not any(mark in bytes(result) for mark in TOOL_ERROR):
            return False
        value = maybe_value(result)
        return isinstance(value, dict) and value.get("isError") is True

    @property
    def code(self) -> int:
        """The code of the error: in the message itself, or what its sender was told."""
        error = maybe_value(self.message.error)
        code = error.get("code") if isinstance(error, dict) else None
        return code if isinstance(code, int) else self.line.code

    @property
    def ms(self) -> float | None:
        """Of a response, how long its request waited."""
        return None if self.asked is None else max(0.0, (self.line.t - self.asked.time) * 1000)

    @property
    def size(self) -> int:
        """Bytes of the message."""
        return len(self.line.raw)

    @property
    def tokens(self) -> int:
        """About how many tokens it costs a model to read it."""
        if self._tokens is None:
            seen, size = self.line.raw[: bounds.ESTIMATED_BYTES], self.size
            found = estimate_tokens(seen.decode("utf-8", "replace"))
            self._tokens = found if len(seen) == size else round(found * size / len(seen))
        return self._tokens

    def argument_names(self) -> list[str]:
        """The names of a call's arguments, outermost ones."""
        params = maybe_value(self.message.params)
        arguments = params.get("arguments") if isinstance(params, dict) else None
        return list(arguments) if isinstance(arguments, dict) else []

    # --- for filters ----------------------------------------------------------------------------------------

    def words(self, field: str) -> list[str]:
        line = self.line
        if field == "rule":
            return [rule for rule in dict.fromkeys((line.by, *line.rules)) if rule]
        if field == "code":
            return [str(self.code)] if self.code else []
        if field == "id":
            found = self.id
            return [found, _text(self.message.id)] if found.startswith('"') else [found] if found else []
        word = {
            "at": line.at,
            "session": line.s,
            "client": self.client,
            "era": line.era,
            "link": line.link,
            "from": line.sender,
            "kind": line.kind,
            "verdict": line.verdict,
        }.get(field)
        if word is None:
            word = str(getattr(self, field))
        return [word] if word else []

    def number(self, field: str) -> float | None:
        if field == "ms":
            return self.ms
        return float(self.size) if field == "size" else float(self.tokens)

    def text(self) -> str:
        return self.line.raw.decode("utf-8", "replace")

    def inner(self, part: str, path: str) -> list[str]:
        if part == "result":
            return list(texts_at(maybe_value(self.message.result), path))
        params = maybe_value(self.message.params)
        if isinstance(params, dict) and "arguments" in params and "name" in params:
            params = params["arguments"]
        return list(texts_at(params, path))


class Rows:
    """Turns lines into rows, remembering requests until they are answered, and what clients are called."""

    def __init__(self, make: Callable[[Line, Asked | None, str], MessageRow] = MessageRow) -> None:
        self._make = make
        self.open: dict[int, Asked] = {}
        self._clients: dict[str, str] = {}
        self._begun_as: dict[str, str] = {}  # sessions that had another name when they began

    def row(self, line: Line) -> MessageRow:
        """The row of the next line."""
        asked = self.open.pop(line.re, None) if line.re and line.kind == "response" else None
        if asked is not None and asked.session != line.s and asked.method == "initialize":
            # Over HTTP a session gets its name with the answer to its first request. Whether that request was
            # written before it, under another name, is a matter of time; for readers it is one session.
            _remember(self._begun_as, line.s, asked.session)
        if self._begun_as:
            line.s = self._begun_as.get(line.s, line.s)
        row = self._make(line, asked, line.client or self._clients.get(line.s, ""))
        if line.kind == "request":
            method = row.method
            asks = Asked(line.i, line.t, method, row.tool, line.sender, line.s, line.verdict)
            _remember(self.open, line.i, asks)
            if method == "initialize" and not line.client:
                self._name_client(row)
        elif line.client:
            _remember(self._clients, line.s, line.client)
        return row

    def _name_client(self, row: MessageRow) -> None:
        names = list(texts_at(maybe_value(row.message.params), "clientInfo.name"))
        if names:
            row.client = names[0]
            _remember(self._clients, row.line.s, names[0])

    def all(self, lines: Iterable[Line]) -> Iterator[MessageRow]:
        """The rows of all lines."""
        return map(self.row, lines)


def _remember(kept: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Keeps it, and forgets the oldest where there are too many."""
    if key not in kept and len(kept) >= bounds.OPEN_REQUESTS:
        kept.pop(next(iter(kept)))
    kept[key] = value


def texts_at(value: Any, path: str) -> Iterator[str]:
    """What stands at a dotted path, as text: texts as they are, other scalars as JSON. `*` is any member."""
    found = [value]
    for step in path.split("."):
        found = [inner for one in found for inner in _step(one, step)]
    for one in found:
        if isinstance(one, str):
            yield one
        elif not isinstance(one, dict | list):
            yield msgspec.json.encode(one).decode()


def _step(value: Any, step: str) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values()) if step == "*" else [value[step]] if step in value else []
    if isinstance(value, list):
        if step == "*":
            return value
        return [value[int(step)]] if step.isdecimal() and int(step) < len(value) else []
    return []


def _read(raw: bytes) -> _Message:
    try:
        return _decode_message(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _decode_message(readable(raw))  # half a surrogate pair in it hides nothing
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _EMPTY


def _text(token: Raw | UnsetType) -> str:
    if token is UNSET:
        return ""
    try:
        return _decode_text(token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return bytes(token).decode("utf-8", "replace")


def arguments_of(raw: bytes) -> bytes | None:
    """The arguments of a call as written, or the params of another request."""
    params = _read(raw).params
    if params is UNSET:
        return None
    try:
        arguments = _decode_params(params).arguments
    except (msgspec.DecodeError, UnicodeDecodeError):
        arguments = UNSET
    return bytes(params) if arguments is UNSET else bytes(arguments)
