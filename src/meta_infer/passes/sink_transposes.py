"""Move transposes below elementwise ops, where they may meet another one and cancel.

    before                                                   after
    %t: float32[4, 3] = Transpose(%x) {perm = (1, 0)}        %y_sunk: float32[3, 4] = Add(%x, %c_sunk)
    %y: float32[4, 3] = Add(%t, %c)                          %y: float32[4, 3] = Transpose(%y_sunk) {perm = (1, 0)}

Every operand must be a Transpose by the same permutation that nobody else reads and the op does not broadcast, or a
constant (then transposed at build). It also lets the op join the group of what made %x.
"""

from __future__ import annotations

import numpy as np

from meta_infer.ir.graph import Graph, Node
from meta_infer.ops.attrs import ints_of
from meta_infer.ops.registry import op_named
from meta_infer.passes.rewrite import Edit, apply_rule


def sink_transposes(graph: Graph) -> Graph:
    """Exchange elementwise ops with the transposes of their operands. See the module."""
    return apply_rule(graph, _sink)


def _sink(edit: Edit, node: Node) -> bool:
    if len(node.outputs) != 1 or op_named(node.op).expr is None:
        return False
    perm = _common_perm(edit, node)
    if perm is None:
        return False
    transposes = {name: made for name in node.inputs if (made := edit.made_by(name, "Transpose"))}
    edit.remove([*transposes.values(), node])
    inputs = tuple(transposes[name].inputs[0] if name in transposes else _transposed(edit, name, perm)
                   for name in node.inputs)
    sunk = edit.emit(node.op, inputs, node.attrs, origins=[node], hint=f"{node.outputs[0]}_sunk")
    edit.emit("Transpose", (sunk,), {"perm": perm}, origins=transposes.values(), output=node.outputs[0])
    return True


def _common_perm(edit: Edit, node: Node) -> tuple[int, ...] | None:
    """The permutation that all operands which are no constants went through, none of them being broadcast."""
    shape = edit.value(node.outputs[0]).shape
    perms = set()
    for name in node.inputs:
        if name and edit.constant(name) is not None:
            continue
        made = edit.made_by(name, "Transpose")
        if made is None or edit.only_user(name) is not node or edit.value(name).shape != shape:
            return None
        perms.add(ints_of(made.attrs, "perm"))
    return perms.pop() if len(perms) == 1 else None


def _transposed(edit: Edit, name: str, perm: tuple[int, ...]) -> str:
    """Constant `name` as it broadcasts against tensors before the transpose."""
    array = edit.constant(name)
    assert array is not None
    if array.size == 1:
        return name
    full = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    inverse = [perm.index(axis) for axis in range(len(perm))]
    return edit.add_constant(np.ascontiguousarray(full.transpose(inverse)), f"{name}_sunk")
