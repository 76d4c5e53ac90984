"""Messages on their way to an HTTP upstream, in an order that makes sense to it.

Requests travel side by side. A notification, a response and `initialize` hold up whatever comes after them
until they have been taken: `initialized` must not be overtaken by the first request after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock import limits
from penstock.wire.mcp.ids import id_key
from penstock.wire.mcp.message import Kind, Message


def has_to_be_first(message: Message) -> bool:
    """Whether nothing may overtake `message`."""
    return message.kind is not Kind.REQUEST or message.method == "initialize"


class Outbox:
    """The queue of one session, bounded by not reading whoever fills it."""

    def __init__(
        self,
        post: Callable[[Message], None],
        on_full: Callable[[], None],
        on_drained: Callable[[], None],
        in_turn: bool = False,
    ) -> None:
        """`post` sends a message and sees to it that `done` is called. With `in_turn` requests wait too."""
        self._post = post
        self._on_full = on_full
        self._on_drained = on_drained
        self._in_turn = in_turn
        self._queue: deque[Message] = deque()
        self._surplus: deque[Message] = deque()  # requests beyond those that may be under way
        self._barrier: Message | None = None
        self._running: dict[int, Message] = {}
        self._waiting_bytes = 0
        self._unanswered_bytes = 0
        self._is_held = False
        self._is_full = False

    @property
    def is_waiting(self) -> bool:
        """Whether a message has not been sent yet."""
        return bool(self._queue or self._surplus)

    @property
    def size(self) -> int:
        """Bytes of all messages that wait or are under way, and of what we know of them."""
        waiting = len(self._queue) + len(self._surplus)
        return self._waiting_bytes + self._unanswered_bytes + limits.BESIDE_BYTES * waiting

    def put(self, message: Message) -> None:
        """Sends `message` when its turn has come."""
        self._queue.append(message)
        self._waiting_bytes += len(message.raw)
        self._pump()

    def put_first(self, message: Message) -> None:
        """Sends `message` again, before everything that waits."""
        self._queue.appendleft(message)
        self._waiting_bytes += len(message.raw)
        self._pump()

    def done(self, message: Message) -> None:
        """`message` is not under way any more."""
        if self._running.pop(id(message), None) is not None:
            self._unanswered_bytes -= len(message.raw)
        if self._barrier is message:
            self._barrier = None
        self._pump()

    def lift(self, message: Message) -> None:
        """Lets others overtake `message` from now on."""
        if self._barrier is message:
            self._barrier = None
            self._pump()

    def hold(self) -> None:
        """Sends nothing until release; what was under way is forgotten."""
        self._is_held = True
        self._barrier = None
        self._running.clear()
        self._unanswered_bytes = 0
        self._tell()

    def release(self) -> None:
        """Goes on."""
        self._is_held = False
        self._pump()

    def withdraw(self, id_token: bytes) -> bool:
        """Takes back a request that has not been sent; False when there is none."""
        key = id_key(id_token)
        for waiting in (self._queue, self._surplus):
            for message in waiting:
                if message.kind is Kind.REQUEST and message.id_token and id_key(message.id_token) == key:
                    waiting.remove(message)
                    self._waiting_bytes -= len(message.raw)
                    self._tell()
                    return True
        return False

    def empty(self) -> list[Message]:
        """What was not sent, in order; the outbox forgets it."""
        unsent = [*self._surplus, *self._queue]
        self._surplus.clear()
        self._queue.clear()
        self._waiting_bytes = 0
        self._tell()
        return unsent

    def _pump(self) -> None:
        while not self._is_held:
            if self._surplus and self._barrier is None and len(self._running) < limits.UPSTREAM_POSTS:
                self._send(self._surplus.popleft())
            elif self._queue and self._barrier is None:
                message = self._queue.popleft()
                if message.kind is Kind.REQUEST and len(self._running) >= limits.UPSTREAM_POSTS:
                    # What comes after it may be the response that one of those under way waits for.
                    self._surplus.append(message)
                else:
                    self._send(message)
            else:
                break
        self._tell()

    def _send(self, message: Message) -> None:
        self._waiting_bytes -= len(message.raw)
        self._unanswered_bytes += len(message.raw)
        self._running[id(message)] = message
        if self._in_turn or has_to_be_first(message):
            self._barrier = message
        self._post(message)

    def _tell(self) -> None:
        is_answered = self._unanswered_bytes <= limits.UNANSWERED_BYTES
        if self._is_full:
            if is_answered and self._waiting_bytes < limits.WRITE_LOW_BYTES:
                self._is_full = False
                self._on_drained()
        elif not is_answered or self._waiting_bytes > limits.WRITE_HIGH_BYTES:
            self._is_full = True
            self._on_full()
