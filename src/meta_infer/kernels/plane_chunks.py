"""Chunks of kernels that work plane by plane: a plane is one image's channel block (or channel), H rows of W."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Expr, minimum
from meta_infer.ir.shapes import Dim, bounds, ceildiv, usual_upper
from meta_infer.kernels.kernel import Knob, KnobValue, Refusal

# Vector operations of a chunk, about 50 us; below this many chunks threads would stand idle.
_CHUNK_WORK = 1e5
_FEWEST_CHUNKS = 8


def cut_planes(planes: Dim, lines: Dim, line_work: float, step: int = 1) -> tuple[int, int]:
    """Planes and lines of a chunk: many whole planes where they are small, else a part of one plane's lines.

    `line_work` is the vector operations of one line; a part has a multiple of `step` lines. A dynamic number of
    planes counts as its least, of lines as its greatest, so that chunks are rather too small than too large.
    """
    fewest = max(1, bounds(planes)[0])
    height = max(1, usual_upper(lines))
    plane_work = height * line_work
    most = max(1, fewest // _FEWEST_CHUNKS)
    if plane_work < _CHUNK_WORK:
        return min(most, max(1, int(_CHUNK_WORK // max(1.0, plane_work)))), height
    parts = max(1, round(plane_work / _CHUNK_WORK), -(-_FEWEST_CHUNKS // fewest))
    return 1, -(-height // (min(parts, height) * step)) * step


def lines_knob(default: int, lines: Dim) -> Knob:
    """Lines of a chunk worth trying around those that `cut_planes` takes, of so many in a plane."""
    height = max(1, usual_upper(lines))
    return Knob("lines", tuple(sorted({max(1, default // 4), default, min(4 * default, height), height})))


def lines_refusal(knobs: Mapping[str, KnobValue], lines: Dim) -> Refusal | None:
    """Why chunks cannot have `knobs["lines"]` of so many lines, if so."""
    if 0 < int(knobs["lines"]) <= max(1, usual_upper(lines)):
        return None
    return Refusal(knobs, "shape", f"chunks of {knobs['lines']} lines of {lines}")


@contextmanager
def part_chunks(b: Builder, planes: Dim, lines: Dim, line_work: float, step: int = 1,
                rows: int = 0, planes_of_chunk: int = 0) -> Iterator[tuple[tuple[Expr, Expr], Expr, Expr]]:
    """The parallel loop: yields ((first plane, last plane + 1), first line, last line + 1) of a chunk.

    `rows` are the lines of a chunk where that has been chosen: whole planes if there are no more; `planes_of_chunk` the
    planes, where chunks have whole ones.
    """
    group, most = cut_planes(planes, lines, line_work, step)
    if rows:
        group, most = group if rows >= usual_upper(lines) else 1, rows
    rows, group = most, planes_of_chunk or group
    parts, groups = ceildiv(lines, rows), ceildiv(planes, group)
    with b.chunks(b.dim(parts * groups)) as chunk:
        parts_dim = b.dim(parts)
        first = b.let((chunk // parts_dim) * group, "first")
        line = b.let((chunk % parts_dim) * rows, "line")
        last_line = b.let(minimum(line + rows, b.dim(lines)), "last_line")
        yield (first, minimum(first + group, b.dim(planes))), line, last_line


@contextmanager
def plane_chunks(b: Builder, planes: Dim, lines: Dim, line_work: float, step: int = 1, rows: int = 0,
                 planes_of_chunk: int = 0) -> Iterator[tuple[Expr, Expr, Expr]]:
    """As `part_chunks`, but yields (plane, first line, last line + 1) inside a loop over the planes of a chunk."""
    with part_chunks(b, planes, lines, line_work, step, rows, planes_of_chunk) as (planes_of, line, last_line):
        with b.loop(*planes_of, name="plane") as plane:
            yield plane, line, last_line
