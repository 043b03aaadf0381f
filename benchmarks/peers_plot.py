"""Bars of what engines take on each model, relative to the first engine, as an SVG file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

COLOURS = ("#1f6feb", "#9aa4b2", "#d29922", "#8957e5", "#2da44e", "#cf222e")
_WIDTH, _LEFT, _BAR, _GAP = 960, 230, 11, 10


def plot(rows: Sequence[tuple[str, Mapping[str, float]]], engines: Sequence[str]) -> str:
    """One group of bars per row of (label, seconds by engine): time over that of the first engine.

    An engine without a time has no bar. Bars beyond three times the first engine's end in an arrow's place: they are
    cut there, with the figure beside them.
    """
    most = 3.0
    scale = (_WIDTH - _LEFT - 90) / most
    heights = [_BAR * sum(name in found for name in engines) + _GAP for _, found in rows]
    total = 40 + sum(heights) + 10
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{total}" '
             f'font-family="sans-serif" font-size="11">', f'<rect width="{_WIDTH}" height="{total}" fill="white"/>']
    for i, name in enumerate(engines):
        x = _LEFT + i * 120
        parts.append(f'<rect x="{x}" y="10" width="10" height="10" fill="{COLOURS[i % len(COLOURS)]}"/>'
                     f'<text x="{x + 15}" y="19">{escape(name)}</text>')
    top = 40
    for (label, found), height in zip(rows, heights, strict=True):
        parts.append(f'<text x="{_LEFT - 8}" y="{top + height / 2}" text-anchor="end">{escape(label)}</text>')
        parts += _bars(found, engines, top, scale, most)
        top += height
    x = _LEFT + scale
    parts.append(f'<line x1="{x}" y1="32" x2="{x}" y2="{total - 10}" stroke="#57606a" stroke-dasharray="3 3"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bars(found: Mapping[str, float], engines: Sequence[str], top: float, scale: float, most: float) -> Iterator[str]:
    base = found.get(engines[0]) or min(found.values(), default=1.0)
    for i, name in enumerate(engines):
        if name not in found:
            continue
        ratio = found[name] / base
        width = min(ratio, most) * scale
        yield (f'<rect x="{_LEFT}" y="{top}" width="{width:.1f}" height="{_BAR - 1}" '
               f'fill="{COLOURS[i % len(COLOURS)]}"/>'
               f'<text x="{_LEFT + width + 4:.1f}" y="{top + _BAR - 2}" font-size="9">'
               f'{found[name] * 1e3:.2f} ms{f" ({ratio:.1f}x)" if ratio > most else ""}</text>')
        top += _BAR
