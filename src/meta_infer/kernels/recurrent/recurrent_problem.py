"""What RNN, LSTM and GRU ask for, as their kernels read it off a node."""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.ir.group import Group
from meta_infer.ir.shapes import Dim
from meta_infer.ops.recurrent import directions_of
from meta_infer.ops.recurrent_activations import Activation, read_activations
from meta_infer.support.dtypes import FLOAT32, FLOAT64, DType


@dataclass(frozen=True)
class Problem:
    """Sizes, functions and the names of the group's values, '' where absent. `reverse` is the first direction's."""

    gates: int
    steps: Dim
    batch: Dim
    features: Dim
    hidden: int
    directions: int
    reverse: bool
    functions: tuple[tuple[Activation, ...], ...]         # by direction
    clip: float | None
    x: str
    w: str
    r: str
    bias: str
    lengths: str
    h0: str
    c0: str
    peepholes: str
    y: str
    y_h: str
    y_c: str
    dtype: DType

    def blocks(self, lanes: int) -> int:
        return -(-self.hidden // lanes)


def problem_of(group: Group, gates: int, default: tuple[str, ...]) -> Problem | None:
    """None when something is asked for that these loops do not do. `default` are one direction's activations."""
    anchor = group.anchor
    x_name, w, r, bias, lengths, h0, c0, peepholes = [*anchor.inputs, *("",) * (8 - len(anchor.inputs))]
    y, y_h, y_c = [name if name in group.outputs else "" for name in (*anchor.outputs, "", "")][:3]
    x, hidden = group.values[x_name], anchor.attrs["hidden_size"]
    assert isinstance(hidden, int), "hidden_size"
    if group.epilogue or group.prologue or x.dtype not in (FLOAT32, FLOAT64):
        return None
    directions, clip = directions_of(anchor.attrs), anchor.attrs.get("clip")
    return Problem(gates, x.shape[0], x.shape[1], x.shape[2], hidden, directions,
                   anchor.attrs.get("direction", "forward") == "reverse",
                   read_activations(anchor.attrs, default, directions),
                   float(clip) if isinstance(clip, (int, float)) else None, x_name, w, r, bias, lengths, h0, c0,
                   peepholes, y, y_h, y_c, x.dtype)
