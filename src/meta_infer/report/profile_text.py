"""What `meta-infer profile` prints: a line for each group, and what the run took."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from meta_infer.report.profile import PackageTime, PartTime, in_order
from meta_infer.report.units import count_text, seconds_text

WIDTH = 100
_GAP = 2
_KERNEL = 14
_MOST_OF_IT = 0.9
"""Share of the kernels' time from which on floors say something about the whole run."""
_COUNTER = re.compile(r"_\d+$")
_SAME = re.compile(r"\b(\w+)((?:\+\1\b)+)")


def profile_parts(found: PackageTime, sort: str, most: int, free: int) -> list[RenderableType]:
    """The table of `most` groups (0: all), and totals below it. `free` groups take no time at all."""
    ordered = in_order(found, sort)
    shown, rest = (ordered[:most], ordered[most:]) if most else (ordered, [])
    numbers = {id(one): i for i, one in enumerate(found.parts, 1)}
    lines: list[RenderableType] = [_table(shown, numbers, found.floor is not None), ""]
    if rest:
        lines.append(f"{len(rest)} more with --most 0: {seconds_text(sum(one.seconds for one in rest))}, "
                     f"{sum(one.share for one in rest):.1%} of the run")
    return [*lines, *_totals(found, free)]


def _table(shown: Sequence[PartTime], numbers: Mapping[int, int], with_floor: bool) -> Table:
    heads = ["#", "time", "share", *(("floor", "ratio", "above", "bound by") if with_floor else ()), "kernel"]
    rows = []
    for one in shown:
        floor = [] if not with_floor else [
            *((seconds_text(one.floor), f"{one.ratio:.2f}") if one.floor and one.ratio else ("", "")),
            f"{one.share * one.above / one.seconds:.1%}" if one.seconds else "", _bound(one)]
        rows.append([str(numbers[id(one)]), seconds_text(one.seconds), f"{one.share:.1%}", *floor,
                     _cut(one.part.kernel, _KERNEL)])
    widths = [max(map(len, cells)) for cells in zip(heads, *rows, strict=True)]
    room = WIDTH - sum(widths) - _GAP * len(widths)
    table = Table(box=None, pad_edge=False)
    for name in heads:
        table.add_column(name, justify="left" if name in ("bound by", "kernel") else "right", no_wrap=True)
    table.add_column("group", no_wrap=True)
    for one, cells in zip(shown, rows, strict=True):
        table.add_row(*map(Text, cells), Text(_label(one, room)))
    return table


def _bound(one: PartTime) -> str:
    """'peak', 'L2', 'F(4,3) peak'."""
    way = f"{one.algorithm.removeprefix('winograd ')} " if "winograd" in one.algorithm else ""
    return f"{way}{one.bound}"


def _label(one: PartTime, room: int) -> str:
    """'Conv+Relu layer1.0/conv1': what is computed, and for which ONNX node first."""
    part = one.part
    often = f"{len(part.commands)} x " if not part.nodes and len(part.commands) > 1 else ""
    ops = f"{often}{_short(part.ops)}"
    node = _node(part.nodes[0], part.ops, max(room // 2, room - len(ops) - 1)) if part.nodes else ""
    return f"{_cut(ops, room - len(node) - 1)} {node}".rstrip()


def _node(name: str, ops: str, room: int) -> str:
    """As much of the end of a path as fits, without the op that exporters put there: '/layer1/layer1.0/conv1/Conv' is
    layer1/layer1.0/conv1, or layer1.0/conv1, or conv1."""
    words = [word for word in name.split("/") if word] or [name]
    if len(words) > 1 and _COUNTER.sub("", words[-1]) in ops.split("+"):
        words = words[:-1]
    while len(words) > 1 and len("/".join(words)) > room:
        words = words[1:]
    return _cut("/".join(words), room)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[:room - 1]}…" if room > 1 else ""


def _short(ops: str) -> str:
    """'Mul+Add+Add+Add' as 'Mul+3 Add': long chains of elementwise ops fit."""
    return _SAME.sub(lambda m: f"{m[2].count('+') + 1} {m[1]}", ops)


def _totals(found: PackageTime, free: int) -> list[RenderableType]:
    lines = [f"run {seconds_text(found.seconds)}: kernels {seconds_text(found.kernels)} in {len(found.parts)} parts, "
             f"outside of them {seconds_text(found.outside)}; medians of {found.rounds} rounds"]
    if free:
        lines.append(f"{free} more group{'s take' if free > 1 else ' takes'} no time: views of what others write")
    if found.floor:
        some = f"floor {seconds_text(found.floor)} for {found.covered:.0%} of the kernels' time"
        if found.covered < _MOST_OF_IT:
            lines.append(f"{some}, which is {found.covered * found.kernels / found.floor:.2f} times that")
        else:
            lines.append(f"{some}, run over floor {found.seconds / found.floor:.2f}")
    if found.peak is not None:
        levels = ", ".join(f"{name} {count_text(rate)}B/s" for name, rate in found.levels.items())
        lines.append(f"machine just now: {count_text(found.peak)}FLOP/s; {levels}")
    return [Text(line) for line in lines]


def profile_json(found: PackageTime, sort: str, free: int) -> dict[str, Any]:
    """The same as data: seconds, operations, bytes; in the order of `sort`."""
    numbers = {id(one): i for i, one in enumerate(found.parts, 1)}
    groups = [{
        "number": numbers[id(one)], "ops": one.part.ops, "nodes": list(one.part.nodes), "kernel": one.part.kernel,
        "variant": one.part.row.get("variant", ""), "knobs": dict(one.part.row.get("knobs", {})),
        "commands": list(one.part.commands), "seconds": one.seconds, "spread": one.spread, "share": one.share,
        "flops": one.flops, "bytes": one.bytes, "floor_seconds": one.floor, "ratio": one.ratio,
        "seconds_above_floor": one.above, "algorithm": one.algorithm, "bound": one.bound, "in_loop": one.part.repeats,
    } for one in in_order(found, sort)]
    return {"run_seconds": found.seconds, "kernel_seconds": found.kernels, "outside_seconds": found.outside,
            "floor_seconds": found.floor, "share_with_floor": found.covered, "rounds": found.rounds,
            "peak_flops_per_second": found.peak, "bytes_per_second": dict(found.levels), "views": free,
            "groups": groups}
