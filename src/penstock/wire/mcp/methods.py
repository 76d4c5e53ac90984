"""The methods that MCP has, of all its revisions and both sides; vendors may add their own."""

from __future__ import annotations

FROM_CLIENTS = frozenset(
    "initialize server/discover ping tools/list tools/call resources/list resources/templates/list "
    "resources/read resources/subscribe resources/unsubscribe prompts/list prompts/get completion/complete "
    "logging/setLevel subscriptions/listen tasks/get tasks/list tasks/result tasks/cancel tasks/update "
    "notifications/initialized notifications/cancelled notifications/progress "
    "notifications/roots/list_changed".split()
)
FROM_UPSTREAMS = frozenset(
    "ping sampling/createMessage elicitation/create roots/list tasks/get tasks/list tasks/result "
    "tasks/cancel notifications/cancelled notifications/progress notifications/message notifications/tasks "
    "notifications/tasks/status notifications/tools/list_changed notifications/prompts/list_changed "
    "notifications/resources/list_changed notifications/resources/updated notifications/elicitation/complete "
    "notifications/subscriptions/acknowledged".split()
)
KNOWN = FROM_CLIENTS | FROM_UPSTREAMS
