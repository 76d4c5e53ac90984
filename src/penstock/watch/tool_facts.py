"""The tools of one upstream, as its lists show them, with what the filter makes of them."""

from __future__ import annotations

from msgspec import structs

from penstock.observe.record import Record
from penstock.observe.values import maybe_value
from penstock.policy.tools.catalog import build_catalog
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.upstream_tools import BadToolList
from penstock.wire.json.ambiguity import members

LIST = "tools/list"


class ToolFacts:
    """Collects the pages of tool lists, and says what they come to.

    A list is worked out when somebody asks for it: until then a proxy that nobody watches only keeps it.
    """

    def __init__(self, choice: ToolFilter) -> None:
        self._choice = structs.replace(choice, budget=None)  # what it costs is shown, whatever that is
        self._budget = choice.budget
        self._pages: dict[str, list[bytes]] = {}  # by session, while a list has more of them
        self._unread: list[bytes] = []  # the newest whole list, until somebody asks
        self._facts: dict[str, object] | None = None

    def is_news(self, record: Record) -> bool:
        """Takes a record; True when it completed a list."""
        if record.method != LIST or record.sender != "upstream" or record.kind != "response":
            return False
        try:
            result = bytes(members(record.raw)["result"])
            inner = members(result)
        except (ValueError, KeyError):
            return False
        pages = self._pages.pop(record.session.id, [])
        if not _asks_further(record.request):
            pages = []
        pages.append(result)
        if "nextCursor" in inner and len(pages) < 100:
            if len(self._pages) < 100:
                self._pages[record.session.id] = pages
            return False
        self._unread = pages
        return True

    @property
    def facts(self) -> dict[str, object] | None:
        """The newest list that could be read."""
        if self._unread:
            pages, self._unread = self._unread, []
            try:
                self._facts = self._read(pages)
            except BadToolList:
                pass
        return self._facts

    def _read(self, pages: list[bytes]) -> dict[str, object]:
        catalog = build_catalog(pages, self._choice)
        return {
            "tap": "tools",
            "tools": [
                *({"name": one.name, "tokens": one.tokens, "state": "allowed"} for one in catalog.allowed),
                *(
                    {
                        "name": one.name,
                        "tokens": one.tokens,
                        "state": "denied",
                        "why": f"{one.why.option} {one.why.pattern}".strip(),
                    }
                    for one in catalog.denied
                ),
            ],
            "budget": self._budget.most if self._budget is not None else None,
        }


def _asks_further(request: Record | None) -> bool:
    """Whether a request is for a page after the first."""
    if request is None:
        return False
    value = maybe_value(request.raw)
    params = value.get("params") if isinstance(value, dict) else None
    return isinstance(params, dict) and params.get("cursor") is not None
