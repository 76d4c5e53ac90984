"""Plots as SVG, written by hand: lines and bars need no library, and the same figures give the same file."""

from __future__ import annotations

import math
from typing import Any
from xml.sax.saxutils import escape

INK, FAINT, PAPER = "#1f2933", "#d5dbe1", "#ffffff"
COLOURS = ("#0b6e99", "#c2410c", "#4d7c0f", "#7e22ce", "#a16207", "#475569")
MINE, LIMIT, PEER = "#0b6e99", "#64748b", "#e0a458"


def added_plot(results: dict[str, Any]) -> str:
    """What each target adds to a call, one bar each, pair by pair, on a logarithmic scale."""
    rows: list[tuple[str, str, float | None]] = []
    for group in results["groups"].values():
        rows.append(("", group["title"], None))
        for name, cells in group["targets"].items():
            added = cells.get("call c=1", {}).get("added p50")
            if added is not None:
                colour = MINE if name == "penstock" else PEER if name in group["peers"] else LIMIT
                rows.append((colour, name, added))
    values = [max(1.0, value) for _, _, value in rows if value is not None]
    if not values:
        return _svg(600, 40, [_text(10, 25, "Nothing was measured.")])
    left, width, high = 170, 560, 18
    low, top = 1.0, 10 ** math.ceil(math.log10(max(values) * 1.2))
    bottom = 44 + high * len(rows)

    def across(value: float) -> float:
        return left + width * math.log10(max(value, low) / low) / math.log10(top / low)

    parts = [_text(10, 20, "Added to a call, median, one in flight (logarithmic)", weight="bold")]
    for power in range(round(math.log10(top)) + 1):
        x = across(10**power)
        parts += [_line(x, 34, x, bottom), _text(x, bottom + 16, _time(10**power), anchor="middle", size=11)]
    for number, (colour, name, value) in enumerate(rows):
        y = 38 + high * number
        if value is None:
            parts.append(_text(10, y + 14, name, weight="bold", size=12))
            continue
        parts.append(_text(left - 8, y + 13, name, anchor="end", size=12))
        parts.append(_bar(left, y + 2, max(2.0, across(value) - left), high - 5, colour))
        parts.append(_text(across(value) + 5, y + 13, _time(value), size=11))
    return _svg(left + width + 90, bottom + 28, parts)


def growth_plot(results: dict[str, Any]) -> str:
    """Four panels, both axes logarithmic: time for one message against what grows."""
    growth = results.get("growth", {})
    panels = [
        ("tools", "tools of the upstream"),
        ("rules", "rules"),
        ("size", "bytes of the result or the arguments"),
        ("sessions", "open sessions"),
    ]
    parts: list[str] = []
    wide, high = 490, 370
    for number, (name, label) in enumerate(panels):
        lines = growth.get(name, {})
        if lines and "failed" not in lines:
            parts += _panel((number % 2) * wide, (number // 2) * high, wide, high, label, lines)
    return _svg(2 * wide, 2 * high, parts)


def _panel(
    x: float, y: float, wide: float, high: float, label: str, lines: dict[str, dict[str, float]]
) -> list[str]:
    left, right = x + 62, x + wide - 18
    columns = 2 if len(lines) > 4 else 1
    top, bottom = y + 38 + 16 * math.ceil(len(lines) / columns), y + high - 46
    places = [int(at) for line in lines.values() for at in line if int(at)]
    has_zero = any(int(at) == 0 for line in lines.values() for at in line)
    times = [max(0.1, value) for line in lines.values() for value in line.values()]
    first, last = _decades(places)
    low, most = _decades(times)

    begin = first - 0.7 if has_zero else first  # none at all has a place of its own, left of one

    def across(at: float) -> float:
        return left + (right - left) * ((math.log10(at) if at else begin) - begin) / (last - begin)

    def up(value: float) -> float:
        return bottom - (bottom - top) * (math.log10(max(value, 0.1)) - low) / (most - low)

    parts = [_text(left, y + 20, f"One message against {label}", weight="bold", size=13)]
    for count in [0] * has_zero + [10**power for power in range(first, last + 1)]:
        at = across(count)
        parts += [_line(at, top, at, bottom), _text(at, bottom + 16, f"{count:,}", anchor="middle", size=11)]
    for power in range(low, most + 1):
        at = up(10**power)
        parts += [
            _line(left, at, right, at),
            _text(left - 6, at + 4, _time(10**power), anchor="end", size=11),
        ]
    kinds = list(dict.fromkeys(_kind(name) for name in lines))
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[kinds.index(_kind(name)) % len(COLOURS)]
        dashes = ' stroke-dasharray="5 3"' if "direct" in name else ""
        dots = [(across(int(at)), up(value)) for at, value in line.items()]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in dots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in dots]
        key_x = left + (number % columns) * (right - left) / columns
        key_y = y + 38 + 16 * (number // columns)
        parts.append(
            f'<line x1="{key_x:.1f}" y1="{key_y:.1f}" x2="{key_x + 22:.1f}" y2="{key_y:.1f}" '
            f'stroke="{colour}" stroke-width="2"{dashes}/>'
        )
        parts.append(_text(key_x + 28, key_y + 4, name, size=11))
    return parts


def _kind(name: str) -> str:
    """What a line is about, whoever was asked: lines that are to be compared get one colour."""
    return name.replace("direct", "").replace("penstock", "")


def _decades(values: list[int] | list[float]) -> tuple[int, int]:
    """The powers of ten around all values, one apart at the least."""
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return first, max(last, first + 1)


def _time(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:g} s" if us % 1e5 == 0 else f"{us / 1e6:.1f} s"
    if us >= 1000:
        return f"{us / 1000:g} ms" if us % 100 == 0 else f"{us / 1000:.1f} ms"
    return f"{us:g} us" if us == int(us) or us < 1 else f"{us:.0f} us"


def _text(
    x: float, y: float, text: str, anchor: str = "start", size: int = 13, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="{INK}">{escape(text)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{FAINT}"/>'


def _bar(x: float, y: float, wide: float, high: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" fill="{colour}"/>'


def _svg(wide: float, high: float, parts: list[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
            f'width="{wide:.0f}" height="{high:.0f}" font-family="system-ui, sans-serif">',
            f'<rect width="100%" height="100%" fill="{PAPER}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )
