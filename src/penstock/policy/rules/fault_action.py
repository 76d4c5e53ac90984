"""The action that makes things go wrong on purpose, the same ones each time: for trying clients out.

Whether a message is hit is decided by its exchange and the seed alone, so a run can be repeated. Penstock
refuses to start with such a rule unless it is told `--allow-faults`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from penstock.policy.binder import READERS, Misread, Reader, Seconds
from penstock.policy.durations import spoken_duration
from penstock.policy.faults import Fault as ConfigFault
from penstock.policy.faults import Place
from penstock.policy.learned.features import digest64
from penstock.policy.rules.effect_contract import ALLOWED, EffectVerdict
from penstock.policy.rules.message_parts import member_place, method_of
from penstock.policy.rules.rule_run import RuleRun, Stop
from penstock.wire.mcp.message import INTERNAL_ERROR, Kind

REASON = "Injected fault"
_LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
Rate = Annotated[float, "rate"]


class Fault(Struct, frozen=True):
    """Makes some messages go wrong: holds them for `time`, drops them without an answer, answers them with an
    error, drops reports of progress, or cuts a page of a list short. `seed` and the request decide which."""

    kind: Literal["delay", "drop", "error", "drop_progress", "truncate_page"]
    rate: Rate = 1.0
    seed: int = 0
    time: Seconds = 1.0
    short: ClassVar[str] = "kind"
    name: ClassVar[str] = "fault"

    @property
    def is_waiting(self) -> bool:
        return self.kind == "delay"

    def words(self) -> str:
        what = {
            "delay": f"hold it for {spoken_duration(self.time)}",
            "drop": "drop it without an answer",
            "error": "answer with an error",
            "drop_progress": "drop it if it reports progress",
            "truncate_page": "cut its page of a list short",
        }[self.kind]
        return f"on purpose, for {self.rate:.3g} of the messages (seed {self.seed}): {what}"

    def hits(self, scene: RuleRun) -> bool:
        """Whether this message is one of those."""
        exchange = scene.context.exchange
        raw = scene.message.raw
        if scene.message.kind is Kind.RESPONSE and exchange is not None:
            raw = exchange.request.raw
        drawn = digest64(str(self.seed), self.kind, scene.rule, raw.decode("utf-8", "surrogateescape"))
        return drawn < self.rate * 2**64

    async def ask(self, scene: RuleRun) -> EffectVerdict:
        if self.hits(scene):
            await scene.effects.pause(self.time, scene.sender)
        return ALLOWED

    def apply(self, scene: RuleRun) -> Stop | None:
        message = scene.message
        is_progress = message.method == "notifications/progress"
        if self.kind == "drop_progress" and not is_progress:
            return None
        if self.kind == "truncate_page" and (message.kind is not Kind.RESPONSE or not self._list_of(scene)):
            return None
        if not self.hits(scene):
            return None
        if self.kind == "truncate_page":
            self._truncate(scene)
            return None
        if self.kind == "error":
            return Stop("fault", REASON, INTERNAL_ERROR)
        return Stop("fault", REASON, is_silent=True)

    def _list_of(self, scene: RuleRun) -> str | None:
        return _LISTS.get(method_of(scene.message, scene.context) or "")

    def _truncate(self, scene: RuleRun) -> None:
        """Leaves the first half of the page, and no way to the next one."""
        name, place = self._list_of(scene), member_place(scene.message, "result")
        if name is None or place is None:
            return
        page = msgspec.json.decode(place.text[place.start : place.end], type=dict[str, msgspec.Raw])
        if name in page:
            entries = msgspec.json.decode(page[name], type=list[msgspec.Raw])
            page[name] = msgspec.Raw(msgspec.json.encode(entries[: len(entries) // 2]))
        page.pop("nextCursor", None)
        scene.put("result", msgspec.json.encode(page))


def _read_rate(value: object, place: Place, faults: list[ConfigFault]) -> float:
    rate: Any = value
    if isinstance(value, str) and value.endswith("%"):
        try:
            rate = float(value[:-1]) / 100
        except ValueError:
            rate = None
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise Misread("must be a share such as 5% or 0.05")
    return float(rate)


READERS["rate"] = Reader(_read_rate, {"type": ["string", "number"], "description": "a share: 5% or 0.05"})
