"""Random: uniform numbers in [0, 1) as float64, 53 random bits each, the same in every run.

They are those of the Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), seeded with one 32-bit number, two words
to a double: numpy's `RandomState(seed).random_sample(shape)`, which the reference implementation of ONNX uses too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.shapes import product
from meta_infer.ops.attrs import Attrs, dims_of, int_of, ints_of
from meta_infer.ops.opdef import InferContext, OpDef, Sample, ShapeError, TensorType
from meta_infer.support.dtypes import FLOAT64


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    if not 0 <= int_of(ctx.node.attrs, "seed") < 1 << 32:
        raise ShapeError(f"seed {ctx.attr('seed')} is not a number of 32 bits")
    return (TensorType(FLOAT64, dims_of(ctx.node.attrs, "shape")),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    shape = ints_of(attrs, "shape")
    return (np.asarray(np.random.RandomState(int_of(attrs, "seed")).random_sample(shape)),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in ((), (0,), (7,), (311,), (312,), (2, 313), (3, 1, 500)):
        for seed in (0, 1, 0xffffffff):
            yield Sample((), {"shape": shape, "seed": seed}, onnx_op="-")


RANDOM = OpDef("Random", _infer, _reference, _samples,
               flops=lambda attrs, inputs, outputs: 20 * product(outputs[0].shape))

OPS: tuple[OpDef, ...] = (RANDOM,)
