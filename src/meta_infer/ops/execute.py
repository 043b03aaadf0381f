"""Runs a graph node by node with each op's numpy `reference`: what a graph means.

With `dtype=FLOAT64` every floating-point tensor is promoted, which gives the reference all other results are
measured against. Slow and simple on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

import numpy as np

from meta_infer.ir.graph import Attr, Graph, Node, Shape, Value
from meta_infer.ir.shapes import Expr, Symbol, evaluate, substitute, symbols_of
from meta_infer.ir.solve import solve
from meta_infer.ops.attrs import dims_of, ints_of
from meta_infer.ops.registry import op_named
from meta_infer.ops.run_reference import run_reference
from meta_infer.support.dtypes import FLOAT32, DType, dtype_of
from meta_infer.support.errors import InputError, InternalError

Watch = Callable[[Value, np.ndarray], None]


def execute_graph(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    dtype: DType | None = None,
    watch: Watch | None = None,
) -> dict[str, np.ndarray]:
    """The outputs of `graph`, by name, for arrays given by input name.

    Named dimensions take their values from the inputs' shapes. `dtype` (FLOAT64, say) replaces every float
    type. `watch` is called with each value of the outermost graph as it is made. A value is freed after its
    last use. Raises InputError for inputs that do not fit the graph, InternalError when an op's reference and
    its inferred type disagree.
    """
    hint = f"inputs are {', '.join(graph.inputs)}"
    missing = [name for name in graph.inputs if name not in inputs]
    if missing:
        raise InputError("is missing", what=f"input {missing[0]!r}", hint=hint)
    unknown = [name for name in inputs if name not in graph.inputs]
    if unknown:
        raise InputError("does not exist", what=f"input {unknown[0]!r}", hint=hint)
    run = _Run(dtype, {}, watch)
    arrays = [run.check_input(graph.values[name], inputs[name]) for name in graph.inputs]
    for name, array in zip(graph.inputs, arrays, strict=True):
        run.check_dims(graph.values[name], array)
    return dict(zip(graph.outputs, run.graph(graph, arrays, {}), strict=True))


def execute_layers(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    dtype: DType | None = None,
    origins: Collection[str] | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """As `execute_graph`, and also the values of the outermost graph that equal an ONNX tensor, by its name.

    `origins` limits which ONNX tensors are kept; None keeps all.
    """
    layers: dict[str, np.ndarray] = {}

    def keep(value: Value, array: np.ndarray) -> None:
        if value.origin is not None and (origins is None or value.origin in origins):
            layers[value.origin] = array

    outputs = execute_graph(graph, inputs, dtype, keep)
    return outputs, layers


def fix_attrs(attrs: Mapping[str, Attr], symbols: Mapping[str, int]) -> dict[str, Attr]:
    """`attrs` with every symbolic dimension replaced by its number."""
    def fix(attr: Attr) -> Attr:
        if isinstance(attr, Expr):
            return evaluate(attr, symbols)
        return tuple(fix(a) for a in attr) if isinstance(attr, tuple) else attr

    return {name: fix(attr) for name, attr in attrs.items()}


class _Run:
    """One execution: the float type that replaces all others, and the symbols' values so far."""

    def __init__(self, dtype: DType | None, symbols: dict[str, int], watch: Watch | None) -> None:
        self.dtype, self.symbols, self.watch = dtype, symbols, watch

    def promote(self, dtype: DType) -> DType:
        """`dtype` as the run has it. Floats of 8 bits and fewer stay: rounding to them is what a model is after."""
        return self.dtype if self.dtype is not None and dtype.is_float and dtype.bits >= 16 else dtype

    def cast(self, array: np.ndarray, dtype: DType) -> np.ndarray:
        wanted = self.promote(dtype)
        return array.astype(wanted.numpy, copy=False) if wanted != dtype else array

    def check_input(self, value: Value, array: np.ndarray) -> np.ndarray:
        """The array in the type the run uses; binds the named dimensions it shows."""
        what = f"input {value.name!r}"
        given = np.asarray(array)
        if dtype_of(given) != value.dtype:
            raise InputError(f"is {given.dtype}, the model wants {value.dtype}", what=what)
        if given.ndim != value.rank:
            raise InputError(f"has rank {given.ndim}, the model wants {value}", what=what)
        for axis, (dim, size) in enumerate(zip(value.shape, given.shape, strict=True)):
            symbol = _lone_symbol(dim)
            if symbol is None:
                continue
            if not symbol.lo <= size <= symbol.hi or (size - symbol.lo) % symbol.step:
                raise InputError(f"axis {axis} is {size}, outside {symbol} in [{symbol.lo}, {symbol.hi}]"
                                 f"{f' step {symbol.step}' if symbol.step > 1 else ''}", what=what)
            self.symbols.setdefault(symbol.name, size)
        return self.cast(given, value.dtype)

    def check_dims(self, value: Value, array: np.ndarray) -> None:
        wanted = self.shape(value.shape)
        if wanted != array.shape:
            raise InputError(f"has shape {list(array.shape)}, the model wants {list(wanted)} ({value})",
                             what=f"input {value.name!r}")

    def shape(self, shape: Shape) -> tuple[int, ...]:
        return tuple(evaluate(dim, self.symbols) for dim in shape)

    def graph(self, graph: Graph, inputs: Sequence[np.ndarray], outer: Mapping[str, np.ndarray]
              ) -> list[np.ndarray]:
        """Outputs of a graph or region, in order; `outer` holds the values of the graphs around it."""
        own = dict(zip(graph.inputs, inputs, strict=True))
        own.update({name: self.cast(a, graph.values[name].dtype) for name, a in graph.constants.items()})
        last = {name: i for i, node in enumerate(graph.nodes) for name in node.reads}
        kept = set(graph.outputs)
        scope: Mapping[str, np.ndarray]
        watch, self.watch = self.watch, None           # regions are not watched
        for i, node in enumerate(graph.nodes):
            scope = {**outer, **own} if node.regions else own
            arrays = [None if not name else own[name] if name in own else outer[name] for name in node.inputs]
            kinds = [self.promote(graph.values[name].dtype) if name else FLOAT32 for name in node.outputs]
            results = self.node(node, arrays, scope, kinds)
            for name, result in zip(node.outputs, results, strict=False):
                if not name:
                    continue
                own[name] = self.check(node, graph.values[name], np.asarray(result))
                if watch is not None:
                    watch(graph.values[name], own[name])
            for name in (*node.reads, *node.outputs):
                if name in own and last.get(name, i) <= i and name not in kept:
                    del own[name]
        self.watch = watch
        return [own[name] if name in own else outer[name] for name in graph.outputs]

    def check(self, node: Node, value: Value, array: np.ndarray) -> np.ndarray:
        """The result, once it is what the graph says; binds dimensions first known at run time."""
        if array.ndim == value.rank:
            self.bind(value.shape, array.shape)
        unbound = [s for dim in value.shape for s in symbols_of(dim) if s.name not in self.symbols]
        dtype = self.promote(value.dtype)
        if dtype_of(array) != dtype or (not unbound and array.shape != self.shape(value.shape)):
            raise InternalError(f"reference gave {array.dtype}{list(array.shape)}, inferred was {value}",
                                what=node.label)
        return array

    def bind(self, shape: Shape, sizes: Sequence[int]) -> None:
        """Give the symbols of `shape` that have no value yet the one that `sizes` show."""
        for dim, size in zip(shape, sizes, strict=True):
            unknown = [symbol for symbol in symbols_of(dim) if symbol.name not in self.symbols]
            found = solve(substitute(dim, self.symbols), unknown[0], size) if len(unknown) == 1 else None
            if isinstance(found, int):
                self.symbols[unknown[0].name] = found

    def node(self, node: Node, arrays: Sequence[np.ndarray | None], scope: Mapping[str, np.ndarray],
             kinds: Sequence[DType]) -> Sequence[np.ndarray]:
        if node.op == "If":
            cond = bool(cast(np.ndarray, arrays[0]).reshape(()))
            return self.graph(node.regions[0 if cond else 1], [], scope)
        if node.op == "Loop":
            return self.loop(node, arrays, scope)
        if node.op == "BindDims":
            found = zip(dims_of(node.attrs, "sizes"), cast(np.ndarray, arrays[0]).reshape(-1), strict=True)
            self.symbols.update({symbol.name: int(size) for dim, size in found for symbol in symbols_of(dim)})
            return (cast(np.ndarray, arrays[0]),)
        attrs = fix_attrs(node.attrs, self.symbols)
        attrs = {k: self.promote(a) if isinstance(a, DType) else a for k, a in attrs.items()}
        with np.errstate(all="ignore"):
            return run_reference(op_named(node.op), attrs, arrays, kinds)

    def loop(self, node: Node, arrays: Sequence[np.ndarray | None], scope: Mapping[str, np.ndarray]
             ) -> list[np.ndarray]:
        """ONNX Loop: body (iteration, condition, carried...) -> (condition, carried..., scanned...)."""
        body = node.regions[0]
        trips, start = arrays[0], arrays[1] if len(arrays) > 1 else None
        limit = int(trips.reshape(())) if trips is not None else None
        going = bool(start.reshape(())) if start is not None else True
        carried = [cast(np.ndarray, a) for a in arrays[2:]]
        scans: list[list[np.ndarray]] = [[] for _ in body.outputs[1 + len(carried):]]
        outer_symbols, done = dict(self.symbols), 0
        step = {s.name for dim in dims_of(node.attrs, "iteration") for s in symbols_of(dim)}
        while going and (limit is None or done < limit):
            self.symbols = outer_symbols | dict.fromkeys(step, done)   # a size found in one pass may differ in the next
            for name, array in zip(body.inputs[2:], carried, strict=True):
                self.bind(body.values[name].shape, array.shape)
            results = self.graph(body, [np.array(done, np.int64), np.array(going), *carried], scope)
            going, done = bool(results[0].reshape(())), done + 1
            carried = results[1:1 + len(carried)]
            for rows, row in zip(scans, results[1 + len(carried):], strict=True):
                rows.append(row)
        self.symbols = outer_symbols
        for symbol in (s for dim in dims_of(node.attrs, "trips") for s in symbols_of(dim)):
            self.symbols.setdefault(symbol.name, done)
        shapes = cast(tuple[Shape, ...], node.attrs["shapes"])[len(carried):]
        kinds = [body.values[name].dtype if name in body.values else dtype_of(scope[name])
                 for name in body.outputs[1 + len(carried):]]
        stacked = [self.stack(rows, kind, shape) for rows, kind, shape in zip(scans, kinds, shapes, strict=True)]
        reverse = ints_of(node.attrs, "reverse")
        return [*carried, *(rows[::-1] if i in reverse else rows for i, rows in enumerate(stacked))]

    def stack(self, rows: list[np.ndarray], dtype: DType, shape: Shape) -> np.ndarray:
        if rows:
            return np.stack(rows)
        bound = {s.name: 0 for dim in shape for s in symbols_of(dim)} | self.symbols
        return np.zeros(tuple(evaluate(d, bound) for d in shape), self.promote(dtype).numpy)


def _lone_symbol(dim: object) -> Symbol | None:
    """The symbol that `dim` is, when it is just that."""
    if not isinstance(dim, Expr) or len(dim.terms) != 1:
        return None
    monomial, coef = dim.terms[0]
    return monomial[0] if coef == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol) else None
