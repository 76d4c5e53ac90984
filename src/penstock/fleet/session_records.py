"""What instances know together of a session that all of them serve: one record each, values sealed.

A value that a rule set is bound to its session and name. A number that rules add to stands beside it, since
adding must be one step in the store; nobody can seal that, so whoever can write there can change it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock import limits
from penstock.errors import ProtocolError
from penstock.gate.shared_ruled import CannotTell
from penstock.policy.exchange import Session
from penstock.state.seals import Seals
from penstock.state.store import Store, StoreDown
from penstock.wire.mcp.ids import exact_key
from penstock.wire.mcp.message import Message, read_client_message, read_upstream_message

_MOST_TASKS = 16  # that one message names


class StoredRecords:
    """The records, in the store."""

    def __init__(self, store: Store, seals: Seals, is_local_when_down: bool) -> None:
        self._store = store
        self._seals = seals
        self._is_local_when_down = is_local_when_down
        self._fields: dict[str, tuple[bytes, bytes]] = {}

    async def load(self, session: Session, names: frozenset[str], tasks: list[str]) -> None:
        """Puts what others have set into the session. Raises CannotTell."""
        ordered, tasks = sorted(names), tasks[:_MOST_TASKS]
        fields = [field for name in ordered for field in self._fields_of(name)]
        fields += [self._task_field(task) for task in tasks]
        try:
            found = await self._store.read(self._key(session), fields)
        except StoreDown:
            self._give_up()
            return
        for place, name in enumerate(ordered):
            self._take_value(session, name, found[2 * place], found[2 * place + 1])
        for task, sealed in zip(tasks, found[2 * len(ordered) :], strict=True):
            raw = None if sealed is None else self._seals.maybe_unwrapped(sealed, "task", session.id, task)
            if raw is not None:
                session.tasks[task] = _read(raw, is_clients=True) or session.tasks.get(task)  # type: ignore[assignment]

    def _take_value(self, session: Session, name: str, sealed: bytes | None, added: bytes | None) -> None:
        value: Any = None
        is_set = False
        if sealed is not None:
            raw = self._seals.maybe_unwrapped(sealed, "value", session.id, name)
            if raw is None:
                raise CannotTell("a value was changed by somebody else")
            value, is_set = msgspec.json.decode(raw), True
        if added is not None:
            try:
                number = float(added)
            except ValueError:
                raise CannotTell("a number was changed by somebody else") from None
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            value = (value if is_number else 0) + (int(number) if number.is_integer() else number)
            is_set = True
        if is_set:
            session.values[name] = value
        else:
            session.values.pop(name, None)

    async def save(self, session: Session, changes: list[Any], tasks: dict[str, Message]) -> None:
        """Lets others know of what was set, and of tasks that began. Raises CannotTell."""
        values: dict[bytes, bytes] = {}
        adds: dict[bytes, float] = {}
        drops: list[bytes] = []
        for name, value, is_added in changes:
            set_field, add_field = self._fields_of(name)
            if is_added:
                adds[add_field] = adds.get(add_field, 0) + value
            else:
                adds.pop(add_field, None)
                drops.append(add_field)
                values[set_field] = self._seals.wrapped(msgspec.json.encode(value), "value", session.id, name)
        for task, request in tasks.items():
            values[self._task_field(task)] = self._seals.wrapped(request.raw, "task", session.id, task)
        await self._write(session, values, adds, drops)

    async def keep_request(self, session: Session, message: Message) -> None:
        """Lets others know of a question of the upstream's. Raises CannotTell."""
        field = self._request_field(message.id_token or b"")
        await self._write(session, {field: self._seals.wrapped(message.raw, "asked", session.id)}, {}, [])

    async def take_request(self, session: Session, id_token: bytes) -> Message | None:
        """The question that is answered under this id. Raises CannotTell."""
        try:
            sealed = await self._store.take(self._key(session), self._request_field(id_token))
        except StoreDown:
            self._give_up()
            return None
        raw = None if sealed is None else self._seals.maybe_unwrapped(sealed, "asked", session.id)
        return None if raw is None else _read(raw, is_clients=False)

    async def _write(
        self, session: Session, values: dict[bytes, bytes], adds: dict[bytes, float], drops: list[bytes]
    ) -> None:
        try:
            await self._store.write(self._key(session), values, adds, drops, limits.STATE_SECONDS)
        except StoreDown:
            self._give_up()

    def _give_up(self) -> None:
        if not self._is_local_when_down:
            raise CannotTell("the store is down")

    def _key(self, session: Session) -> bytes:
        return self._seals.name("state", session.upstream, session.id)

    def _fields_of(self, name: str) -> tuple[bytes, bytes]:
        """The fields of a value: what it was set to, and what was added to it since."""
        if name not in self._fields:
            digest = self._seals.digest("name", name)
            self._fields[name] = b"v" + digest, b"+" + digest
        return self._fields[name]

    def _task_field(self, task: str) -> bytes:
        return b"t" + self._seals.digest("task", task)

    def _request_field(self, id_token: bytes) -> bytes:
        return b"q" + self._seals.digest("asked", exact_key(id_token))


def _read(raw: bytes, is_clients: bool) -> Message | None:
    try:
        found = read_client_message(raw) if is_clients else read_upstream_message(raw)
    except ProtocolError:
        return None
    return found if isinstance(found, Message) else None
