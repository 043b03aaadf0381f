"""The activation functions that RNN, LSTM and GRU may name, with their alpha and beta.

A core node spells them out: `activations` holds one name per function and direction, in order, and where any of them
has parameters `activation_alpha` and `activation_beta` hold a number for each (unused ones are 0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.loop import Expr, const, select
from meta_infer.ops.activation import ELU, HARD_SIGMOID, LEAKY_RELU, RELU, SIGMOID, SOFTPLUS, SOFTSIGN, TANH
from meta_infer.ops.attrs import Attrs, floats_of, texts_of
from meta_infer.ops.importing import unsupported
from meta_infer.ops.opdef import OnnxNode, OpDef


@dataclass(frozen=True)
class Activation:
    """One function, by name, with the parameters that it takes."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0

    def array(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(_KINDS[self.name].array(self, x), x.dtype)

    def expr(self, x: Expr) -> Expr:
        return _KINDS[self.name].expr(self, x)


@dataclass(frozen=True)
class _Kind:
    """How a function computes arrays and loop expressions; the defaults of the parameters it takes, None where needed.
    """

    array: Callable[[Activation, np.ndarray], np.ndarray]
    expr: Callable[[Activation, Expr], Expr]
    defaults: tuple[float | None, ...] = ()


def _of_op(op: OpDef, *defaults: float | None) -> _Kind:
    def array(a: Activation, x: np.ndarray) -> np.ndarray:
        return op.reference({"alpha": a.alpha, "beta": a.beta}, (x,))[0]

    def expr(a: Activation, x: Expr) -> Expr:
        assert op.expr is not None
        return op.expr({"alpha": a.alpha, "beta": a.beta}, (x,))

    return _Kind(array, expr, defaults)


def _scaled_tanh(a: Activation, x: Expr) -> Expr:
    assert TANH.expr is not None
    return TANH.expr({}, (x * a.beta,)) * a.alpha


_KINDS: Mapping[str, _Kind] = {
    "Relu": _of_op(RELU),
    "Tanh": _of_op(TANH),
    "Sigmoid": _of_op(SIGMOID),
    "Softsign": _of_op(SOFTSIGN),
    "Softplus": _of_op(SOFTPLUS),
    "LeakyRelu": _of_op(LEAKY_RELU, 0.01),
    "Elu": _of_op(ELU, 1.0),
    "HardSigmoid": _of_op(HARD_SIGMOID, 0.2, 0.5),
    "ThresholdedRelu": _Kind(lambda a, x: np.where(x > a.alpha, x, 0),
                             lambda a, x: select(x.gt(a.alpha), x, const(0, x.type)), (1.0,)),
    "Affine": _Kind(lambda a, x: a.alpha * x + a.beta, lambda a, x: x * a.alpha + a.beta, (1.0, 0.0)),
    "ScaledTanh": _Kind(lambda a, x: a.alpha * np.tanh(a.beta * x), _scaled_tanh, (None, None)),
}
_BY_LOWER = {name.lower(): name for name in _KINDS}


def activations_of(node: OnnxNode, default: tuple[str, ...]) -> tuple[Activation, ...]:
    """The functions of all directions, in the node's order.

    Parameters are taken from activation_alpha and activation_beta in the order of the functions that have them, as
    ONNX Runtime does; functions beyond the lists get their defaults. Raises UnsupportedError.
    """
    given = node.attrs.get("activations")
    names = tuple(str(n) for n in given) if isinstance(given, (tuple, list)) and given else default
    names = names[:len(default)]                           # RNN's default lists two, of which one direction uses one
    if len(names) != len(default) or any(n.lower() not in _BY_LOWER for n in names):
        raise unsupported(node, f"activations {', '.join(names)} are not known, or not {len(default)}",
                          f"use {len(default)} of {', '.join(sorted(_KINDS))}")
    rest = {key: list(_numbers(node, f"activation_{key}")) for key in ("alpha", "beta")}
    found = []
    for name in (_BY_LOWER[n.lower()] for n in names):
        values = []
        for key, value in zip(("alpha", "beta"), _KINDS[name].defaults, strict=False):
            number = rest[key].pop(0) if rest[key] else value
            if number is None:
                raise unsupported(node, f"activation {name} without activation_{key}", f"give activation_{key}")
            values.append(number)
        found.append(Activation(name, *values))
    return tuple(found)


def activation_attrs(found: tuple[Activation, ...]) -> dict[str, tuple[str, ...] | tuple[float, ...]]:
    """The attributes by which a core node names them."""
    attrs: dict[str, tuple[str, ...] | tuple[float, ...]] = {"activations": tuple(a.name for a in found)}
    if any(_KINDS[a.name].defaults for a in found):
        attrs |= {"activation_alpha": tuple(a.alpha for a in found), "activation_beta": tuple(a.beta for a in found)}
    return attrs


def onnx_activation_attrs(found: tuple[Activation, ...]) -> dict[str, tuple[str, ...] | tuple[float, ...]]:
    """The same as ONNX spells them: numbers only for the functions that take them."""
    attrs: dict[str, tuple[str, ...] | tuple[float, ...]] = {"activations": tuple(a.name for a in found)}
    for place, key in enumerate(("alpha", "beta")):
        numbers = tuple(getattr(a, key) for a in found if len(_KINDS[a.name].defaults) > place)
        if numbers:
            attrs[f"activation_{key}"] = numbers
    return attrs


def read_activations(attrs: Attrs, default: tuple[str, ...], directions: int) -> tuple[tuple[Activation, ...], ...]:
    """The functions of a core node, direction by direction; `default` names those of one direction."""
    names = texts_of(attrs, "activations", default * directions)
    zeros = (0.0,) * len(names)
    found = tuple(map(Activation, names, floats_of(attrs, "activation_alpha", zeros),
                      floats_of(attrs, "activation_beta", zeros)))
    each = len(default)
    return tuple(found[d * each:(d + 1) * each] for d in range(directions))


def _numbers(node: OnnxNode, name: str) -> tuple[float, ...]:
    given = node.attrs.get(name)
    return tuple(float(x) for x in given) if isinstance(given, (tuple, list)) else ()  # type: ignore[arg-type]
