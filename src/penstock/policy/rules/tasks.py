"""Answers that come later: to rules, what a task brings is the answer to the request that began it.

A call may be answered with a task, and its result is fetched later: by `tasks/result` (2025-11-25), or within
the state of the task, by `tasks/get` or with `notifications/tasks` (2026-07-28). A rule about the results of
calls means these too. So a session remembers which request began which task; the result
of a task that nobody remembers cannot be judged, and does not pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from penstock import limits
from penstock.policy.rules.exchange import Context
from penstock.policy.rules.json_values import equals, text_of
from penstock.policy.rules.message_parts import Place, member_place, params_of, result_of
from penstock.policy.rules.paths import Path, Span, parse_path
from penstock.wire.json.json_walk import first_byte
from penstock.wire.mcp.message import Kind, Message, read_upstream_message

BEGINS = "tools/call"
"""What an upstream may answer with a task."""

BRINGS = frozenset({"tasks/result", "tasks/get", "notifications/tasks"})
"""What may bring the result of one."""

_LEGACY_ID = parse_path("task.taskId")
_ID = parse_path("taskId")
_TYPE = parse_path("resultType")
_RESULT = parse_path("result")
_ERROR = parse_path("error")


class LateAnswer(Struct, frozen=True):
    """What a task brings: a response by itself, to which request, and where its result or error stands."""

    message: Message
    request: Message | None  # None: nobody remembers it
    span: Span | None  # None: the message is the answer


def remember(message: Message, context: Context) -> None:
    """Takes note of the tasks that a response begins."""
    result = result_of(message)
    if result is None or context.exchange is None or b"ask" not in message.raw:
        return
    begun = list(_texts(result, _LEGACY_ID))
    types = _TYPE.find(result.text, result.start, result.end)
    if any(equals(result.text, span.start, span.end, "task") for span in types):
        begun += _texts(result, _ID)
    tasks = context.session.tasks
    for task in begun:
        tasks.pop(task, None)
        tasks[task] = context.exchange.request
    while len(tasks) > limits.SESSION_TASKS or (len(tasks) > 1 and _size(tasks) > limits.SESSION_TASK_BYTES):
        del tasks[next(iter(tasks))]


def _size(tasks: dict[str, Message]) -> int:
    return sum(len(task) + len(request.raw) for task, request in tasks.items())


def late_answers(message: Message, context: Context) -> list[LateAnswer]:
    """What the message brings of tasks. Raises ProtocolError for what cannot be read by itself."""
    is_response = message.kind is Kind.RESPONSE
    method = context.exchange.request.method if is_response and context.exchange else message.method
    if method not in BRINGS:
        return []
    place = result_of(message) if is_response else member_place(message, "params")
    if method == "tasks/result":
        return [
            LateAnswer(message, request, None) for request in _requests(params_of(message, context), context)
        ]
    if place is None:
        return []
    named = params_of(message, context) if is_response else place
    out = []
    for name, path in ((b"result", _RESULT), (b"error", _ERROR)):
        for span in path.find(place.text, place.start, place.end):
            inner = b'{"jsonrpc":"2.0","id":0,"%b":%b}' % (name, place.text[span.start : span.end])
            answer = read_upstream_message(inner)
            assert isinstance(answer, Message)
            out += [LateAnswer(answer, request, span) for request in _requests(named, context)]
    return out


def named_tasks(message: Message, context: Context) -> list[str]:
    """The tasks that a message is about."""
    is_response = message.kind is Kind.RESPONSE
    place = params_of(message, context) if is_response else member_place(message, "params")
    return [] if place is None else list(_texts(place, _ID))


def _requests(place: Place | None, context: Context) -> list[Message | None]:
    """The requests that began the tasks that are named there."""
    tasks = list(_texts(place, _ID)) if place is not None else []
    return [context.session.tasks.get(task) for task in tasks] or [None]


def _texts(place: Place, path: Path) -> Iterator[str]:
    for span in path.find(place.text, place.start, place.end):
        if first_byte(place.text, span.start) == b'"':
            yield text_of(place.text[span.start : span.end])
