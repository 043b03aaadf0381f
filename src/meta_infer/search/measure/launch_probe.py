"""Kernels that do nothing but begin and end: what a launch takes, what a chunk, and what waiting for other threads.

    for chunk in 0..n:  y[chunk] = x[chunk]
"""

from __future__ import annotations

from meta_infer.ir.builder import Builder
from meta_infer.kernels.kernel import KernelCall
from meta_infer.search.measure.candidate import MeasuredBuffer, Uncompiled
from meta_infer.support.dtypes import FLOAT32

CHUNKS = (1, 2, 8, 64, 512)
_LINE = 16
"""Floats of a cache line: no two threads write to one."""


def launch_probe(chunks: int) -> Uncompiled:
    """A launch of so many chunks."""
    b = Builder(f"launch_{chunks}")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(chunks) as chunk:
        b.store(y, chunk * _LINE, b.load(x, chunk * _LINE, 1))
    func, _ = b.finish()
    size = 4 * _LINE * chunks
    buffers = {"x": MeasuredBuffer(size, "float32", "input"), "y": MeasuredBuffer(size, "float32", "output")}
    return Uncompiled(f"launch of {chunks} chunks", (KernelCall(func, ("x", "y"), ()),), buffers)
