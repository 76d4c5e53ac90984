"""The gate: what becomes of a message, in either direction. Whoever asks it only carries the verdict out.

Nobody else asks the tool filter, the check for hidden tools, the schema or the rules. This is the plain form;
`ruled.RuledGate` and `observed.ObservedGate` wrap it and are loaded where there are rules or observers.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from penstock.policy.exchange import Exchange, Session
from penstock.policy.tools import tool_lists
from penstock.policy.tools.schema import SchemaCheck
from penstock.policy.tools.tool_filter import ToolFilter
from penstock.policy.tools.tool_gate import CALL, GATED, LIST, judge, null_id
from penstock.policy.tools.tool_lists import shows_hidden_tools
from penstock.policy.verdict import FORWARD, Answer, Drop, Forward, Verdict, Why, Word
from penstock.wire.mcp.error_object import is_error_object
from penstock.wire.mcp.message import INTERNAL_ERROR, INVALID_PARAMS, Kind, Message
from penstock.wire.mcp.replies import INVALID_ANSWER, error_reply

if TYPE_CHECKING:  # loaded only where there is a lock
    from penstock.policy.tools.lock_gate import LockGate
    from penstock.policy.tools.passed_lists import PassedLists
    from penstock.policy.tools.upstream_tools import ListCheck

log = logging.getLogger("penstock")

_RESPONSE = Kind.RESPONSE
HIDDEN = "it lists tools that are hidden"
NO_MESSAGE = "it is no message"
BAD_ERROR = "its error is no object with a code and a message"


class Gate:
    """Asks the tool filter what clients may say, and keeps from them what the upstream must not."""

    passes_unread = False  # nobody looks at what the upstream answers, and the user has said so
    keeps_requests = False  # it must be told which request a message belongs to, by whatever way it comes

    def __init__(self, choice: ToolFilter, schema: SchemaCheck | None = None) -> None:
        self.choice = choice
        self.is_filtering = choice.is_active
        self.takes_batches = True  # where the protocol has them
        self.answers_losses = True  # whoever waits for an upstream that is lost hears so
        self.may_object = choice.is_active  # it may keep back what a careless reader could find in odd bytes
        self._schema = schema
        # Who else is asked about the entries of a tool list.
        self.list_check: ListCheck | None = None if schema is None else schema.faults_in_list
        self._judge = judge
        self._lock: LockGate | None = None
        self._passed_lists: PassedLists | None = None
        if choice.lock is not None:
            from penstock.policy.tools.lock_gate import LockGate

            self._lock = LockGate(choice.lock)
            self._judge = self._lock.judge
        self._looks_closer = schema is not None or choice.lock is not None

    def client_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What becomes of a client's message. `exchange` is the one that it begins, or, for a response, that
        of the upstream's request."""
        if self.is_filtering:
            catalog, tool = exchange.catalog, message.tool
            if tool is not None and catalog is not None and tool in catalog.names and message.method == CALL:
                return FORWARD  # the hot path: as `judge` says, without asking
            return FORWARD if message.kind is _RESPONSE else self._judge(message, catalog)
        if message.id_token == b"null" and message.method in GATED:
            return null_id(message)
        return FORWARD

    def upstream_says(self, message: Message, exchange: Exchange) -> Verdict:
        """What becomes of a message of the upstream's: its answer in `exchange`, or what begins one."""
        if message.result is None and message.kind is _RESPONSE and _is_error_malformed(message):
            return withheld(message, exchange, Why("protocol", "block", BAD_ERROR, INTERNAL_ERROR))
        if self.is_filtering:
            if shows_hidden_tools(message, self.choice):
                return withheld(message, exchange, Why("hidden tools", "block", HIDDEN, INTERNAL_ERROR))
        elif exchange.method == LIST and message.kind is _RESPONSE:
            return self._pass_list(message, exchange)
        return self._closer_look(message, exchange) if self._looks_closer else FORWARD

    def _pass_list(self, message: Message, exchange: Exchange) -> Verdict:
        """What becomes of a tool list where no tool is hidden: entries that are no tools are left out."""
        if self._passed_lists is None:
            from penstock.policy.tools.passed_lists import PassedLists

            is_strict = self._schema is not None and self._schema.is_strict
            self._passed_lists = PassedLists(self.list_check if is_strict else None)
        verdict = self._passed_lists.judge(message, _version_of(exchange))
        shown = verdict.message if isinstance(verdict, Forward) and verdict.message is not None else message
        closer = self._closer_look(shown, exchange) if self._looks_closer else FORWARD
        return verdict if closer is FORWARD else closer

    def _closer_look(self, message: Message, exchange: Exchange) -> Verdict:
        """What the schema and the lock have to say about a message of the upstream's."""
        method = message.method if message.kind is not _RESPONSE else exchange.method or None
        if self._schema is not None:
            why = self._schema.maybe_objection(message, method, _version_of(exchange))
            if why is not None:
                return withheld(message, exchange, Why("schema", "block", why, INTERNAL_ERROR))
        if self._lock is not None:
            try:
                return self._lock.maybe_change(message, method) or FORWARD
            except ValueError as doubt:
                return withheld(message, exchange, Why("lock", "block", str(doubt), INTERNAL_ERROR))
        return FORWARD

    @property
    def passes_progress(self) -> bool:
        """Whether plain progress passes unheard: other kinds of gate have rules or observers."""
        return type(self) is Gate and not self._looks_closer

    @property
    def unheard_names(self) -> frozenset[str]:
        """A result whose members have no other names than these passes unheard; none where all are heard."""
        return tool_lists.USUAL_NAMES if self.passes_progress else frozenset()

    @property
    def is_ruled(self) -> bool:
        """Whether rules are in force at the moment."""
        return False

    def lists_hidden_tools(self, text: bytes) -> bool:
        """Whether what is no message, such as the body of an error, lists tools that are hidden."""
        return self.is_filtering and tool_lists.text_lists_hidden_tools(text, self.choice)

    def shown_error(self, error: bytes) -> bytes:
        """The upstream's error object as a client may see it."""
        return tool_lists.shown_error(error, self.choice)

    def in_batch(self, sender: str, raw: bytes, session: Session) -> AbstractContextManager[None]:
        """Around asking about the messages of one array. Nobody listens here."""
        return nullcontext()

    def said(
        self,
        sender: str,
        word: Word,
        raw: bytes,
        why: Why | None = None,
        exchange: Exchange | None = None,
        session: Session | None = None,
        sent: bytes | None = None,
        status: int | None = None,
    ) -> None:
        """Takes note of what never gets to the gate: what could not be read, what we ask the upstream
        ourselves, what we answer when it is gone. Nobody listens here (see `observed.ObservedGate`)."""


def _is_error_malformed(message: Message) -> bool:
    error = message.envelope.get("error")
    return error is not None and not is_error_object(error)


def _version_of(exchange: Exchange) -> object:
    """The protocol version that an exchange belongs to, as far as it is known."""
    return exchange.version if exchange.version is not None else exchange.session.version


def withheld(message: Message, exchange: Exchange, why: Why) -> Verdict:
    """The verdict on what a client must not see: who waits for it, on either side, gets an error."""
    if message.kind is _RESPONSE:
        log.warning("Withheld an answer of the upstream. %s.", _sentence(why.reason))
        id_token = exchange.id_token or message.id_token
        return Forward(error_message(id_token, INTERNAL_ERROR, INVALID_ANSWER), "block", why)
    log.warning("Dropped a message from the upstream. %s.", _sentence(why.reason))
    if message.kind is Kind.REQUEST and why.rule == "schema":
        raw = error_reply(message.id_token, INVALID_PARAMS, "Invalid params")
        return Answer(raw, INVALID_PARAMS, word="block", why=why)
    return Drop(why, "block")


def error_message(id_token: bytes | None, code: int, text: str) -> Message:
    """An error of ours in the place of an answer."""
    return Message(error_reply(id_token, code, text), _RESPONSE, id_token or b"null", None)


def _sentence(reason: str) -> str:
    return reason[:1].upper() + reason[1:]
