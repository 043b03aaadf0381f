"""Builds whose graph some moves are made in before it is planned, as a search that takes them would have it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from meta_infer import api
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Node
from meta_infer.passes.moves import Move, apply_moves, propose_moves


@contextlib.contextmanager
def moves_made(first: str = "", seed: int = 0, **changes: object) -> Iterator[list[Move]]:
    """Moves that do not overlap, those of kind `first` before all others, else drawn; gives what was made.

    `changes` are fields of the profile that moves are proposed for; code is made for the real one.
    """
    made: list[Move] = []
    usual = api.plan_target

    def moved(config: object, graph: Graph, host: Profile, trace: object) -> object:
        rng, gone = random.Random(seed), set[str]()
        found = list(propose_moves(graph, profile=replace(host, **changes)))
        rng.shuffle(found)
        taken = []
        for move in sorted(found, key=lambda move: move.move != first):
            if gone.isdisjoint(move.removes):
                gone.update(move.removes)
                taken.append(move)
        made.extend(taken)
        return usual(config, apply_moves(graph, taken), host, trace)      # type: ignore[arg-type]

    api.plan_target = moved                                  # type: ignore[assignment]
    try:
        yield made
    finally:
        api.plan_target = usual


def onnx_of(graphs: Sequence[Graph]) -> onnx.ModelProto:
    """Graphs of `tests/passes/move_graphs.py` side by side in one model, names of their own each."""
    nodes: list[onnx.NodeProto] = []
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    constants: list[onnx.TensorProto] = []
    for number, graph in enumerate(graphs):
        prefix = f"g{number}_"
        for node in graph.nodes:
            nodes.append(_node(node, prefix, constants))
        for names, infos in ((graph.inputs, inputs), (graph.outputs, outputs)):
            infos += [helper.make_tensor_value_info(prefix + name, onnx.TensorProto.FLOAT, graph.values[name].shape)
                      for name in names]
        constants += [numpy_helper.from_array(array, prefix + name) for name, array in graph.constants.items()]
    made = helper.make_graph(nodes, "moves", inputs, outputs, constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return model


def _node(node: Node, prefix: str, constants: list[onnx.TensorProto]) -> onnx.NodeProto:
    """The ONNX node; attributes that are operands there become constants."""
    attrs = {key: int(value) if isinstance(value, bool) else value for key, value in node.attrs.items()}
    name = prefix + node.outputs[0]

    def operand(key: str, array: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(array, f"{name}_{key}"))
        return f"{name}_{key}"

    more: list[str] = []
    if node.op == "Clip":
        more = [operand(key, np.array(attrs.pop(key), np.float32)) for key in ("min", "max")]
    elif node.op == "Reshape":
        more = [operand("shape", np.array(attrs.pop("shape"), np.int64))]
    elif node.op not in ("Conv", "MaxPool", "Gemm", "Concat", "Transpose", "Gelu") and attrs:
        raise ValueError(f"no ONNX form of {node.op} is known here")
    return helper.make_node(node.op, [*(prefix + i for i in node.inputs), *more], [name], name=name, **attrs)
