"""Ops that users bring: a Python file with an `OpDef` each, and C source or a decomposition for it.

    from meta_infer.custom import c_op, same_as_input

    OPS = (c_op("SoftClip", domain="com.example", infer=same_as_input, reference=soft_clip, source=SOURCE),)

`meta-infer build --custom my_ops.py` reads it. docs/custom-ops.md walks through an example.
"""

from __future__ import annotations

import importlib.util
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, minimum
from meta_infer.ir.shapes import Dim, product
from meta_infer.ir.source import Source
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.kernels.registry import add_custom as add_kernel
from meta_infer.ops.opdef import (
    ImportContext,
    InferContext,
    OnnxImport,
    OnnxNode,
    OpDef,
    ShapeError,
    TensorType,
)
from meta_infer.ops.registry import add_custom as add_op
from meta_infer.support.errors import UsageError

__all__ = ["Attr", "CustomOp", "ImportContext", "InferContext", "Node", "OnnxImport", "OnnxNode", "OpDef", "ShapeError",
           "TensorType", "c_op", "load_custom_ops", "same_as_input"]

Attrs = Mapping[str, Attr]
Items = Callable[[Sequence[TensorType | None], Sequence[TensorType], Attrs], Dim]
_HINT = "docs/custom-ops.md shows what such a file holds"


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
    made = _Text(source, items or _elements, grain, math)
    kernel_name = f"custom_{re.sub('[^a-z0-9]', '_', name.lower())}"
    return CustomOp(op, Kernel(kernel_name, (name,), partial(_variants, kernel_name), made.lower))


def _elements(inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], attrs: Attrs) -> Dim:
    return product(outputs[0].shape)


def _variants(kernel: str, group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant(kernel, "source", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


@dataclass(frozen=True)
class _Text:
    """What `c_op` was given of the kernel."""

    source: str
    items: Items
    grain: int
    math: tuple[str, ...]

    def lower(self, group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
        node, b = group.anchor, Builder(variant.kernel)
        buffers = bind(b, group)
        types = {name: TensorType(value.dtype, value.shape) for name, value in group.values.items()}
        inputs = [types[name] if name else None for name in node.inputs]
        outputs = [types[name] for name in node.outputs if name]
        total = b.dim(self.items(inputs, outputs, node.attrs))
        values: list[tuple[str, Expr]] = []
        held: list[tuple[str, Buffer]] = []
        for stem, names in (("in", node.inputs), ("out", node.outputs)):
            for i, name in enumerate(names):
                if name:
                    held.append((f"{stem}{i}", buffers[name]))
                    values += [(f"{stem}{i}_d{axis}", b.dim(dim)) for axis, dim in enumerate(types[name].shape)]
                    values.append((f"{stem}{i}_size", b.dim(product(types[name].shape))))
        absent = [f"in{i}" for i, name in enumerate(node.inputs) if not name]
        head = [f"const void* const {name} = 0; (void){name};" for name in absent] + _attributes(node.attrs)
        with b.chunks((total + (self.grain - 1)) // self.grain) as chunk:
            begin = b.let(chunk * self.grain, "begin")
            values += [("begin", begin), ("end", b.let(minimum(begin + self.grain, total), "end"))]
            b.emit(Source("\n".join([*head, self.source]), tuple(values), tuple(held), self.math))
        func, dims = b.finish()
        return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _attributes(attrs: Attrs) -> list[str]:
    """Numeric attributes as C constants, lists of them as arrays."""
    lines = []
    for name, attr in attrs.items():
        items = attr if isinstance(attr, tuple) else (attr,)
        if not items or not all(isinstance(item, int | float) for item in items):
            continue
        kind = "double" if any(isinstance(item, float) for item in items) else "int64_t"
        many, text = ("[]", f"{{{', '.join(map(_number, items))}}}") if items is attr else ("", _number(attr))
        lines.append(f"static const {kind} attr_{name}{many} = {text}; (void)attr_{name};")
    return lines


def _number(value: Attr) -> str:
    return value.hex() if isinstance(value, float) else str(int(value))  # type: ignore[arg-type]


# --- files ----------------------------------------------------------------------------------------------------

def load_custom_ops(path: Path) -> tuple[OpDef, ...]:
    """Run the Python file and add the ops of its tuple `OPS`: CustomOp values, or OpDefs that decompose.

    Raises UsageError naming the file (and line) when it cannot be run or holds no ops.
    """
    what = f"custom ops {path}"
    found = getattr(_run(path, what), "OPS", None)
    if not isinstance(found, tuple | list) or not found:
        raise UsageError("has no tuple OPS of ops", what=what, hint=_HINT)
    ops = []
    for item in found:
        custom = CustomOp(item) if isinstance(item, OpDef) else item
        if not isinstance(custom, CustomOp):
            raise UsageError(f"OPS holds a {type(item).__name__}, expected what c_op returns, or an OpDef", what=what,
                             hint=_HINT)
        if custom.kernel is None and custom.op.decompose is None and custom.op.expr is None:
            raise UsageError(f"op {custom.op.name!r} has neither C source nor `decompose` nor `expr`", what=what,
                             hint=_HINT)
        try:
            add_op(custom.op)
        except ValueError as error:
            raise UsageError(f"{error}", what=what, hint="give it another name") from None
        if custom.kernel is not None:
            add_kernel(custom.kernel)
        ops.append(custom.op)
    return tuple(ops)


def _run(path: Path, what: str) -> ModuleType:
    if not path.is_file():
        raise UsageError("does not exist", what=what, hint="give the path of a Python file with --custom")
    spec = importlib.util.spec_from_file_location(f"meta_infer_custom_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError("is no Python file", what=what, hint=_HINT)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise UsageError(f"line {error.lineno}: {error.msg}", what=what, hint=_HINT) from error
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        at = f"line {lines[-1]}: " if lines else ""
        raise UsageError(f"{at}{type(error).__name__}: {error}", what=what, hint=_HINT) from error
    return module
