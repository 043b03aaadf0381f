"""What an Attention node asks of a kernel: sizes, where the elements of its operands lie, and the form of its mask."""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group
from meta_infer.ir.loop import Expr, const
from meta_infer.ir.shapes import Dim
from meta_infer.kernels.point import flat_index
from meta_infer.ops.attrs import bool_of, float_of, text_of
from meta_infer.ops.dot_product_attention import Heads, heads_of, heads_per_key
from meta_infer.support.dtypes import BOOL, FLOAT32, FLOAT64, DType


@dataclass(frozen=True)
class Problem:
    """The attributes and operands of one node; `names` are those of q, k, v and the mask ('' without one)."""

    names: tuple[str, str, str, str]
    q: Heads
    k: Heads
    v: Heads
    group: int                                            # heads of queries that share one of keys
    size: int                                             # of a query and a key
    width: int                                            # of a value
    dtype: DType
    mask_shape: Shape = ()                                # of four dims, each 1 or that of the scores
    mask_is_bool: bool = False
    scale: float = 1.0
    softcap: float = 0.0
    causal: bool = False
    offset: Dim = 0
    empty_is_zero: bool = False
    y_order: str = "bhsd"

    @property
    def mask_per_query(self) -> bool:
        """Whether queries differ in their masks; else one row of it serves all of them."""
        return bool(self.names[3]) and self.mask_shape[2] != 1


def problem_of(group: Group) -> Problem | None:
    """The problem of a group's anchor; None when no kernel here takes it: sizes of heads must be known at build."""
    anchor, attrs = group.anchor, group.anchor.attrs
    values = [group.values[name] for name in anchor.inputs[:3]]
    q, k, v = (heads_of(attrs, name, value.shape) for name, value in zip("qkv", values, strict=True))
    dtype, offset = values[0].dtype, attrs.get("offset", 0)
    if not isinstance(q.size, int) or not isinstance(v.size, int) or q.size == 0 or v.size == 0:
        return None
    if dtype not in (FLOAT32, FLOAT64):
        return None
    mask = anchor.inputs[3] if len(anchor.inputs) > 3 else ""
    shape = group.values[mask].shape if mask else ()
    return Problem(
        (anchor.inputs[0], anchor.inputs[1], anchor.inputs[2], mask), q, k, v, heads_per_key(q.heads, k.heads), q.size,
        v.size, dtype, (1,) * (4 - len(shape)) + shape if mask else (), bool(mask) and group.values[mask].dtype == BOOL,
        float_of(attrs, "scale", 1.0), float_of(attrs, "softcap", 0.0), bool_of(attrs, "causal", False),
        offset,                                            # type: ignore[arg-type]
        text_of(attrs, "empty", "nan") == "zero", text_of(attrs, "y_order", "bhsd"))


@dataclass(frozen=True)
class Strides:
    """Elements between neighbours along each axis of an operand."""

    batch: Expr
    head: Expr
    step: Expr
    size: Expr


def strides_of(b: Builder, heads: Heads) -> Strides:
    sizes = {"b": heads.batch, "h": heads.held, "s": heads.steps, "d": heads.size}
    found, stride = {}, const(1)
    for axis in reversed(heads.order):
        found[axis] = stride
        stride = b.let(stride * b.dim(sizes[axis]), "stride")
    return Strides(found["b"], found["h"], found["s"], found["d"])


def mask_index(b: Builder, problem: Problem, place: tuple[Expr, Expr], query: Expr) -> Expr:
    """Where the mask's row of one query begins; `place` is the batch entry and the head."""
    shape = problem.mask_shape
    coords = [const(0) if dim == 1 else at for dim, at in zip(shape, (*place, query, const(0)), strict=True)]
    return flat_index(b, shape, PLAIN, tuple(coords))
