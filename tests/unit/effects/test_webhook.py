"""Webhooks over real sockets, against a server that answers from a list."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from penstock import limits
from penstock.effects.webhook import Webhooks
from penstock.errors import EffectFailed
from penstock.policy.rules.effect_contract import EffectVerdict, WebhookSpec

ENOUGH = 60.0  # seconds: no test waits for them
BODY = b'{"rule":"r"}'


def answer(status: int, body: bytes = b"", head: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\n%bContent-Length: %d\r\n\r\n%b" % (status, head, len(body), body)


ALLOW = answer(200, b'{"decision":"allow"}')
SILENCE = b""


class Site:
    """Answers each request with the next of `answers`, and with the last one for ever."""

    def __init__(self, answers: tuple[bytes, ...]) -> None:
        self.answers = answers
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.port = 0
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                text = self.answers[min(len(self.bodies), len(self.answers) - 1)]
                self.heads.append(head)
                self.bodies.append(body)
                self.asked.set()
                await self.may_answer.wait()
                writer.write(text)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def hook(self, **options: Any) -> WebhookSpec:
        options = {"timeout": ENOUGH, "allow_http": True, "allow_private": True, **options}
        host = options.pop("host", "127.0.0.1")
        return WebhookSpec(f"http://{host}:{self.port}/secret-path?key=secret", **options)

    async def has(self, count: int) -> None:
        while len(self.bodies) < count:
            self.asked.clear()
            await self.asked.wait()


@contextlib.asynccontextmanager
async def site(*answers: bytes) -> AsyncIterator[Site]:
    served = Site(answers)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.get_running_loop().create_task(served.serve(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 24)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Rest:
    """Waits between tries that are remembered and not waited for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def webhooks(**options: Any) -> AsyncIterator[Webhooks]:
    hooks = Webhooks(**options)
    try:
        yield hooks
    finally:
        await hooks.close()


def asked(hook_of: Callable[[Site], WebhookSpec], *answers: bytes) -> EffectVerdict:
    async def main() -> EffectVerdict:
        async with site(*answers) as served, webhooks() as hooks:
            return await hooks.ask(hook_of(served), BODY)

    return asyncio.run(main())


def why_not(hook_of: Callable[[Site], WebhookSpec], *answers: bytes) -> str:
    with pytest.raises(EffectFailed) as caught:
        asked(hook_of, *answers)
    assert "secret" not in str(caught.value)
    return caught.value.detail


# Questions


def test_a_hook_decides():
    verdict = b'{"decision":"block","reason":"no","set_params":{"a":1}}'
    assert asked(Site.hook, answer(200, verdict)) == EffectVerdict("block", "no", b'{"a":1}')


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (answer(500, b'{"decision":"allow"}'), "answered 500"),
        (answer(404), "answered 404"),
        (answer(302, head=b"Location: http://127.0.0.1/\r\n"), "answered 302"),
        (answer(304), "answered 304"),
        (answer(204), "empty"),
        (answer(200, b"yes"), "no JSON object"),
        (answer(200, b'{"decision":"perhaps"}'), "neither"),
        (b"SSH-2.0-hello\r\n\r\n", "Malformed status line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nContent-Length: 1\r\n\r\n{}", ""),
        (answer(200, b"x" * (limits.VERDICT_BYTES + 1)), "more than"),
    ],
)
def test_anything_but_a_verdict_is_a_failure(response, why):
    assert why in why_not(Site.hook, response)


def test_silence_is_a_failure():
    assert "No answer after 50ms" in why_not(lambda served: served.hook(timeout=0.05), SILENCE)


def test_nobody_there_is_a_failure():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        hook = WebhookSpec(url, timeout=ENOUGH, allow_http=True, allow_private=True)
        assert "refused" in why_not(lambda _: hook, ALLOW)


def test_a_question_is_asked_once():
    async def main() -> None:
        async with site(answer(503)) as served, webhooks() as hooks:
            with pytest.raises(EffectFailed):
                await hooks.ask(served.hook(retries=5), BODY)
            assert served.bodies == [BODY]

    asyncio.run(main())


def test_a_redirect_is_not_followed():
    async def main() -> None:
        async with site(ALLOW) as target, webhooks() as hooks:
            moved = answer(307, head=b"Location: http://127.0.0.1:%d/\r\n" % target.port)
            async with site(moved) as served:
                with pytest.raises(EffectFailed):
                    await hooks.ask(served.hook(), BODY)
            assert target.connections == 0

    asyncio.run(main())


def test_what_the_request_says():
    async def main() -> None:
        async with site(ALLOW) as served, webhooks() as hooks:
            headers = (("Authorization", "Bearer secret"), ("User-Agent", "mine"))
            await hooks.ask(served.hook(headers=headers), BODY)
            head = served.heads[0]
            assert head.startswith(
                b"POST /secret-path?key=secret HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % served.port
            )
            assert b"\r\nContent-Type: application/json\r\n" in head
            assert b"\r\nAuthorization: Bearer secret\r\n" in head
            assert head.lower().count(b"user-agent") == 1

    asyncio.run(main())


def test_a_header_cannot_smuggle_another():
    assert "control byte" in why_not(lambda served: served.hook(headers=(("X", "a\r\nY: b"),)), ALLOW)


def test_giving_up_a_question_closes_its_connection():
    async def main() -> None:
        async with site(ALLOW) as served, webhooks() as hooks:
            served.may_answer.clear()
            task = asyncio.create_task(hooks.ask(served.hook(), BODY))
            await served.has(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            served.may_answer.set()
            assert (await hooks.ask(served.hook(), BODY)).decision == "allow"
            assert served.connections == 2

    asyncio.run(main())


# Where a hook may be

HERE = [
    "127.0.0.1",
    "localhost",
    "127.1",
    "2130706433",
    "0177.0.0.1",
    "0x7f.1",
    "[::ffff:127.0.0.1]",
    "0.0.0.0",
]


@pytest.mark.parametrize("host", HERE)
def test_this_machine_is_out_of_bounds_in_every_spelling(host):
    async def main() -> None:
        async with site(ALLOW) as served, webhooks() as hooks:
            with pytest.raises(EffectFailed) as caught:
                await hooks.ask(served.hook(host=host, allow_private=False), BODY)
            assert caught.value.detail == "Address not allowed"
            assert served.connections == 0

    asyncio.run(main())


@pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "192.168.0.1", "[fe80::1]", "[fd00::1]"])
def test_neighbours_are_out_of_bounds(host):
    why = why_not(lambda served: served.hook(host=host, allow_private=False), ALLOW)
    assert why == "Address not allowed"


def test_a_name_that_changes_its_address_gains_nothing(monkeypatch):
    """The first lookup is the only one, and what it says is both judged and connected to."""
    lookups: list[str] = []

    async def main() -> None:
        async with site(ALLOW) as served, webhooks() as hooks:
            loop = asyncio.get_running_loop()

            async def resolve(host: str, port: int, **options: Any) -> list[Any]:
                lookups.append(host)
                address = "127.0.0.1" if len(lookups) > 1 else "192.0.2.1"
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

            monkeypatch.setattr(loop, "getaddrinfo", resolve)
            hook = served.hook(host="rebinding.example", allow_private=False)
            for _ in range(3):
                with pytest.raises(EffectFailed, match="rebinding"):
                    await hooks.ask(hook, BODY)
            assert served.connections == 0

    asyncio.run(main())
    assert len(lookups) == 3


def test_of_several_addresses_only_admitted_ones_are_tried(monkeypatch):
    async def main() -> None:
        async with site(ALLOW) as served, webhooks() as hooks:
            loop = asyncio.get_running_loop()
            tried: list[str] = []

            async def resolve(host: str, port: int, **options: Any) -> list[Any]:
                here = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", served.port))
                return [here, (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", served.port))]

            async def connect(sock: socket.socket, address: tuple[str, int]) -> None:
                tried.append(address[0])
                raise ConnectionRefusedError

            monkeypatch.setattr(loop, "getaddrinfo", resolve)
            monkeypatch.setattr(loop, "sock_connect", connect)
            with pytest.raises(EffectFailed):
                await hooks.ask(served.hook(host="mixed.example", allow_private=False), BODY)
            assert tried == ["8.8.8.8"]

    asyncio.run(main())


def test_http_has_to_be_asked_for():
    assert "allow_http" in why_not(lambda served: served.hook(allow_http=False), ALLOW)


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "file:///etc/passwd", "http://u:secret@example.com/", "x"]
)
def test_what_is_no_hook_is_refused(url):
    assert why_not(lambda _: WebhookSpec(url, allow_http=True), ALLOW)


def test_no_forward_proxy_stands_in_between(monkeypatch):
    async def main() -> None:
        async with site(ALLOW) as proxy, webhooks() as hooks:
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
            hook = WebhookSpec("http://10.0.0.1/", timeout=ENOUGH, allow_http=True)
            with pytest.raises(EffectFailed):
                await hooks.ask(hook, BODY)
            assert proxy.connections == 0

    asyncio.run(main())


# Reports


def test_reports_arrive_in_their_order():
    async def main() -> None:
        async with site(answer(204)) as served, webhooks() as hooks:
            for number in range(20):
                hooks.notify(served.hook(), b"%d" % number)
            await served.has(20)
            assert served.bodies == [b"%d" % number for number in range(20)]

    asyncio.run(main())


def test_a_report_is_tried_again_with_growing_waits():
    async def main() -> None:
        rest = Rest()
        async with site(answer(500), answer(429), answer(503), answer(200)) as served:
            async with webhooks(rest=rest, chance=lambda: 1.0) as hooks:
                hooks.notify(served.hook(retries=3), BODY)
                await served.has(4)
            assert hooks.failed_count == 0
        assert rest.seconds == [0.5, 1.0, 2.0]

    asyncio.run(main())


def test_waits_are_spread_and_have_an_end():
    async def main() -> None:
        rest = Rest()
        async with site(answer(500)) as served:
            async with webhooks(rest=rest, chance=lambda: 0.0) as hooks:
                hooks.notify(served.hook(retries=40), BODY)
                await served.has(41)
            assert hooks.failed_count == 1
        assert rest.seconds[:3] == [0.25, 0.5, 1.0]
        assert rest.seconds[-1] == limits.HOOK_RETRY_MOST_SECONDS / 2

    asyncio.run(main())


def test_what_would_fail_again_is_not_tried_again(caplog):
    async def main() -> None:
        rest = Rest()
        async with site(answer(400)) as served:
            async with webhooks(rest=rest) as hooks:
                hooks.notify(served.hook(retries=5), BODY)
                await served.has(1)
            assert (hooks.failed_count, len(served.bodies), rest.seconds) == (1, 1, [])

    caplog.set_level(logging.DEBUG, "penstock")
    asyncio.run(main())
    assert "answered 400" in caplog.text
    assert "secret" not in caplog.text


def test_a_full_queue_loses_its_oldest_and_says_so(caplog):
    async def main() -> None:
        async with site(answer(200)) as served:
            served.may_answer.clear()
            async with webhooks(most_reports=3) as hooks:
                hooks.notify(served.hook(), b"first")
                await served.has(1)  # on its way, and no part of the queue any more
                for number in range(10):
                    hooks.notify(served.hook(), b"%d" % number)
                assert hooks.dropped_count == 7
                served.may_answer.set()
                await served.has(4)
            assert served.bodies == [b"first", b"7", b"8", b"9"]

    caplog.set_level(logging.WARNING, "penstock")
    asyncio.run(main())
    assert [record.args for record in caplog.records] == [(1,), (2,), (4,)]


def test_the_queue_is_bounded_in_bytes_too():
    async def main() -> None:
        async with site(answer(200)) as served:
            served.may_answer.clear()
            async with webhooks(most_bytes=100) as hooks:
                hooks.notify(served.hook(), b"first")
                await served.has(1)
                for number in range(4):
                    hooks.notify(served.hook(), b"%d" % number * 40)
                assert hooks.dropped_count == 2
                served.may_answer.set()
                await served.has(3)

    asyncio.run(main())


def test_a_silent_hook_delays_no_other():
    async def main() -> None:
        async with site(SILENCE) as silent, site(answer(200)) as served:
            hooks = Webhooks()
            for _ in range(5):
                hooks.notify(silent.hook(), BODY)
                hooks.notify(served.hook(), BODY)
            await served.has(5)
            assert len(silent.bodies) == 1
            await hooks.close(grace=0)

    asyncio.run(main())


def test_closing_leaves_reports_a_moment_and_counts_the_lost(caplog):
    async def main() -> None:
        async with site(SILENCE) as silent, site(answer(200)) as served:
            hooks = Webhooks()
            for _ in range(5):
                hooks.notify(silent.hook(), BODY)
            await silent.has(1)
            await hooks.close(grace=0)
            hooks.notify(served.hook(), BODY)  # after the end: goes nowhere
            with pytest.raises(EffectFailed):
                await hooks.ask(served.hook(), BODY)
            assert served.connections == 0

    caplog.set_level(logging.WARNING, "penstock")
    asyncio.run(main())
    assert [record.args for record in caplog.records] == [(5,)]


def test_nothing_is_kept_of_a_hook_that_has_all_its_reports():
    async def main() -> None:
        async with site(answer(200)) as served, webhooks() as hooks:
            hooks.notify(served.hook(), BODY)
            worker = hooks._queues[served.hook()].worker
            assert worker is not None
            await worker
            assert not hooks._queues

    asyncio.run(main())
