"""RNN, LSTM and GRU unrolled into products and elementwise ops, for devices that lack them.

    before                                                     after, with 2 steps
    %y, %h = RNN(%x, %w, %r) {hidden_size = 4, ...}            %g = MatMul(%rows of x, %w transposed): all steps at once
                                                               %h0 = Tanh(%g of step 0)
                                                               %h1 = Tanh(Add(%g of step 1, MatMul(%h0, %r transposed)))
                                                               %y = Concat(%h0, %h1), %h = %h1, reshaped

Only sequences of a fixed length up to MAX_STEPS whose rows all have it are unrolled: code grows with every step. Where
no initial state is given, the terms that multiply zeros are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import bool_of, int_of, text_of
from meta_infer.ops.recurrent import directions_of
from meta_infer.ops.recurrent_activations import Activation, read_activations
from meta_infer.passes.pieces import Bounds, Decomposition, Pieces

MAX_STEPS = 64
_PLAIN = ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")
_WITH_ALPHA = ("LeakyRelu", "Elu")


@dataclass(frozen=True)
class _Direction:
    """One direction of a node: transposed weights [features, gates * hidden] and [hidden, gates * hidden], biases
    [gates * hidden] of both ('' = none), peepholes [3 * hidden] ('' = none), and its activations."""

    to: Pieces
    node: Node
    hidden: int
    w: str
    r: str
    w_bias: str
    r_bias: str
    peepholes: str
    functions: tuple[Activation, ...]

    def part(self, x: str, first: int, count: int = 1) -> str:
        """Gates `first` .. of a tensor whose last axis holds all gates."""
        return self.to.sliced(x, len(self.to.shape(x)) - 1, first * self.hidden, count * self.hidden)

    def activate(self, i: int, x: str) -> str:
        limit = self.node.attrs.get("clip")
        if isinstance(limit, int | float):
            x = self.to.emit("Clip", x, min=-limit, max=limit)
        return _apply(self.to, self.functions[i], x)

    def add(self, *terms: str) -> str:
        """The sum of the terms that are present."""
        present = [term for term in terms if term]
        total = present[0]
        for term in present[1:]:
            total = self.to.emit("Add", total, term)
        return total


Step = Callable[[_Direction, str, Sequence[str]], tuple[str, ...]]
"""(direction, products of one step with W [batch, gates * hidden], states, '' = zeros) -> states, the output first."""


def _rnn_step(d: _Direction, given: str, states: Sequence[str]) -> tuple[str, ...]:
    recurrent = d.to.emit("MatMul", states[0], d.r) if states[0] else ""
    return (d.activate(0, d.add(given, d.w_bias, recurrent, d.r_bias)),)


def _lstm_step(d: _Direction, given: str, states: Sequence[str]) -> tuple[str, ...]:
    h, c = states
    gates = d.add(given, d.w_bias, d.to.emit("MatMul", h, d.r) if h else "", d.r_bias)

    def seen(gate: int, cell: str, peephole: int) -> str:
        """A gate before its activation, with what it sees of the cell."""
        if not d.peepholes or not cell:
            return d.part(gates, gate)
        return d.add(d.part(gates, gate), d.to.emit("Mul", d.part(d.peepholes, peephole), cell))

    i = d.activate(0, seen(0, c, 0))
    new = d.to.emit("Mul", i, d.activate(1, d.part(gates, 3)))
    if c:
        one = d.to.scalar(1, i)
        f = d.to.emit("Sub", one, i) if bool_of(d.node.attrs, "input_forget", False) else d.activate(0, seen(2, c, 2))
        new = d.to.emit("Add", d.to.emit("Mul", f, c), new)
    o = d.activate(0, seen(1, new, 1))
    return d.to.emit("Mul", o, _apply(d.to, d.functions[2], new)), new


def _gru_step(d: _Direction, given: str, states: Sequence[str]) -> tuple[str, ...]:
    (h,), to = states, d.to
    given = d.add(given, d.w_bias)
    recurrent = to.emit("MatMul", h, d.part(d.r, 0, 2)) if h else ""
    inner = d.part(d.r_bias, 0, 2) if d.r_bias else ""
    gates = d.activate(0, d.add(d.part(given, 0, 2), recurrent, inner))
    z, reset = d.part(gates, 0), d.part(gates, 1)
    r_new, b_new = d.part(d.r, 2), d.part(d.r_bias, 2) if d.r_bias else ""
    if bool_of(d.node.attrs, "linear_before_reset", False):
        old = d.add(to.emit("MatMul", h, r_new) if h else "", b_new) if h or b_new else ""
        old = to.emit("Mul", reset, old) if old else ""
    else:
        old = d.add(to.emit("MatMul", to.emit("Mul", reset, h), r_new) if h else "", b_new) if h or b_new else ""
    new = d.activate(1, d.add(d.part(given, 2), old))
    fresh = to.emit("Mul", to.emit("Sub", to.scalar(1, z), z), new)
    return (to.emit("Add", fresh, to.emit("Mul", z, h)) if h else fresh,)


def _apply(to: Pieces, a: Activation, x: str) -> str:
    if a.name in _PLAIN:
        return to.emit(a.name, x)
    if a.name in _WITH_ALPHA:
        return to.emit(a.name, x, alpha=a.alpha)
    if a.name == "HardSigmoid":
        return to.emit(a.name, x, alpha=a.alpha, beta=a.beta)
    if a.name == "Affine":
        return to.emit("Add", to.emit("Mul", x, to.scalar(a.alpha, x)), to.scalar(a.beta, x))
    assert a.name == "ScaledTanh", a
    return to.emit("Mul", to.emit("Tanh", to.emit("Mul", x, to.scalar(a.beta, x))), to.scalar(a.alpha, x))


def _unroll(gates: int, step: Step, states: tuple[int, ...], default: tuple[str, ...]) -> Decomposition:
    """The decomposition for an op of so many gates; `states` are the positions of its initial states."""
    def decompose(node: Node, to: Pieces, bounds: Bounds) -> bool:
        steps = to.shape(node.inputs[0])[0]
        functions = read_activations(node.attrs, default, directions_of(node.attrs))
        known = all(a.name != "ThresholdedRelu" for group in functions for a in group)
        if not isinstance(steps, int) or not 1 <= steps <= MAX_STEPS or _input(node, 4) or not known:
            return False
        rows: list[list[str]] = []
        last: list[list[str]] = []
        for d, activations in enumerate(functions):
            direction = _direction(node, to, gates, d, activations)
            made, end = _run(direction, d, steps, step, [_state(node, to, i, d) for i in states])
            rows.append(made)
            last.append(end)
        _finish(node, to, rows, last)
        return True

    return decompose


def _input(node: Node, i: int) -> str:
    return node.inputs[i] if i < len(node.inputs) else ""


def _row(to: Pieces, x: str, d: int) -> str:
    """Entry `d` of the first axis, without that axis."""
    return to.reshape(to.sliced(x, 0, d, 1), to.shape(x)[1:])


def _state(node: Node, to: Pieces, i: int, d: int) -> str:
    return _row(to, _input(node, i), d) if _input(node, i) else ""


def _direction(node: Node, to: Pieces, gates: int, d: int, functions: tuple[Activation, ...]) -> _Direction:
    hidden = int_of(node.attrs, "hidden_size")
    w, r = (to.emit("Transpose", _row(to, node.inputs[i], d), perm=(1, 0)) for i in (1, 2))
    biases = ["", ""]
    if _input(node, 3):
        both = _row(to, node.inputs[3], d)
        biases = [to.sliced(both, 0, i * gates * hidden, gates * hidden) for i in (0, 1)]
    peepholes = _row(to, node.inputs[7], d) if _input(node, 7) else ""
    return _Direction(to, node, hidden, w, r, biases[0], biases[1], peepholes, functions)


def _run(d: _Direction, index: int, steps: int, step: Step, states: list[str]) -> tuple[list[str], list[str]]:
    """The output of every step, in the order of time, and the last states."""
    to, x = d.to, d.node.inputs[0]
    _, batch, features = to.shape(x)
    width = to.shape(d.w)[1]
    products = to.reshape(to.emit("MatMul", to.reshape(x, (steps * batch, features)), d.w), (steps, batch, width))
    reverse = index == 1 or text_of(d.node.attrs, "direction", "forward") == "reverse"
    made = [""] * steps
    for t in reversed(range(steps)) if reverse else range(steps):
        states = list(step(d, _row(to, products, t), states))
        made[t] = states[0]
    return made, states


def _finish(node: Node, to: Pieces, rows: list[list[str]], last: list[list[str]]) -> None:
    """Y [steps, directions, batch, hidden] from the rows by direction; the last states [directions, batch, hidden]."""
    batch, hidden = to.shape(rows[0][0])
    if node.outputs[0]:
        flat = [to.reshape(row, (1, batch, hidden)) for step in zip(*rows, strict=True) for row in step]
        joined = _joined(to, flat)
        to.reshape(joined, (len(rows[0]), len(rows), batch, hidden), out=node.outputs[0])
    for i, name in enumerate(node.outputs[1:]):
        if name:
            ends = [to.reshape(states[i], (1, batch, hidden)) for states in last]
            to.reshape(_joined(to, ends), (len(ends), batch, hidden), out=name)


def _joined(to: Pieces, parts: list[str]) -> str:
    return to.emit("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]


RECURRENT: Mapping[str, tuple[Decomposition, ...]] = {
    "RNN": (_unroll(1, _rnn_step, (5,), ("Tanh",)),),
    "LSTM": (_unroll(4, _lstm_step, (5, 6), ("Sigmoid", "Tanh", "Tanh")),),
    "GRU": (_unroll(3, _gru_step, (5,), ("Sigmoid", "Tanh")),),
}
