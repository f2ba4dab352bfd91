"""A line over time as SVG."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH: Final = 640
HEIGHT: Final = 190
_LEFT: Final = 62
_RIGHT: Final = 14
_TOP: Final = 12
_BOTTOM: Final = 24
_TICKS: Final = 4


def chart(title: str, since: float, points: Sequence[tuple[float, float]]) -> str:
    """Return a figure with a line through points: times in seconds, not before `since`, and values from zero on."""
    first, last = since, max(since + 0.001, *(at for at, _ in points))
    most = max(1.0, *(value for _, value in points))
    step = nice(most / _TICKS)
    top = step * ceil(most / step)

    def x(at: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (at - first) / (last - first)

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top

    lines = []
    for number in range(round(top / step) + 1):
        value = number * step
        lines += [
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>',
            f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{short(value)}</text>',
        ]
    for number in range(_TICKS + 1):
        at = first + (last - first) * number / _TICKS
        anchor = "end" if number == _TICKS else "middle"
        lines.append(f'<text x="{x(at):.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{span(at - first)}</text>')
    path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
    base = y(0)
    lines += [
        f'<polygon class="area" points="{x(points[0][0]):.1f},{base:.1f} {path} {x(points[-1][0]):.1f},{base:.1f}"/>',
        f'<polyline class="curve" points="{path}"/>',
    ]
    if len(points) == 1:
        lines.append(f'<circle cx="{x(points[0][0]):.1f}" cy="{y(points[0][1]):.1f}" r="3"/>')
    drawn = "\n".join(lines)
    return (
        f"<figure><figcaption>{title}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">\n{drawn}\n</svg></figure>'
    )


def nice(step: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(step))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= step * 0.999), 10 * power)


def short(value: float) -> str:
    """Return a number in a few characters: `1.5 M`."""
    for bound, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= bound:
            return f"{value / bound:.3g}{unit}"
    return f"{value:.3g}"


def span(seconds: float) -> str:
    """Return a length of time in a few characters: `90 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 6000 else f"{seconds / 3600:.3g} h"
