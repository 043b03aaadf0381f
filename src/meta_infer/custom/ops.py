"""Ops that users bring: an `OpDef` each, and C source or a decomposition for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, Group, Variant
from meta_infer.kernels.custom_text import Attrs, CText, Items, elements
from meta_infer.kernels.kernel import Kernel
from meta_infer.ops.opdef import InferContext, OnnxImport, OpDef, TensorType


@dataclass(frozen=True)
class CustomOp:
    """An op and, unless it is decomposed, the kernel that computes it."""

    op: OpDef
    kernel: Kernel | None = None


def same_as_input(ctx: InferContext) -> tuple[TensorType, ...]:
    """One output of the first input's dtype and shape."""
    found = ctx.input(0)
    return (TensorType(found.dtype, found.shape),)


def c_op(name: str, *, domain: str, infer: Callable[[InferContext], tuple[TensorType, ...]],
         reference: Callable[[Attrs, Sequence[np.ndarray | None]], tuple[np.ndarray, ...]], source: str,
         since: int = 1, until: int = 1 << 30, items: Items | None = None, grain: int = 4096,
         math: tuple[str, ...] = ()) -> CustomOp:
    """An op whose kernel is the C text `source`, for the ONNX op `name` of `domain`, versions since..until.

    The text computes the work items [begin, end). By default an item is one element of the first output; `items`
    gives another number (rows, say), from the types of inputs and outputs and the attributes. Items are computed in any
    order and on several threads, `grain` at a time.

    Names in the text: `in0`, `in1`, ... and `out0`, ... point to the elements (a null pointer for an absent input);
    `in0_size` is the number of elements, `in0_d0`, `in0_d1`, ... the sizes; `attr_NAME` is a numeric attribute.
    `math` lists functions of ir/loop.py's MATH that it calls for one float, as `exp_f32(x)`. There is no C library.
    """
    op = OpDef(name, infer, reference, lambda rng: (), (OnnxImport(name, since, until, domain=domain),))
    made = CText(source, items or elements, grain, math, file=f"op {name}")
    kernel_name = f"custom_{re.sub('[^a-z0-9]', '_', name.lower())}"
    return CustomOp(op, Kernel(kernel_name, (name,), partial(_variants, kernel_name), made.lower))


def _variants(kernel: str, group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant(kernel, "source", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})
