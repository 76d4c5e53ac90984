"""Pass-through of an array of messages: each is judged for itself, and what is left goes up as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.downstream.passthrough_head import PassthroughHead
from penstock.downstream.replies import send_failure, send_json
from penstock.errors import UpstreamError
from penstock.gate.batch_verdicts import BatchVerdicts
from penstock.net.http_exchange import Reply, Request
from penstock.policy.exchange import Exchange
from penstock.policy.tools.catalog import ToolCatalog
from penstock.policy.verdict import Answer, Forward, Verdict
from penstock.relay.batch_replies import no_batches, read_part
from penstock.wire.mcp.eras import BATCH_VERSION
from penstock.wire.mcp.message import (
    INTERNAL_ERROR,
    Batch,
    Kind,
    Message,
)
from penstock.wire.mcp.replies import CANCELLED, error_reply

if TYPE_CHECKING:
    from penstock.downstream.passthrough import Passthrough


class PostedBatch:
    """One array that a client has posted."""

    def __init__(
        self, passthrough: Passthrough, batch: Batch, request: Request, reply: Reply, head: PassthroughHead
    ) -> None:
        """Raises ClientProtocolError when there must be no such array."""
        has_batches = passthrough.gate.takes_batches and head.version in (None, BATCH_VERSION)
        if not has_batches or not batch.parts:
            raise no_batches()
        self._passthrough = passthrough
        self._request = request
        self._reply = reply
        self._head = head
        self._messages = [read_part(part) for part in batch.parts]
        self._session = passthrough.session_of(request, head, self._messages[0])
        self._exchanges: list[Exchange] = []

    def take(self) -> None:
        """Asks the gate about every message, when the tools are known."""
        if self._passthrough.gate.is_filtering:
            self._passthrough.catalogs.wait(self._reply, self._head, self._messages[0].params, self._judge)
        else:
            self._judge(None)

    def _judge(self, catalog: ToolCatalog | UpstreamError | None) -> None:
        if isinstance(catalog, UpstreamError):
            send_failure(self._reply, None, catalog)
            return
        verdicts = BatchVerdicts(len(self._messages), self._carry_out)
        gate, headers = self._passthrough.gate, self._request.headers
        for message in self._messages:
            exchange = self._passthrough.exchange_of(message, self._session, catalog, headers, self._head)
            self._exchanges.append(exchange)
        with gate.in_batch("client", self._request.body, self._session):
            for place, (message, exchange) in enumerate(zip(self._messages, self._exchanges, strict=True)):
                verdicts.take(place, gate.client_says(message, exchange))

    def _carry_out(self, verdicts: list[Verdict]) -> None:
        """Passes on what is left; what we answer ourselves goes with the upstream's answers."""
        passed: list[Message] = []
        answers: list[bytes] = []
        for message, exchange, verdict in zip(self._messages, self._exchanges, verdicts, strict=True):
            if isinstance(verdict, Forward):
                passed.append(verdict.message or message)
                self._passthrough.remember(passed[-1], exchange, self._head)
            elif isinstance(verdict, Answer):
                answers.append(verdict.raw)
            elif message.kind is Kind.REQUEST:
                answers.append(error_reply(message.id_token, INTERNAL_ERROR, CANCELLED))
        if passed == self._messages:
            self._pass_on(self._request.body, passed, [])
        elif passed:
            self._pass_on(b"[%b]" % b",".join(message.raw for message in passed), passed, answers)
        elif answers:
            send_json(self._reply, 200, b"[%b]" % b",".join(answers))
        else:
            self._reply.send(202, [])

    def _pass_on(self, body: bytes, passed: list[Message], answers: list[bytes]) -> None:
        exchange = Exchange(session=self._session)
        self._passthrough.pass_on(
            self._request,
            self._reply,
            self._head,
            None,
            body,
            exchange,
            batch=passed,
            first=answers,
            remembered=self._exchanges,
        )
