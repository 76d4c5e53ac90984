"""A connection to Redis, in whatever form it runs: one server, sentinels or a cluster, by redis-py."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, cast

from penstock.errors import ConfigError
from penstock.state.redis_pipe import RedisPipe, Replies

Command = tuple[str | bytes | int | float, ...]

_NO_EXTRA = "Install it with: pip install 'penstock[redis]'"
_CONNECTIONS = 8  # one is enough while all goes well; one that hangs must not hold up the next
_LEAST = {"redis": (7, 0), "valkey": (7, 2)}


class Address(Protocol):
    """Where Redis is, as the configuration says it."""

    @property
    def kind(self) -> str: ...

    @property
    def hosts(self) -> tuple[tuple[str, int], ...]: ...

    @property
    def path(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def number(self) -> int: ...

    @property
    def user(self) -> str | None: ...

    @property
    def password(self) -> str | None: ...

    @property
    def is_tls(self) -> bool: ...

    @property
    def shown(self) -> str: ...


class Tls(NamedTuple):
    """Files for TLS."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


class ServerFacts(NamedTuple):
    """What a server says of itself."""

    flavour: str
    version: str
    run_id: str


class RedisLink:
    """Runs commands; many in one round trip."""

    def __init__(self, address: Address, timeout: float, tls: Tls | None = None) -> None:
        """Raises ConfigError when redis-py is not installed. Connects with the first command."""
        try:
            import hiredis  # noqa: F401  # what reads the replies
            import redis.asyncio as driver
            from redis.asyncio.retry import Retry
            from redis.asyncio.sentinel import Sentinel
            from redis.backoff import NoBackoff
        except ImportError:
            raise ConfigError("shared needs redis-py, which is not installed", _NO_EXTRA) from None
        tls = tls or Tls()
        self.address = address
        self._is_cluster = address.kind == "cluster"
        self._pipe: RedisPipe | None = None
        self._slow: set[asyncio.Task[None]] = set()
        # Whether to ask again is decided above us: here it would cost a decision its deadline.
        retry = Retry(NoBackoff(), 0)
        words: dict[str, Any] = {
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "retry": retry,
            "username": address.user,
            "password": address.password,
            "protocol": 2,
        }
        if address.is_tls:
            words |= {"ssl": True, "ssl_ca_certs": tls.ca, "ssl_certfile": tls.cert, "ssl_keyfile": tls.key}
        if address.kind == "cluster":
            del words["retry"]
            nodes = [driver.cluster.ClusterNode(host, port) for host, port in address.hosts]
            self._client: Any = driver.RedisCluster(
                startup_nodes=nodes, retry=Retry(NoBackoff(), 1), max_connections=_CONNECTIONS * 4, **words
            )
        elif address.kind == "sentinel":
            # Sentinels have no users of their own as a rule; TLS they have when the servers do.
            kept = ("socket_timeout", "socket_connect_timeout", "retry")
            own = {name: value for name, value in words.items() if name in kept or name.startswith("ssl")}
            sentinel: Any = Sentinel(  # type: ignore[no-untyped-call]
                list(address.hosts), sentinel_kwargs=own
            )
            self._client = sentinel.master_for(
                address.name, db=address.number, max_connections=_CONNECTIONS, **words
            )
        elif address.kind == "unix":
            del words["socket_connect_timeout"]
            self._client = driver.Redis(
                unix_socket_path=address.path, db=address.number, max_connections=_CONNECTIONS, **words
            )
        else:
            host, port = address.hosts[0]
            self._client = driver.Redis(
                host=host, port=port, db=address.number, max_connections=_CONNECTIONS, **words
            )

    def begin(self, commands: Sequence[Command], then: Callable[[Replies], None]) -> Callable[[], object]:
        """Sends the commands, and calls `then` with their replies; gives what makes an end of it unheard."""
        pipe = self._pipe
        if pipe is not None and pipe.is_free:
            pipe.ask(commands, then)
            return pipe.close
        work = asyncio.get_running_loop().create_task(self._slowly(commands, then))
        self._slow.add(work)
        work.add_done_callback(self._slow.discard)
        return work.cancel

    async def _slowly(self, commands: Sequence[Command], then: Callable[[Replies], None]) -> None:
        try:
            replies: Replies = await self.run(commands)
        except Exception as why:
            replies = why
        then(replies)

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """The replies, in order; an exception stands in the place of one that failed. Raises what redis-py
        raises when there is no connection."""
        if self._is_cluster:
            # A pipeline of a cluster does not take scripts; commands to one node share its connections.
            works = [cast(Awaitable[Any], self._client.execute_command(*command)) for command in commands]
            return list(await asyncio.gather(*works, return_exceptions=True))
        pipe = self._pipe if self._pipe is not None and self._pipe.is_free else await self._open()
        done: asyncio.Future[Replies] = asyncio.get_running_loop().create_future()
        pipe.ask(commands, lambda replies: None if done.done() else done.set_result(replies))
        try:
            replies = await done
        except asyncio.CancelledError:
            pipe.close()
            raise
        if isinstance(replies, Exception):
            pipe.close()
            raise replies
        self._keep(pipe)
        return replies

    async def _open(self) -> RedisPipe:
        connection = self._client.connection_pool.make_connection()
        await connection.connect()
        return RedisPipe(connection)

    def _keep(self, pipe: RedisPipe) -> None:
        """One connection is used again and again; another that was needed beside it is not kept."""
        if self._pipe is None or self._pipe.is_over:
            self._pipe = pipe
        elif self._pipe is not pipe:
            pipe.close()

    async def facts(self) -> ServerFacts:
        """What the server says of itself; of a cluster, its first node. Raises what redis-py raises."""
        more = {"target_nodes": self._client.get_default_node()} if self._is_cluster else {}
        info = await self._client.execute_command("INFO", "server", **more)
        return _facts_in(info)

    async def connect(self) -> None:
        """Looks whether it is there and new enough. Raises ConfigError, which never shows the password."""
        shown = self.address.shown
        try:
            if self._is_cluster:
                await self._client.initialize()
            facts = await self.facts()
        except Exception as why:
            raise ConfigError(f"Cannot use Redis at {shown}", _plain_words(why)) from None
        version = tuple(int(part) for part in re.findall(r"[0-9]+", facts.version)[:2])
        if version < _LEAST[facts.flavour]:
            least = ".".join(map(str, _LEAST[facts.flavour]))
            raise ConfigError(
                f"Redis at {shown} is too old: {facts.version}", f"{facts.flavour} {least} or newer is needed"
            )

    async def drop_connections(self) -> None:
        """Gives up the connections that nobody uses now: the next command looks for the server anew."""
        if not self._is_cluster:
            self._close_pipe()
            await self._client.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        """Closes every connection."""
        for work in tuple(self._slow):
            work.cancel()
        self._close_pipe()
        await self._client.aclose()

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _facts_in(info: Any) -> ServerFacts:
    if isinstance(info, bytes):
        lines = [line.partition(":") for line in info.decode("utf-8", "replace").splitlines()]
        info = {name: value for name, _, value in lines}
    flavour = "valkey" if "valkey_version" in info else "redis"
    return ServerFacts(flavour, str(info.get(f"{flavour}_version", "0")), str(info.get("run_id", "")))


def _plain_words(why: Exception) -> str:
    """Why Redis cannot be used, in words of ours: a driver may repeat what it was given."""
    kind = type(why).__name__
    said = str(why)
    if kind == "AuthenticationError" or "WRONGPASS" in said or "NOAUTH" in said:
        return "It does not take the user or the password"
    if kind == "NoPermissionError" or "NOPERM" in said:
        return "The user may not do what is needed; see docs/fleet.md for the commands"
    if kind in ("TimeoutError", "BusyLoadingError", "ReadOnlyError", "MasterNotFoundError"):
        return {
            "TimeoutError": "It did not answer in time",
            "BusyLoadingError": "It is still loading its data",
            "ReadOnlyError": "It is a replica, which takes no writes",
            "MasterNotFoundError": "The sentinels know no primary of that name",
        }[kind]
    if "certificate" in said.lower() or "ssl" in said.lower():
        return "TLS failed: its certificate is not trusted, or it speaks no TLS"
    if kind in ("ConnectionError", "ConnectionRefusedError", "OSError", "RedisClusterException"):
        return "Nobody answers there"
    return f"It failed ({kind})"
