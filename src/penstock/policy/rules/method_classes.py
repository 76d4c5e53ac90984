"""How much care a method gets: pass, log or review.

`review`: a rule that fails blocks the message. `log` and `pass`: it falls to default_action. `pass` is not
audited either. A response has the class of its request here, because what a failed rule should have taken
out of it would otherwise reach the client.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from penstock.policy.rules.embedded import carried_methods
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.message_parts import method_of
from penstock.wire.mcp.message import Kind, Message

MethodClass = Literal["pass", "log", "review"]

REVIEWED = frozenset({"tools/call", "resources/read", "sampling/createMessage"})
VITAL = frozenset({"initialize", "ping", "server/discover", "notifications/*"})
"""What a session cannot live without: `default_action` never blocks it."""

_PASSED = frozenset({"initialize", "ping", "server/discover"})


class MethodClasses(Struct, frozen=True):
    """The classes, with the user's own on top: exact names, or beginnings that end in *."""

    own: tuple[tuple[str, MethodClass], ...] = ()

    def class_of(self, method: str | None) -> MethodClass:
        """The class of a request or notification with this method."""
        for name, chosen in self.own:
            if method == name or (name.endswith("*") and (method or "").startswith(name[:-1])):
                return chosen
        if method in REVIEWED:
            return "review"
        if method in _PASSED or (method or "").startswith("notifications/"):
            return "pass"
        return "log"

    def is_reviewed(self, message: Message, context: Context) -> bool:
        """Whether a failure while looking at the message must block it."""
        if self.class_of(method_of(message, context)) == "review":
            return True
        if message.kind is not Kind.RESPONSE:
            return False
        return any(self.class_of(method) == "review" for method in carried_methods(message))
