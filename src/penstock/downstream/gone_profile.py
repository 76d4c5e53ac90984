"""What is left for a session whose profile is no more: it sees nothing, and may do nothing."""

from __future__ import annotations

from penstock.downstream.mcp_head import read_head
from penstock.downstream.replies import refuse, refuse_message, send_json, status_of
from penstock.errors import ClientProtocolError
from penstock.net.http_exchange import Reply, Request
from penstock.wire.mcp.eras import Era
from penstock.wire.mcp.message import METHOD_NOT_FOUND, Kind, Message, read_client_message
from penstock.wire.mcp.replies import error_reply, result_reply

_EMPTY = {
    "ping": b"{}",
    "tools/list": b'{"tools":[]}',
    "prompts/list": b'{"prompts":[]}',
    "resources/list": b'{"resources":[]}',
    "resources/templates/list": b'{"resourceTemplates":[]}',
}


def answer_nothing(request: Request, reply: Reply) -> None:
    """Takes one request of such a session."""
    head = read_head(request)
    if request.method == b"DELETE":
        reply.send(200, [])
        return
    if request.method != b"POST":
        refuse(reply, 405, "Method not allowed", [(b"Allow", b"POST, DELETE")])
        return
    if head.wrong_body is not None:
        refuse(reply, *head.wrong_body)
        return
    try:
        message = read_client_message(request.body)
    except ClientProtocolError as refusal:
        refuse_message(reply, refusal)
        return
    if not isinstance(message, Message):
        refuse(reply, 400, "Invalid request: one message at a time")
    elif message.kind is not Kind.REQUEST:
        reply.send(202, [])
    elif message.method in _EMPTY:
        send_json(reply, 200, result_reply(message.id_token or b"null", _EMPTY[message.method]))
    else:
        status = status_of(METHOD_NOT_FOUND) if head.era is Era.MODERN else 200
        raw = error_reply(message.id_token, METHOD_NOT_FOUND, f"Method not found: {message.method}")
        send_json(reply, status, raw)
