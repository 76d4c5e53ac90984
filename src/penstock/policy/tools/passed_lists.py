"""Tool lists that pass where no tool is hidden: what is no tool is left out of them, aloud.

With a filter the catalog does this. Without one the upstream's own pages pass as they came, unless an entry
is none that a client could use: then the page passes without it.
"""

from __future__ import annotations

import logging

from penstock.policy.tools.upstream_tools import BadToolList, ListCheck, read_tool
from penstock.policy.verdict import FORWARD, Forward, Verdict, Why
from penstock.wire.json.ambiguity import elements, members
from penstock.wire.json.splice import with_value
from penstock.wire.mcp.message import Message, read_upstream_message

log = logging.getLogger("penstock")

_WHY = Why("tool entries", "change", "what is no tool is left out")
_KNOWN_PAGES = 8
_KNOWN_BYTES = 64 * 1024
_LAST_BYTES = 1024 * 1024
_MOST_TOLD = 1_000


def _key(page: bytes) -> bytes:
    """What stands for a page: itself, or, of a large one, its digest."""
    if len(page) <= _KNOWN_BYTES:
        return page
    import hashlib

    return hashlib.sha256(page).digest()


class PassedLists:
    """Looks at every page of a tool list that passes."""

    def __init__(self, check: ListCheck | None = None) -> None:
        """`check` is asked as well, where there is a schema to compare with."""
        self._check = check
        self._sound: dict[tuple[bytes, object], None] = {}  # pages that were looked at, oldest first
        # The one that passed last, to compare with: to hash a list takes longer than to send it. Who makes
        # lists here has one result for all answers, which need not even be compared.
        self._last: tuple[object, bytes, object] = (None, b"", None)
        self._told: dict[str, None] = {}

    def judge(self, message: Message, version: object) -> Verdict:
        """What becomes of an answer to tools/list. What cannot be read as a list is left as it is."""
        if "result" not in message.envelope:
            return FORWARD
        result = message.envelope["result"]
        last, last_page, last_version = self._last
        if result is last and version == last_version:
            return FORWARD
        page = bytes(result)
        if page == last_page and version == last_version:
            return FORWARD
        key = _key(page)
        if (key, version) in self._sound:
            self._note_last(result, page, version)
            return FORWARD
        try:
            found = members(page)
            entries = elements(found["tools"])
            faults = self._check(page, version) if self._check is not None else {}
        except (KeyError, ValueError):
            return FORWARD  # a schema has more to say about what is no list at all
        kept = [raw for place, raw in enumerate(entries) if self._is_tool(raw, faults.get(place))]
        if len(kept) == len(entries):
            self._note_sound(key, version)
            self._note_last(result, page, version)
            return FORWARD
        short = with_value(page, found, "tools", b"[%b]" % b",".join(kept))
        changed = read_upstream_message(with_value(message.raw, message.envelope, "result", short))
        assert isinstance(changed, Message)
        return Forward(changed, "change", _WHY)

    def _is_tool(self, raw: bytes, fault: str | None) -> bool:
        try:
            read_tool(raw, fault)
        except BadToolList as why:
            self._tell(str(why))
            return False
        return True

    def _note_last(self, result: object, page: bytes, version: object) -> None:
        if len(page) <= _LAST_BYTES:
            self._last = (result, page, version)

    def _note_sound(self, key: bytes, version: object) -> None:
        self._sound[key, version] = None
        if len(self._sound) > _KNOWN_PAGES:
            del self._sound[next(iter(self._sound))]

    def _tell(self, text: str) -> None:
        """Says something once, however often the list is asked for."""
        if text not in self._told:
            if len(self._told) >= _MOST_TOLD:
                del self._told[next(iter(self._told))]
            self._told[text] = None
            log.warning("In the upstream's tool list %s.", text)
