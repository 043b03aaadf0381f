"""Many iterations of loops at once: values of index registers as arrays, and for how many iterations each stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meta_infer.ir.loop import Bin, Cast, Const, Expr, Select, Un, Var

Value = Any
"""An index or a condition at all points: a number where they agree, an array of one per point, None when unknown."""

_GOLDEN = 0.6180339887498949


@dataclass
class Points:
    """Iterations that are looked at. `weights` says for how many each stands; `total` is their sum."""

    weights: np.ndarray[Any, Any]
    values: dict[str, Value] = field(default_factory=dict)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.total = float(self.weights.sum())

    @classmethod
    def one(cls, values: dict[str, Value]) -> Points:
        return cls(np.ones(1), values)

    def pick(self, where: np.ndarray[Any, Any], weights: np.ndarray[Any, Any]) -> Points:
        """The points `where` (indices or a mask) with new weights."""
        return Points(weights, {name: value[where] if isinstance(value, np.ndarray) else value
                                for name, value in self.values.items()})

    def mean(self, value: Value) -> float:
        """Weighted mean over all points."""
        return float((self.weights * value).sum() / self.total) if self.total else 0.0

    def number(self, expr: Expr) -> int:
        """An expression of dims alone."""
        found = self.value(expr)
        return 0 if found is None else int(np.max(found))

    def value(self, expr: Expr) -> Value:
        return self._value(expr, {})

    def _value(self, expr: Expr, memo: dict[int, Value]) -> Value:
        match expr:
            case Const(value=value):
                return value
            case Var(name=name):
                return self.values.get(name)
        if id(expr) not in memo:
            memo[id(expr)] = self._compute(expr, memo)
        return memo[id(expr)]

    def _compute(self, expr: Expr, memo: dict[int, Value]) -> Value:
        match expr:
            case Bin(op=op, a=a, b=b) if op in _BINARY:
                left, right = self._value(a, memo), self._value(b, memo)
                if left is None or right is None:
                    return (right if left is None else left) if op == "min" else None
                return _BINARY[op](left, right)
            case Un(op="not", a=a):
                value = self._value(a, memo)
                return None if value is None else np.logical_not(value)
            case Un(op="neg", a=a):
                value = self._value(a, memo)
                return None if value is None else -value
            case Cast(a=a, type=type) if type.dtype.is_integer and a.type.dtype.is_integer:
                return self._value(a, memo)
            case Select(cond=cond, a=a, b=b):
                parts = [self._value(e, memo) for e in (cond, a, b)]
                if any(part is None for part in parts):
                    return None
                if any(isinstance(part, np.ndarray) for part in parts):
                    return np.where(*parts)
                return parts[1] if parts[0] else parts[2]
        return None


def _divided(a: Value, b: Value, remainder: bool) -> Value:
    if not isinstance(b, np.ndarray):
        return None if b == 0 else a % b if remainder else a // b
    safe = np.where(b == 0, 1, b)
    return a % safe if remainder else a // safe


_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "//": lambda a, b: _divided(a, b, False), "%": lambda a, b: _divided(a, b, True),
    "min": lambda a, b: _least(a, b, np.minimum, min), "max": lambda a, b: _least(a, b, np.maximum, max),
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
}


def _least(a: Value, b: Value, arrays: Callable[..., Value], numbers: Callable[..., Value]) -> Value:
    return arrays(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else numbers(a, b)


def trips(start: Value, stop: Value, step: Value) -> Value:
    """Iterations of a loop at each point; None when unknown."""
    if start is None or stop is None or step is None:
        return None
    count = -((start - stop) // step)
    return np.maximum(count, 0) if isinstance(count, np.ndarray) else max(count, 0)


def expand(points: Points, name: str, span: tuple[Value, Value, Value], count: Value, cap: int,
           unknown: float = 1.0) -> tuple[Points, bool]:
    """The points inside a loop over `name` that runs `count` times at each point, and whether none was left out.

    With `cap` 0 the variable is of no interest: a point stands for all iterations. Else each iteration is a point of
    its own; when they are more than `cap`, that many, each at another place in an equal share of all. A `count` of None
    counts as `unknown` iterations, whose values are unknown too.
    """
    here = len(points.weights)
    if count is None:
        inside = points.pick(np.arange(here), points.weights * unknown)
        inside.values[name] = None
        return inside, True
    counts = np.broadcast_to(np.asarray(count, np.int64), (here,))
    if not cap:
        inside = points.pick(np.flatnonzero(counts), (points.weights * counts)[counts > 0])
        inside.values[name] = None
        return inside, True
    total = int(counts.sum())
    if total <= cap:
        outer = np.repeat(np.arange(here), counts)
        turn = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        weights = points.weights[outer]
    else:
        share = total / cap
        at = ((np.arange(cap) + np.arange(1, cap + 1) * _GOLDEN % 1.0) * share).astype(np.int64)
        ends = np.cumsum(counts)
        outer = np.searchsorted(ends, at, "right")
        turn = at - (ends - counts)[outer]
        weights = points.weights[outer]
        weights = weights * (float((points.weights * counts).sum()) / float(weights.sum()))
    inside = points.pick(outer, weights)
    start, _, step = (value[outer] if isinstance(value, np.ndarray) else value for value in span)
    inside.values[name] = start + turn * step
    return inside, total <= cap


def split(points: Points, cond: Value) -> tuple[Points, Points]:
    """The points where a condition holds, and those where it does not; half of each when that is unknown."""
    if cond is None:
        everywhere = np.arange(len(points.weights))
        return points.pick(everywhere, points.weights / 2), points.pick(everywhere, points.weights / 2)
    holds = np.broadcast_to(np.asarray(cond, bool), points.weights.shape)
    return points.pick(holds, points.weights[holds]), points.pick(~holds, points.weights[~holds])
