"""What a session makes of `notifications/tools/list_changed`: nothing, or a new list."""

from __future__ import annotations

from collections.abc import Callable

from penstock.policy.tools.catalog import ToolCatalog
from penstock.relay.catalogs import say_frozen
from penstock.relay.contracts import ClientLink
from penstock.wire.mcp.message import Message


class ListChange:
    """Holds the upstream's word back until it is known whether the client's own list has changed."""

    def __init__(self, follows: bool) -> None:
        """With `follows`, the list follows the upstream's; else it is frozen from the first look on."""
        self._follows = follows
        self._held: Message | None = None

    def is_held(self, message: Message, is_seen: bool, fetch: Callable[[], None]) -> bool:
        """Whether the client does not hear `message` yet; then the list is fetched once more."""
        if self._follows and is_seen:
            self._held = message
            fetch()
            return True
        if is_seen:
            say_frozen()
        return False

    def is_news(self, old: ToolCatalog | None, new: ToolCatalog, client: ClientLink) -> bool:
        """Whether `new` takes the place of `old`. The client hears what was held if its list has changed."""
        held, self._held = self._held, None
        if held is None or old is None:
            return True
        if old.result == new.result:
            return False
        client.send(held.raw, None, held)
        return True

    def forget(self) -> None:
        """The list could not be had; the old one stays."""
        self._held = None
