"""Telling a webhook what happened, and asking one what shall happen.

A report waits in a bounded queue of its hook and is tried several times; a question is asked once. Neither
follows redirects or uses a forward proxy: the address that is connected to is the one that was judged
(`effects/addresses`). Only scheme, host and port of a hook are ever logged, as secrets stand in paths and
headers.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable

from penstock import __version__, limits
from penstock.effects.addresses import admission
from penstock.effects.turns import Turns
from penstock.effects.verdict_json import NoVerdict, read_verdict
from penstock.errors import ConfigError, EffectFailed, UpstreamError
from penstock.net.connect import TlsFactory, default_tls
from penstock.net.fetch import WholeAnswer
from penstock.net.http_client import HttpClient
from penstock.policy.rules.effect_contract import EffectVerdict, WebhookSpec
from penstock.wire.http.http1 import Headers
from penstock.wire.http.url import parse_url

log = logging.getLogger("penstock")

_WORTH_ANOTHER_TRY = frozenset((408, 425, 429))  # and every 5xx: the server's trouble, not the report's


class HookFailed(Exception):
    """One request to a hook failed; `is_final` when the next one would fail as well."""

    def __init__(self, why: str, is_final: bool = False) -> None:
        super().__init__(why)
        self.is_final = is_final


class Webhooks:
    """All hooks that the rules name, each with its connections and its queue."""

    def __init__(
        self,
        *,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        new_tls: TlsFactory = default_tls,
        most_reports: int = limits.HOOK_QUEUE,
        most_bytes: int = limits.HOOK_QUEUE_BYTES,
    ) -> None:
        self._rest = rest
        self._chance = chance
        self._new_tls = new_tls
        self._most_reports = most_reports
        self._most_bytes = most_bytes
        self._clients: dict[WebhookSpec, HttpClient] = {}
        self._queues: dict[WebhookSpec, _Queue] = {}
        self._asking = Turns(limits.HOOK_ASKS)
        self._is_closed = False
        self.dropped_count = 0
        """Reports that a full queue pushed out."""
        self.failed_count = 0
        """Reports that were given up after the last try."""

    def notify(self, hook: WebhookSpec, body: bytes) -> None:
        """Sends `body` some time soon, after what waits for the same hook; a full queue loses its oldest."""
        if self._is_closed:
            return
        queue = self._queues.get(hook)
        if queue is None:
            queue = self._queues[hook] = _Queue()
            queue.worker = asyncio.get_running_loop().create_task(self._work_off(hook, queue))
        queue.append(body)
        while len(queue.bodies) > 1 and (
            len(queue.bodies) > self._most_reports or queue.size > self._most_bytes
        ):
            queue.pop()
            self.dropped_count += 1
            if (
                self.dropped_count & (self.dropped_count - 1) == 0
            ):  # at 1, 2, 4, 8 ...: the log is bounded too
                log.warning("Webhooks are too slow: %d reports were dropped so far.", self.dropped_count)

    async def ask(self, hook: WebhookSpec, body: bytes, sender: str = "") -> EffectVerdict:
        """What the hook decides; EffectFailed when that is not known in time."""
        where = _name(hook)
        try:
            async with asyncio.timeout(hook.timeout):
                await self._asking.take(sender)
                try:
                    answer = await self._post(hook, body)
                finally:
                    self._asking.give_back(sender)
        except TimeoutError:
            raise EffectFailed(where, f"No answer after {round(hook.timeout * 1000)}ms") from None
        except HookFailed as why:
            raise EffectFailed(where, str(why)) from None
        try:
            return read_verdict(answer)
        except NoVerdict as why:
            raise EffectFailed(where, f"Not understood: {why}") from None

    async def close(self, grace: float = limits.FLUSH_SECONDS) -> None:
        """Leaves waiting reports a moment to get away, then closes every connection."""
        self._is_closed = True
        workers = [queue.worker for queue in self._queues.values() if queue.worker is not None]
        if workers:
            await asyncio.wait(workers, timeout=grace)
        lost = sum(len(queue.bodies) + queue.is_sending for queue in self._queues.values())
        if lost:
            log.warning("%d reports to webhooks were not sent in time.", lost)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await asyncio.gather(*(client.close() for client in self._clients.values()))
        self._clients.clear()
        self._queues.clear()

    async def _work_off(self, hook: WebhookSpec, queue: _Queue) -> None:
        try:
            while queue.bodies:
                body = queue.pop()
                queue.is_sending = True
                await self._deliver(hook, body)
                queue.is_sending = False
        finally:
            if not self._is_closed:  # what is lost is still to be counted
                del self._queues[hook]

    async def _deliver(self, hook: WebhookSpec, body: bytes) -> None:
        tries = 1 + max(0, hook.retries)
        for number in range(1, tries + 1):
            try:
                async with asyncio.timeout(hook.timeout):
                    await self._post(hook, body)
                return
            except TimeoutError:
                why, is_final = f"no answer after {round(hook.timeout * 1000)}ms", False
            except HookFailed as failure:
                why, is_final = str(failure), failure.is_final
            except Exception:
                log.exception("A report to %s could not be sent", _name(hook))
                why, is_final = "it could not be sent", True
            if is_final or number == tries:
                self.failed_count += 1
                log.warning("%s did not take a report, which is lost: %s.", _name(hook), why)
                return
            log.debug("%s did not take a report: %s. Trying again.", _name(hook), why)
            longest = min(
                limits.HOOK_RETRY_SECONDS * 2.0 ** min(number - 1, 16), limits.HOOK_RETRY_MOST_SECONDS
            )
            await self._rest(longest * (0.5 + self._chance() / 2))

    async def _post(self, hook: WebhookSpec, body: bytes) -> bytes:
        """The body of a 2xx answer; anything else is HookFailed."""
        client = self._client(hook)
        answer = _Answer(limits.VERDICT_BYTES)
        try:
            answer.ticket = client.request(b"POST", client.url.target, _headers(hook), body, answer)
        except ValueError as why:
            raise HookFailed(str(why), is_final=True) from None
        try:
            await answer.done
        finally:
            answer.ticket.cancel()  # does nothing when the response is complete
        if not 200 <= answer.status < 300:
            is_passing = answer.status >= 500 or answer.status in _WORTH_ANOTHER_TRY
            raise HookFailed(f"answered {answer.status}", is_final=not is_passing)
        return bytes(answer.body)

    def _client(self, hook: WebhookSpec) -> HttpClient:
        client = self._clients.get(hook)
        if client is None:
            if self._is_closed:
                raise HookFailed("we are closing", is_final=True)
            try:
                url = parse_url(hook.url)
            except ConfigError as why:
                raise HookFailed(why.detail, is_final=True) from None
            if not url.is_tls and not hook.allow_http:
                raise HookFailed("http is not encrypted; the rule must say allow_http: true", is_final=True)
            client = self._clients[hook] = HttpClient(
                url,
                new_tls=self._new_tls,
                environ={},  # behind a proxy, nobody could tell where the request ends up
                admits=admission(hook.allow_private),
            )
        return client


class _Queue:
    """What waits for one hook, and who sends it. It lives as long as there is something to send."""

    def __init__(self) -> None:
        self.bodies: deque[bytes] = deque()
        self.size = 0
        self.is_sending = False
        self.worker: asyncio.Task[None] | None = None

    def append(self, body: bytes) -> None:
        self.bodies.append(body)
        self.size += len(body)

    def pop(self) -> bytes:
        body = self.bodies.popleft()
        self.size -= len(body)
        return body


class _Answer(WholeAnswer):
    """The same, with failures in the words of a hook: one that says too much is not asked again."""

    def too_long(self, most: int) -> Exception:
        return HookFailed(f"answered with more than {most} bytes", is_final=True)

    def on_failure(self, error: UpstreamError) -> None:
        self.fail(HookFailed(error.detail, is_final=False))


def _headers(hook: WebhookSpec) -> Headers:
    headers = [
        (b"Content-Type", b"application/json"),
        (b"Accept", b"application/json"),
        (b"User-Agent", b"penstock/" + __version__.encode()),
    ]
    named = {name.lower() for name, _ in hook.headers}
    headers = [(name, value) for name, value in headers if name.lower().decode() not in named]
    return headers + [(name.encode(), value.encode()) for name, value in hook.headers]


def _name(hook: WebhookSpec) -> str:
    try:
        return f"The webhook {parse_url(hook.url).origin}"
    except ConfigError:
        return "A webhook without a valid URL"
