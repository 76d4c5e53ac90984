"""The condition on the time of day: outside of some hours, on some days, somewhere in the world."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated

from msgspec import Struct

from penstock.policy.binder import READERS, Misread, Reader, shown
from penstock.policy.faults import Fault, Place, did_you_mean
from penstock.policy.rules.exchange import Context
from penstock.wire.mcp.message import Message

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-4]):([0-5][0-9])")
_DAY_MINUTES = 24 * 60

Clock = Annotated[int, "clock"]


class Zone(Struct, frozen=True):
    """A place on the map, as far as its clocks go."""

    name: str
    zone: tzinfo | None  # None: this machine's own

    def __str__(self) -> str:
        return self.name

    def at(self, wall: float) -> datetime:
        """What the clock there shows so many seconds after the epoch."""
        return datetime.fromtimestamp(wall, self.zone)


LOCAL = Zone("local", None)


class TimeOutside(Struct, frozen=True):
    """Holds outside of the hours from `from` to `to` on the `days` on which they begin."""

    from_: Clock = 0
    to: Clock = _DAY_MINUTES
    days: Annotated[tuple[str, ...], "days"] = DAYS
    zone: Annotated[Zone, "zone"] = LOCAL

    def __post_init__(self) -> None:
        if self.from_ == self.to or (self.from_, self.to, self.days) == (0, _DAY_MINUTES, DAYS):
            raise Misread(
                "there is no time outside of these hours, or none within them", "see from, to, days"
            )

    def words(self) -> str:
        hours = f"{_spoken(self.from_)} to {_spoken(self.to)}"
        return f"the time is not {hours} on {', '.join(self.days)} ({self.zone})"

    def holds(self, message: Message, context: Context, every: bool = False) -> bool:
        now = self.zone.at(context.wall)
        minute = now.hour * 60 + now.minute
        today, yesterday = DAYS[now.weekday()], DAYS[(now - timedelta(days=1)).weekday()]
        if self.from_ < self.to:
            return not (today in self.days and self.from_ <= minute < self.to)
        # Over midnight: the hours after it belong to the day on which they began.
        is_late = minute >= self.from_ and today in self.days
        is_early = minute < self.to and yesterday in self.days
        return not (is_late or is_early)


def _spoken(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _read_clock(value: object, place: Place, faults: list[Fault]) -> int:
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    minute = int(found[1]) * 60 + int(found[2]) if found else _DAY_MINUTES + 1
    if minute > _DAY_MINUTES:
        raise Misread("must be a time of day", 'write it in quotes, like "08:30" or "24:00"')
    return minute


def _read_days(value: object, place: Place, faults: list[Fault]) -> tuple[str, ...]:
    words = value.replace("-", " - ").split() if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words:
        raise Misread(f"must be days such as [mon, tue] or mon-fri, not {shown(value)}")
    if len(words) == 3 and words[1] == "-":
        first, last = _day(words[0]), _day(words[2])
        count = (last - first) % 7 + 1
        return tuple(DAYS[(first + step) % 7] for step in range(count))
    return tuple(DAYS[number] for number in sorted({_day(word) for word in words}))


def _day(word: object) -> int:
    short = str(word).lower()[:3]
    if short not in DAYS:
        raise Misread(f'unknown day "{word}"', did_you_mean(short, DAYS) or f"one of {', '.join(DAYS)}")
    return DAYS.index(short)


def _read_zone(value: object, place: Place, faults: list[Fault]) -> Zone:
    if value == "local":
        return LOCAL
    if value == "UTC":
        return Zone("UTC", UTC)
    import zoneinfo  # only for rules that name one

    try:
        return Zone(str(value), zoneinfo.ZoneInfo(str(value)))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        hint = did_you_mean(value, sorted(zoneinfo.available_timezones()))
        raise Misread(f'unknown time zone "{value}"', hint or "such as Europe/Berlin, UTC or local") from None


_DAY_SCHEMA = {"type": "string"}
READERS["clock"] = Reader(_read_clock, {"type": "string", "pattern": "^[0-2]?[0-9]:[0-5][0-9]$"})
READERS["days"] = Reader(
    _read_days,
    {"anyOf": [_DAY_SCHEMA, {"type": "array", "items": _DAY_SCHEMA, "minItems": 1}]},
)
READERS["zone"] = Reader(_read_zone, {"type": "string", "description": "a time zone such as Europe/Berlin"})
