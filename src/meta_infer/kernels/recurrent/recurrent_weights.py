"""Weights of RNN, LSTM and GRU by hidden unit, and the input's part of all steps as one matrix product.

Gates of `lanes` neighbouring hidden units lie together, in ONNX's order. What is constant is rearranged at build, the
rest by a launch that runs first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Node, Value
from meta_infer.ir.group import PLAIN, Group
from meta_infer.ir.loop import Expr, const, minimum
from meta_infer.ir.shapes import Dim, product
from meta_infer.kernels.kernel import KernelCall, Lowering, Temp
from meta_infer.kernels.matmul.gemm import GEMM
from meta_infer.kernels.matmul.gemm_tile import pack_panels
from meta_infer.kernels.matmul.matmul_batched import MATMUL_BATCHED
from meta_infer.kernels.recurrent.recurrent_problem import Problem

GATES_OF_X = "temp:gates"


def joined(*parts: Lowering) -> Lowering:
    """The launches of all parts, in order."""
    packed = {name: array for part in parts for name, array in part.packed.items()}
    return Lowering(tuple(call for part in parts for call in part.calls), packed,
                    tuple(temp for part in parts for temp in part.temps))


def by_units(matrix: np.ndarray, gates: int, lanes: int) -> np.ndarray:
    """[directions, gates * hidden, K] -> [directions, K, blocks * gates * lanes], hidden units filled up with zeros."""
    directions, rows, depth = matrix.shape
    hidden = rows // gates
    blocks = -(-hidden // lanes)
    padded = np.zeros((directions, gates, blocks * lanes, depth), matrix.dtype)
    padded[:, :, :hidden] = matrix.reshape(directions, gates, hidden, depth)
    split = padded.reshape(directions, gates, blocks, lanes, depth).transpose(0, 4, 2, 1, 3)
    return split.reshape(directions, depth, blocks * gates * lanes)


def recurrent_panels(group: Group, problem: Problem, lanes: int, first: int, gates: int,
                     stem: str) -> tuple[str, Lowering]:
    """Gates `first`.. of R as panels [directions, blocks, hidden, gates * lanes]: their name and what makes them."""
    hidden, columns = problem.hidden, gates * lanes
    if problem.r in group.constants:
        some = group.constants[problem.r][:, first * hidden:(first + gates) * hidden]
        panels = np.stack([pack_panels(side, columns) for side in by_units(some, gates, lanes)])
        return f"packed:{stem}", Lowering((), {f"packed:{stem}": panels})
    shape = (problem.directions, problem.blocks(lanes), hidden, columns)
    some_gates = range(first, first + gates)
    call = _pack(problem, lanes, problem.r, hidden, some_gates, f"temp:{stem}", hidden * columns, columns)
    return f"temp:{stem}", Lowering((call,), {}, (Temp(f"temp:{stem}", problem.dtype, shape),))


def _pack(problem: Problem, lanes: int, source: str, depth: Dim, gates: Sequence[int], target: str, block_step: Dim,
          depth_step: int) -> KernelCall:
    """Copy `gates` of [directions, all gates * hidden, depth] so that gate, then lane run fastest."""
    b = Builder("pack_gates")
    src, dst = b.input("source", problem.dtype), b.output("packed", problem.dtype)
    blocks, hidden = problem.blocks(lanes), problem.hidden
    size, step = b.dim(depth), b.dim(block_step)
    with b.chunks(problem.directions * blocks) as chunk:
        side, block = b.let(chunk // blocks, "side"), b.let(chunk % blocks, "block")
        with b.loop(0, lanes, 1, "lane") as lane:
            unit = b.let(block * lanes + lane, "unit")
            for i, gate in enumerate(gates):
                to = b.let(chunk * step + (i * lanes + lane), "to")
                with b.when(unit.lt(hidden)):
                    row = b.let(((side * problem.gates + gate) * hidden + unit) * size, "row")
                    with b.loop(0, size, 1, "k") as k:
                        b.store(dst, to + k * depth_step, b.load(src, row + k))
                with b.otherwise(), b.loop(0, size, 1, "k") as k:
                    b.store(dst, to + k * depth_step, 0)
    func, dims = b.finish()
    return KernelCall(func, (source, target), dims)


def bias_by_units(group: Group, problem: Problem, lanes: int, outer: Sequence[int], inner: Sequence[int],
                  stem: str) -> tuple[str, Lowering]:
    """[directions * blocks * gates * lanes]: per gate its input bias (by number, of `outer`) plus its recurrent bias.

    A number of -1 leaves that bias out; so does a node without any.
    """
    gates, hidden = len(outer), problem.hidden
    if problem.bias and problem.bias not in group.constants:
        shape = (problem.directions * problem.blocks(lanes) * gates * lanes,)
        call = _pack_bias(problem, lanes, outer, inner, f"temp:{stem}")
        return f"temp:{stem}", Lowering((call,), {}, (Temp(f"temp:{stem}", problem.dtype, shape),))
    total = np.zeros((problem.directions, gates, hidden), problem.dtype.numpy)
    if problem.bias:
        both = group.constants[problem.bias].reshape(problem.directions, 2, problem.gates, hidden)
        for i, (a, b) in enumerate(zip(outer, inner, strict=True)):
            total[:, i] += (both[:, 0, a] if a >= 0 else 0) + (both[:, 1, b] if b >= 0 else 0)
    packed = by_units(total.reshape(problem.directions, gates * hidden, 1), gates, lanes).reshape(-1)
    return f"packed:{stem}", Lowering((), {f"packed:{stem}": packed})


def _pack_bias(problem: Problem, lanes: int, outer: Sequence[int], inner: Sequence[int], target: str) -> KernelCall:
    b = Builder("pack_bias")
    src, dst = b.input("source", problem.dtype), b.output("packed", problem.dtype)
    blocks, hidden = problem.blocks(lanes), problem.hidden
    with b.chunks(1), b.loop(0, problem.directions * blocks, 1, "place") as place:
        side, unit = b.let(place // blocks, "side"), b.let(place % blocks * lanes, "unit")
        count = b.let(minimum(const(hidden) - unit, lanes), "count")

        def load(number: int) -> Expr:
            return b.load(src, (side * (2 * problem.gates) + number) * hidden + unit, lanes, count)

        for i, (a, c) in enumerate(zip(outer, inner, strict=True)):
            parts = [load(a)] * (a >= 0) + [load(problem.gates + c)] * (c >= 0)
            b.store(dst, (place * len(outer) + i) * lanes, parts[0] + parts[1] if len(parts) > 1 else parts[0])
    func, dims = b.finish()
    return KernelCall(func, (problem.bias, target), dims)


def input_product(group: Group, problem: Problem, lanes: int, bias: str, profile: Profile) -> Lowering:
    """`temp:gates` [steps * batch, directions * blocks * gates * lanes] = x W + bias, as a Gemm of its own.

    `bias` names [directions * blocks * gates * lanes] elements, packed or made by an earlier launch.
    """
    columns = problem.directions * problem.blocks(lanes) * problem.gates * lanes
    before, constants = Lowering(()), {}
    if problem.w in group.constants:
        name = "packed:input"
        sides = by_units(group.constants[problem.w], problem.gates, lanes)
        constants[name] = np.concatenate(list(sides), axis=1)
    else:
        name = "temp:input"
        call = _pack(problem, lanes, problem.w, problem.features, range(problem.gates), name, problem.gates * lanes,
                     columns)
        before = Lowering((call,), {}, (Temp(name, problem.dtype, (problem.features, columns)),))
    x, rows = group.values[problem.x], product((problem.steps, problem.batch))
    values = {x.name: Value(x.name, x.dtype, (rows, problem.features)),
              name: Value(name, x.dtype, (problem.features, columns)), bias: Value(bias, x.dtype, (columns,)),
              GATES_OF_X: Value(GATES_OF_X, x.dtype, (rows, columns))}
    names = (x.name, name, bias)
    node = Node("Gemm", names, (GATES_OF_X,), origins=group.anchor.origins)
    gemm = Group(node, names, (GATES_OF_X,), values, constants)
    kernel = GEMM if constants else MATMUL_BATCHED
    (variant,) = kernel.variants(gemm, profile)
    lowering = kernel.lower(gemm, variant, dict.fromkeys((*names, GATES_OF_X), PLAIN), profile)
    gates = Temp(GATES_OF_X, problem.dtype, (rows, columns))
    return joined(before, replace(lowering, temps=(*lowering.temps, gates)))
