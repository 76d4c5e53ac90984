"""Names and lists that outlive us, in one file: who was given a name keeps it, and a lazy upstream is known
before it is started."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from penstock.policy.several.greeting import Greeting
from penstock.relay.adapters.aggregate.member import Known

if TYPE_CHECKING:
    from penstock.relay.adapters.aggregate.hub import Hub

log = logging.getLogger("penstock")

_SAVE_SECONDS = 0.5
_MOST_BYTES = 64 * 1024 * 1024


class _KeptList(Struct):
    digest: str
    greeting: Greeting
    pages: list[str]
    prompts: list[str]
    terms: list[tuple[int | None, str | None]] = []
    speaks_modern: bool | None = None


class _Kept(Struct):
    version: int = 1
    tools: list[tuple[str, str, str]] = []
    prompts: list[tuple[str, str, str]] = []
    lists: dict[str, _KeptList] = {}


class Keeping:
    """Reads the file at the start, and writes it when something new is known."""

    def __init__(self, path: str, hub: Hub) -> None:
        self._path = os.path.expanduser(path)
        self._hub = hub
        self._timer: asyncio.TimerHandle | None = None
        self._others: dict[str, _KeptList] = {}  # of servers that are not in the file at the moment
        self._written = b""

    def load(self) -> None:
        """Takes what is there. What cannot be read is told, and counts for nothing."""
        try:
            with open(self._path, "rb") as file:
                data = file.read(_MOST_BYTES + 1)
            kept = msgspec.json.decode(data, type=_Kept)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as why:
            log.warning("The kept lists in %s cannot be read, so there are none: %s.", self._path, why)
            return
        self._written = data
        self._hub.tool_names.restore(kept.tools)
        self._hub.prompt_names.restore(kept.prompts)
        for name, found in kept.lists.items():
            member = self._hub.members.get(name)
            if member is None:
                self._others[name] = found
            elif found.digest == member.terms.digest.hex():
                member.known = Known(
                    found.greeting,
                    [page.encode() for page in found.pages],
                    [prompt.encode() for prompt in found.prompts],
                    list(found.terms),
                )
                member.speaks_modern = found.speaks_modern
                member.is_only_kept = True

    def later(self) -> None:
        """Something new is known: it is written soon."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SAVE_SECONDS, self.save)

    def save(self) -> None:
        """Writes the file, whole or not at all."""
        self._stop()
        hub = self._hub
        lists = dict(self._others)
        for name, member in hub.members.items():
            if member.known is not None:
                lists[name] = _KeptList(
                    member.terms.digest.hex(),
                    member.known.greeting,
                    [page.decode("utf-8", "replace") for page in member.known.pages],
                    [prompt.decode("utf-8", "replace") for prompt in member.known.prompts],
                    member.known.list_terms,
                    member.speaks_modern,
                )
        kept = _Kept(1, hub.tool_names.entries(), hub.prompt_names.entries(), lists)
        data = msgspec.json.encode(kept)
        if data == self._written:
            return
        try:
            folder = os.path.dirname(self._path)
            if folder:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            fresh = f"{self._path}.{os.getpid()}"
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
            os.replace(fresh, self._path)
            self._written = data
        except OSError as why:
            log.warning("The lists cannot be kept in %s: %s.", self._path, why.strerror)

    def close(self) -> None:
        """Writes what is not written yet."""
        if self._timer is not None:
            self.save()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
