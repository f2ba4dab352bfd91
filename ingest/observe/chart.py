"""Bars and steps over time as SVG: nothing is drawn between two values that nobody has measured."""

from __future__ import annotations

from dataclasses import dataclass
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
_MOST_TIMES: Final = 7
"""Labels below the axis of time after the first."""
_BAR: Final = 2.0
"""The width of the thinnest bar."""
_STEPS: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
)  # fmt: skip
"""Seconds between two labels of the axis of time."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of a chart: time from the start of a run to its end, or to now, and values from zero on."""

    since: float
    """Seconds since 1970, as all times."""
    until: float
    whole: bool = True
    """True if values are counts."""

    def bars(self, title: str, bars: Sequence[tuple[float, float, float]]) -> str:
        """Return a figure with a bar from one time to another for each value."""
        top, step = self._top([value for _, _, value in bars])
        drawn = []
        for began, ended, value in bars:
            left, right = self._x(began), self._x(ended)
            left = max(_LEFT, min(left, right - _BAR))
            drawn.append(
                f'<rect class="bar" x="{left:.1f}" width="{max(right - left, _BAR):.1f}" '
                f'y="{_y(value / top):.1f}" height="{_y(0) - _y(value / top):.1f}"/>'
            )
        return self._figure(title, top, step, drawn)

    def steps(self, title: str, points: Sequence[tuple[float, float]]) -> str:
        """Return a figure of values, each of which holds from its time until that of the next one, or the end."""
        top, step = self._top([value for _, value in points])
        ends = [*(at for at, _ in points[1:]), self.until]
        places = [
            f"{self._x(at):.1f},{_y(value / top):.1f}"
            for (began, value), ended in zip(points, ends, strict=True)
            for at in (began, ended)
        ]
        path, base = " ".join(places), f"{_y(0):.1f}"
        first, last = f"{self._x(points[0][0]):.1f}", f"{self._x(self.until):.1f}"
        drawn = [
            f'<polygon class="area" points="{first},{base} {path} {last},{base}"/>',
            f'<polyline class="curve" points="{path}"/>',
        ]
        return self._figure(title, top, step, drawn)

    @property
    def _length(self) -> float:
        return max(1.0, self.until - self.since)

    def _x(self, at: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * min(max(at - self.since, 0.0), self._length) / self._length

    def _top(self, values: Sequence[float]) -> tuple[float, float]:
        """Return the highest value of the axis, and that between two lines."""
        most = max(1.0, *values)
        step = nice(most / _TICKS)
        step = max(1.0, step) if self.whole else step
        return step * ceil(most / step), step

    def _figure(self, title: str, top: float, step: float, drawn: Sequence[str]) -> str:
        lines = []
        for number in range(round(top / step) + 1):
            y = _y(number * step / top)
            lines += [
                f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
                f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(number * step)}</text>',
            ]
        between = between_labels(self._length)
        for number in range(floor(self._length / between) + 1):
            x = self._x(self.since + number * between)
            anchor = "end" if x > WIDTH - 2 * _RIGHT else "middle"
            lines.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{span(number * between)}</text>')
        shown = "\n".join([*lines, *drawn])
        return (
            f"<figure><figcaption>{title}</figcaption>"
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">\n{shown}\n</svg></figure>'
        )


def _y(part: float) -> float:
    """Return where a part of the highest value is, from 0 to 1."""
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * part


def between_labels(seconds: float) -> int:
    """Return the seconds between two labels of an axis of this length: whole minutes from two minutes on."""
    least = 60 if seconds >= 120 else 1
    fits = (step for step in _STEPS if step >= least and seconds / step <= _MOST_TIMES)
    return next(fits, ceil(seconds / _MOST_TIMES / 86_400) * 86_400)


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


def span(seconds: int) -> str:
    """Return whole seconds, minutes, hours or days in a few characters: `90 s`, `12 min`, `1 h 30 min`, `3 d`."""
    minutes = seconds // 60
    if seconds % 60:
        return f"{seconds} s"
    if minutes < 60:
        return f"{minutes} min" if minutes else "0"
    if minutes < 2 * 24 * 60 or minutes % (24 * 60):
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{minutes // (24 * 60)} d"
