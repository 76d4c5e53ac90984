"""Checking what the upstream sends against the MCP schema, when the user asks for it.

The schema is that of the SDK's own type package, `mcp-types`, an extra: it brings pydantic and takes a third
of a second to load. A copy is checked; what passes, passes as the bytes it came in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Raw

from penstock.errors import ConfigError
from penstock.policy.tools.upstream_tools import BadToolList
from penstock.wire.mcp.eras import LEGACY_VERSIONS
from penstock.wire.mcp.message import Kind, Message

log = logging.getLogger("penstock")

MODES = ("off", "schema", "strict")
LIST = "tools/list"


class SchemaCheck:
    """Compares messages with the schema of their protocol version."""

    def __init__(self, mode: str) -> None:
        """`schema` only tells of violations; `strict` keeps them from the client too."""
        try:
            from mcp_types import methods
            from pydantic import TypeAdapter, ValidationError
        except ImportError:
            raise ConfigError(
                f"--validate {mode} needs the package mcp-types",
                "Install it with: pip install 'penstock[validate]'",
            ) from None
        self.is_strict = mode == "strict"
        self._results: Mapping[tuple[str, str], Any] = methods.SERVER_RESULTS
        self._requests: Mapping[tuple[str, str], Any] = methods.SERVER_REQUESTS
        self._notifications: Mapping[tuple[str, str], Any] = methods.SERVER_NOTIFICATIONS
        self._new_adapter: Callable[[Any], Any] = TypeAdapter
        self._failure: type[Exception] = ValidationError
        self._adapters: dict[tuple[str, str, str], Any] = {}

    def maybe_objection(self, message: Message, method: str | None, version: object) -> str | None:
        """Why the client must not see `message`; None when it may. A violation is logged in any case.

        `method` is that of the request which a response answers. What the schema does not know passes.
        """
        if method is None:
            return None
        shape = _shape(version)
        body: bytes | Raw | None
        if message.kind is Kind.RESPONSE:
            body, table, name = message.envelope.get("result"), self._results, "results"
        elif message.kind is Kind.REQUEST:
            body, table, name = message.raw, self._requests, "requests"
        else:
            body, table, name = message.raw, self._notifications, "notifications"
        adapter = self._maybe_adapter(table, name, method, shape)
        if body is None or adapter is None:
            return None
        try:
            adapter.validate_json(bytes(body))
        except self._failure as why:
            text = f"It breaks the MCP schema of {shape} for {method}: {_first(why)}"
            log.warning("A message from the upstream breaks the schema. %s.", text)
            return text if self.is_strict else None
        return None

    def faults_in_list(self, page: bytes, version: object) -> dict[int, str]:
        """What is wrong with the entries of a tool list, by their places. A violation is logged in any case;
        only `strict` gives it back. Raises BadToolList when it is the list itself that breaks the schema."""
        shape = _shape(version)
        adapter = self._maybe_adapter(self._results, "results", LIST, shape)
        if adapter is None:
            return {}
        try:
            adapter.validate_json(page)
        except self._failure as why:
            if not self.is_strict:
                text = f"It breaks the MCP schema of {shape} for {LIST}: {_first(why)}"
                log.warning("A message from the upstream breaks the schema. %s.", text)
                return {}
            return _by_entry(_errors(why), shape)
        return {}

    def _maybe_adapter(self, table: Mapping[tuple[str, str], Any], name: str, method: str, shape: str) -> Any:
        row = table.get((method, shape))
        if row is None:
            return None
        adapter = self._adapters.get((name, method, shape))
        if adapter is None:
            adapter = self._adapters[name, method, shape] = self._new_adapter(row)
        return adapter


def _shape(version: object) -> str:
    return version if isinstance(version, str) else LEGACY_VERSIONS[-1]


def _by_entry(errors: list[Any], shape: str) -> dict[int, str]:
    faults: dict[int, str] = {}
    for error in errors:
        match error["loc"]:
            case ("tools", int() as place, *inner):
                where = ".".join(str(part) for part in inner)
                faults.setdefault(place, f"it breaks the MCP schema of {shape}: {where}: {error['msg']}")
            case where:
                said = ".".join(str(part) for part in where)
                raise BadToolList(f"it breaks the MCP schema of {shape}: {said}: {error['msg']}")
    return faults


def _errors(why: Any) -> list[Any]:
    found: list[Any] = why.errors(include_url=False, include_input=False, include_context=False)
    return found


def _first(why: Any) -> str:
    errors = _errors(why)
    where = ".".join(str(part) for part in errors[0]["loc"])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{where}: {errors[0]['msg']}{more}"
