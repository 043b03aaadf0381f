"""Rows of 8-bit activations widened into scratch, with their padding around them, for one chunk of a convolution.

    x [N, IB, H, W, c]  ->  staged [IB][rows][pitch][c] in the type of the path

Once there, no tap of the kernel meets a border: rows and columns outside the image hold the zero point.
"""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.ir.builder import Builder, index
from meta_infer.ir.loop import Buffer, Expr, Operand, splat
from meta_infer.kernels.int8.dot_path import DotPath

# Bytes of a vector of activations as they are loaded.
_BYTES = 16


@dataclass(frozen=True)
class Rows:
    """Which part of an image: `rows` rows from `top` on, every `row_step`-th, `width` positions from `first` on.

    Rows may lie outside the image of `height` rows of `line` positions. `left` positions of padding come before the
    copied ones and `right` after. There is room for `most_rows` rows.
    """

    top: Expr
    rows: Operand
    most_rows: int
    row_step: int
    height: Expr
    line: Expr
    first: Operand
    width: Operand
    left: int
    right: Operand


def stage(b: Builder, path: DotPath, x: Buffer, plane: Expr, planes: int, part: Rows, zero: Expr, block: int,
          staged: Buffer) -> None:
    """Copy `part` of `planes` planes of `block` channels each, the first of which is number `plane`."""
    filler = b.let(splat(b.let(path.padding(zero, x.dtype), "padding"), block), "filler")
    width, end = index(part.width), b.let(index(part.width) + part.left, "end")
    pitch = b.let(end + part.right, "pitch")
    many = max(1, _BYTES // block) * block

    def fill(at: Expr, first: Operand, last: Operand) -> None:
        with b.loop(first, last, name="p") as p:
            b.store(staged, at + p * block, filler)

    with b.loop(0, planes, name="ib") as ib, b.loop(0, part.rows, name="r") as r:
        row = b.let(part.top + r * part.row_step, "row")
        at = b.let((ib * part.most_rows + r) * pitch * block, "at")
        with b.when(row.ge(0) & row.lt(part.height)):
            fill(at, 0, part.left)
            source = b.let((((plane + ib) * part.height + row) * part.line + part.first) * block, "source")
            target = b.let(at + part.left * block, "target")
            whole = b.let(width * block // many * many, "whole")
            with b.loop(0, whole, many, name="e") as e:
                b.store(staged, target + e, path.stored(b.load(x, source + e, many), zero))
            if many > block:
                with b.loop(whole, width * block, block, name="e") as e:
                    b.store(staged, target + e, path.stored(b.load(x, source + e, block), zero))
            fill(at, end, pitch)
        with b.otherwise():
            fill(at, 0, pitch)
