"""Reading the tensors inside a run: which buffer holds which ONNX tensor, and back to plain order."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meta_infer.support.dtypes import dtype_named


@dataclass(frozen=True)
class LayerRequest:
    """Copy buffer number `buffer` after command number `command`: it then holds the ONNX tensor `origin`."""

    origin: str
    command: int
    buffer: int
    dtype: str
    shape: tuple[int | str, ...]
    block: int
    axis: int


def layer_requests(buffers: Sequence[Mapping[str, Any]]) -> list[LayerRequest]:
    """A request for each command after which some buffer holds an ONNX tensor. `buffers` are those of debug.json.

    There are several per tensor: both branches of an If write its result, and a tensor may be held in two layouts.
    """
    return [LayerRequest(row["origin"], writer, index, row["dtype"], tuple(row["shape"]), row["block"], row["axis"])
            for index, row in enumerate(buffers) if row["origin"] is not None for writer in row["writers"]]


def layer_results(requests: Sequence[LayerRequest], memory: Sequence[np.ndarray | None],
                  symbols: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Arrays by ONNX name, in execution order, from the bytes copied; None in `memory` for what never ran.

    The first buffer that was written counts, and of its writers the last. A tensor of a loop whose symbols took other
    values after it was seen, so that its shape then is not known, is left out.
    """
    ran: dict[str, tuple[LayerRequest, np.ndarray]] = {}
    for request, raw in zip(requests, memory, strict=True):
        if raw is not None and (request.origin not in ran or ran[request.origin][0].buffer == request.buffer):
            ran[request.origin] = request, raw
    found = {}
    for origin, (request, raw) in sorted(ran.items(), key=lambda item: item[1][0].command):
        shape = tuple(evaluate_dim(d, symbols) for d in request.shape)
        flat = raw.view(dtype_named(request.dtype).numpy)
        if flat.size >= math.prod(shape) or all(isinstance(d, int) for d in request.shape):
            found[origin] = _plain(flat, shape, request)
    return found


def _plain(flat: np.ndarray, shape: tuple[int, ...], request: LayerRequest) -> np.ndarray:
    """Dense row-major order; [.., ceil(C/b), .., b] with C on `axis` becomes [.., C, ..]."""
    if not request.block:
        # A buffer that a loop fills is seen before its number of rows is known: it is then longer than its shape.
        return flat[:math.prod(shape)].reshape(shape)
    axis, block = request.axis, request.block
    outer = -(-shape[axis] // block)
    blocks = flat.reshape(*shape[:axis], outer, *shape[axis + 1:], block)
    merged = np.moveaxis(blocks, -1, axis + 1).reshape(*shape[:axis], outer * block, *shape[axis + 1:])
    return np.ascontiguousarray(np.take(merged, range(shape[axis]), axis))


_OPERATIONS = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


def evaluate_dim(dim: int | str, symbols: Mapping[str, int]) -> int:
    """The value of a dim as packages write it: a number, or '+', '-', '*', '//', min and max of symbols.

    Raises ValueError for any other text, KeyError for a symbol without a value.
    """
    if isinstance(dim, int):
        return dim

    def walk(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name):
                return symbols[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -walk(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return int(_OPERATIONS[type(op)](walk(left), walk(right)))
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[a, b]):
                return (min if name == "min" else max)(walk(a), walk(b))
        raise ValueError(f"not a dimension: {dim!r}")

    return walk(ast.parse(dim, mode="eval").body)
