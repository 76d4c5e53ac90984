"""A message that waits until a task has decided: settled once, cancelled or failed."""

from __future__ import annotations

import asyncio
import json

import pytest

from penstock.gate.task_wait import FAILED, TaskWait, closed
from penstock.policy.exchange import Session
from penstock.policy.verdict import FORWARD, Answer, Decided, Drop, Forward, Verdict, Wait
from penstock.wire.mcp.message import Kind, Message

ASK = Message(b"ask", Kind.REQUEST, b"7", "x")
TELL = Message(b"tell", Kind.NOTIFICATION, None, "x")
ANSWER = Message(b"answer", Kind.RESPONSE, b"7", None)


class Run:
    """One message that waits, what it was settled with, and what `after` was told."""

    def __init__(self, message: Message = ASK) -> None:
        self.session = Session(id="s")
        self.told: list[Decided] = []
        self.settled: list[Verdict] = []
        self.decision: asyncio.Future[Decided] = asyncio.get_running_loop().create_future()
        self.wait = TaskWait(message, True, self.session, self._after)
        self.wait.then(self.settled.append)
        self.wait.start(self._decide())

    async def _decide(self) -> Decided:
        return await self.decision

    def _after(self, decided: Decided) -> Verdict:
        self.told.append(decided)
        return decided


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_the_task_decides_is_settled_and_the_session_waits_no_more() -> None:
    async def run() -> None:
        run = Run()
        assert list(run.session.waiting) == [run.wait]
        await turns()
        assert run.settled == []
        run.decision.set_result(FORWARD)
        await turns()
        assert run.told == [FORWARD]
        assert run.settled == [FORWARD]
        assert not run.session.waiting
        run.wait.cancel()
        run.wait.fail("late")
        assert run.settled == [FORWARD]

    asyncio.run(run())


def test_a_cancel_ends_the_task_and_drops_the_message_once() -> None:
    async def run() -> None:
        run = Run()
        await turns()
        run.wait.cancel()
        run.wait.cancel()
        (verdict,) = run.settled
        assert isinstance(verdict, Drop)
        assert (verdict.why.rule, verdict.why.action) == ("rules", "cancelled")
        assert not run.session.waiting
        await turns()
        assert run.decision.cancelled()
        assert len(run.settled) == 1

    asyncio.run(run())


def test_a_failure_from_outside_answers_the_message_once() -> None:
    async def run() -> None:
        run = Run()
        await turns()
        run.wait.fail("The session has ended")
        await turns()
        (verdict,) = run.settled
        assert isinstance(verdict, Answer)
        assert b"The session has ended" in verdict.raw
        assert not run.session.waiting
        assert run.decision.cancelled()

    asyncio.run(run())


def test_a_task_that_fails_lets_nothing_pass_and_people_hear_of_it(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        run = Run()
        run.decision.set_exception(RuntimeError("out of order"))
        await turns()
        (verdict,) = run.settled
        assert isinstance(verdict, Answer)
        assert json.loads(verdict.raw)["error"] == {"code": -32603, "message": FAILED}
        assert not run.session.waiting

    asyncio.run(run())
    assert [(one.name, one.getMessage()) for one in caplog.records] == [
        ("penstock", "Deciding about a message failed.")
    ]
    assert "out of order" in caplog.text


class Next(Wait):
    """What comes after, and waits in its turn."""

    def __init__(self) -> None:
        super().__init__(ASK, True)
        self.heard: list[str] = []

    def cancel(self) -> None:
        self.heard.append("cancel")

    def fail(self, why: str) -> None:
        self.heard.append(why)


def test_what_waits_once_more_is_cancelled_and_failed_where_it_waits_now() -> None:
    async def run() -> None:
        after = Next()
        session = Session(id="s")
        decision: asyncio.Future[Decided] = asyncio.get_running_loop().create_future()
        settled: list[Verdict] = []
        wait = TaskWait(ASK, True, session, lambda decided: after)
        wait.then(settled.append)
        wait.start(decision)
        decision.set_result(FORWARD)
        await turns()
        assert settled == []
        wait.cancel()
        wait.fail("why")
        assert after.heard == ["cancel", "why"]
        after.settle(FORWARD)
        assert settled == [FORWARD]

    asyncio.run(run())


def test_a_wait_that_has_not_begun_has_nothing_to_give_up() -> None:
    session = Session(id="s")
    wait = TaskWait(ASK, False, session, lambda decided: decided)
    settled: list[Verdict] = []
    wait.then(settled.append)
    wait.cancel()
    wait.fail("why")
    assert settled == []
    assert not wait.is_from_client


def test_where_nobody_can_decide_nothing_passes_of_any_kind() -> None:
    answer = closed(ANSWER, "why")
    assert isinstance(answer, Forward)
    assert answer.message is not None
    assert json.loads(answer.message.raw) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32603, "message": "why"},
    }
    ask = closed(ASK, "why")
    assert isinstance(ask, Answer)
    assert (json.loads(ask.raw)["id"], ask.code) == (7, -32603)
    tell = closed(TELL, "why")
    assert isinstance(tell, Drop)
    for verdict in (answer, ask, tell):
        assert verdict.word == "block"
        assert verdict.why is not None
        assert (verdict.why.rule, verdict.why.action, verdict.why.reason) == ("rules", "error", "why")
        assert verdict.why.code == -32603
