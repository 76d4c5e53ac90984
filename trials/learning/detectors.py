"""Each detector is Penstock itself: a baseline that it made, and rules that are judged offline."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from penstock.commands.dry_run import DryRun, DryRunEffects, read_message, verdict_of
from penstock.learn.events import Event
from penstock.learn.scores import SessionScores, learn
from penstock.policy.exchange import Session
from penstock.policy.learned.baseline import Baseline, Model
from penstock.policy.rules.interceptor_config import build
from trials.learning.agentdojo import Run

READS = ("get_*", "read_*", "search_*", "list_*", "check_*")
OUTBOUND = (
    *("send_*", "post_*", "invite_*", "share_*", "schedule_transaction", "update_scheduled_transaction"),
    *("create_calendar_event", "add_calendar_event_participants", "reserve_*"),
)
_CALL = {"method_equals": "tools/call"}
_CHANGE = {"not": {"tool": list(READS)}}
RULES: dict[str, list[Any]] = {
    "new tool (`is_new: tool`)": [{"is_new": "tool"}],
    "new place (`is_new: place`)": [{"is_new": "place"}],
    "new tool or place": [{"any": [{"is_new": "tool"}, {"is_new": "place"}]}],
    "any change after a read (`after`)": [_CHANGE, {"after": list(READS)}],
    "only outbound after a read (`after`)": [{"tool": list(OUTBOUND)}, {"after": list(READS)}],
    "a place copied from a result into a changing call (`copied_from`, `text: 0`)": [
        _CHANGE,
        {"copied_from": {"field": "arguments.**", "tools": ["*"], "text": 0}},
    ],
    "the same, or 48 characters in a row (`copied_from`, `text: 48`)": [
        _CHANGE,
        {"copied_from": {"field": "arguments.**", "tools": ["*"], "text": 48}},
    ],
    "the same, or 24 characters in a row (`copied_from`)": [
        _CHANGE,
        {"copied_from": {"field": "arguments.**", "tools": ["*"]}},
    ],
    "the same, whoever named it first (`even_if_named: true`)": [
        _CHANGE,
        {"copied_from": {"field": "arguments.**", "tools": ["*"], "even_if_named": True}},
    ],
}


def baseline_of(runs: list[Run]) -> Baseline:
    """What Penstock learns from these sessions."""
    model = Model(sessions=len(runs))
    for run in runs:
        state = SessionScores()
        for number, step in enumerate(run.steps):
            arguments = step.arguments
            event = Event(run.name, "", 0.0, number, step.tool, False, arguments, 1)
            learn(model, event, state)
    return Baseline("baseline", groups={"": model})


class Detector:
    """One rule, with one baseline."""

    def __init__(self, conditions: list[Any], baseline: Baseline) -> None:
        rule = {"id": "r", "conditions": [_CALL, *conditions], "actions": [{"block": "flagged"}]}
        config, faults = build({"rules": [rule]}, baseline=baseline)
        assert config is not None, faults
        self._config = config

    def flags(self, run: Run) -> bool:
        """Whether the rule would have blocked a call of the session."""
        session = DryRun(self._config, DryRunEffects(), Session(id=run.name))
        for number, step in enumerate(run.steps):
            call = {"name": step.tool, "arguments": step.arguments}
            asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
            if (
                verdict_of(session.play(read_message(json.dumps(asked).encode(), "client"), "client"))
                != "pass"
            ):
                return True
            result = {"content": [{"type": "text", "text": step.result}], "isError": step.is_error}
            answer = {"jsonrpc": "2.0", "id": number, "result": result}
            session.play(read_message(json.dumps(answer).encode(), "upstream"), "upstream")
        return False


def is_odd_pair(run: Run, known: set[tuple[str, str, str]]) -> bool:
    """Whether two calls follow each other that no learned session had so: the plainest of sequences."""
    return any(pair not in known for pair in pairs_of(run))


def pairs_of(run: Run) -> set[tuple[str, str, str]]:
    """Which tool follows which."""
    names = ["", *(step.tool for step in run.steps)]
    return {(run.suite, first, second) for first, second in pairwise(names)}
