"""Random valid ONNX models, each with inputs that keep every value tame.

A model grows node by node from a pool of values. Each node is run in ONNX Runtime as soon as it is drawn, at every
chosen size of the dynamic dims: a node that ONNX refuses, or whose results are large or not finite, is not added. So
models are valid at all the sizes, and the inputs that come with them stay away from jumps (comparisons, rounding).
The ops that can be drawn stand in random_ops.py. Everything follows from the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

Arrays = list[np.ndarray]
"""One array for each point."""
OPSETS = (11, 13, 14, 17, 18, 20)
LARGEST, MOST_ELEMENTS = 60.0, 20000
OPTIONS = ort.SessionOptions()
OPTIONS.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
OPTIONS.log_severity_level = 4
OPTIONS.intra_op_num_threads = 1


@dataclass(frozen=True)
class Case:
    """A model with its inputs (by name, one array for each point) and, for reduction, all values of the main graph."""

    model: onnx.ModelProto
    inputs: Mapping[str, Arrays]
    values: Mapping[str, Arrays]

    @property
    def shapes(self) -> tuple[str, ...]:
        """The ranges of the dynamic dims, as `--shape` takes them."""
        specs = []
        for info in self.model.graph.input:
            sizes = zip(*(a.shape for a in self.inputs[info.name]), strict=True)
            dims = [str(s[0]) if d.HasField("dim_value") else f"{min(s)}..{max(s)}"
                    for s, d in zip(sizes, info.type.tensor_type.shape.dim, strict=True)]
            if any(".." in d for d in dims):
                specs.append(f"{info.name}={','.join(d if '..' in d else '?' for d in dims)}")
        return tuple(specs)

    def at(self, point: int) -> dict[str, np.ndarray]:
        return {name: arrays[point] for name, arrays in self.inputs.items()}

    @property
    def points(self) -> int:
        return max((len(a) for a in self.inputs.values()), default=1)


def declared(name: str, arrays: Sequence[np.ndarray], dims: Mapping[tuple[int, ...], str] | None = None
             ) -> onnx.ValueInfoProto:
    """The declaration of a value with these arrays; sizes that vary take their name from `dims`, else none."""
    sizes = list(zip(*(a.shape for a in arrays), strict=True))
    shape = [s[0] if len(set(s)) == 1 else (dims or {}).get(s) for s in sizes]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(arrays[0].dtype), shape)


@dataclass
class Scope:
    """A graph or region as it grows: what it can read, its nodes and its own constants."""

    rng: Random
    opset: int
    points: int
    ops: Sequence[Callable[[Scope], object]]
    outer: Scope | None = None
    values: dict[str, Arrays] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    exact: set[str] = field(default_factory=set)          # float values that are equal in every implementation
    in_loop: bool = False

    @property
    def root(self) -> Scope:
        return self if self.outer is None else self.outer.root

    @property
    def depth(self) -> int:
        return 0 if self.outer is None else 1 + self.outer.depth

    def fresh(self, stem: str) -> str:
        root = self.root
        count = root.__dict__.setdefault("count", 0)
        root.__dict__["count"] = count + 1
        return f"{stem}{count}"

    def find(self, name: str) -> Arrays:
        if name in self.values:
            return self.values[name]
        assert self.outer is not None, name
        return self.outer.find(name)

    def constant_of(self, name: str) -> np.ndarray | None:
        if name in self.constants:
            return self.constants[name]
        return self.outer.constant_of(name) if self.outer is not None else None

    def visible(self) -> list[str]:
        return [*(self.outer.visible() if self.outer is not None else []), *self.values]

    def is_exact(self, name: str) -> bool:
        return name in self.exact or (self.outer is not None and self.outer.is_exact(name))

    def pick(self, wanted: Callable[[np.ndarray], bool]) -> str | None:
        """A value all of whose arrays are `wanted`; recent ones are likelier, constants rare."""
        names = [n for n in self.visible() if all(map(wanted, self.find(n)))]
        moving = [n for n in names if self.constant_of(n) is None]
        if not names:
            return None
        if moving and self.rng.random() < 0.93:
            recent = moving[-4:] if self.rng.random() < 0.6 else moving
            return self.rng.choice(recent)
        return self.rng.choice(names)

    def const(self, array: np.ndarray, stem: str = "c") -> str:
        """A constant. A float one of the same shape may be shared; it may come from a Constant node."""
        array = np.asarray(array)
        if array.dtype.kind == "f" and self.rng.random() < 0.15:
            same = [n for n in self.visible() if (c := self.constant_of(n)) is not None and c.dtype == array.dtype
                    and c.shape == array.shape and (array.min(initial=1) < 0 or c.min(initial=1) > 0)]
            if same:
                return self.rng.choice(same)
        home = self if self.rng.random() < 0.3 else self.root
        name = self.fresh(stem)
        home.constants[name] = array
        home.values[name] = [array] * self.points
        home.exact.add(name)
        return name

    def floats(self, *shape: int, scale: float = 1.0, positive: bool = False, dtype: type = np.float32) -> str:
        drawn = np.random.default_rng(self.rng.getrandbits(32)).standard_normal(shape)
        return self.const(np.asarray((np.abs(drawn) + 0.5 if positive else drawn) * scale, dtype))

    def ints(self, *numbers: int) -> str:
        return self.const(np.array(numbers, np.int64))

    def emit(self, op: str, inputs: Sequence[str], outputs: int = 1, exact: bool = False,
             **attrs: object) -> str | None:
        """Add a node when it is valid and tame at every point; the name of its first output, or None."""
        names = [self.fresh(op[:3].lower()) for _ in range(outputs)]
        node = helper.make_node(op, list(inputs), names, **{k: v for k, v in attrs.items() if v is not None})
        found = self.run(node, attrs)
        if found is None:
            return None
        self.nodes.append(node)
        for name, arrays in zip(names, found, strict=True):
            self.values[name] = arrays
            if exact or arrays[0].dtype.kind != "f":
                self.exact.add(name)
        return names[0]

    def run(self, node: onnx.NodeProto, attrs: Mapping[str, object]) -> list[Arrays] | None:
        reads = [n for n in dict.fromkeys(node.input) if n]
        for region in (a for a in attrs.values() if isinstance(a, onnx.GraphProto)):
            reads += [n for n in region_reads(region) if n not in reads]
        fixed = [numpy_helper.from_array(c, n) for n in reads if (c := self.constant_of(n)) is not None]
        fed = [n for n in reads if self.constant_of(n) is None]
        graph = helper.make_graph([node], "one", [declared(n, self.find(n)) for n in fed],
                                  [onnx.ValueInfoProto(name=n) for n in node.output], fixed)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        try:
            session = ort.InferenceSession(made.SerializeToString(), OPTIONS, providers=["CPUExecutionProvider"])
            rows = [session.run(None, {n: self.find(n)[i] for n in fed}) for i in range(self.points)]
        except Exception:  # noqa: BLE001 - its many exception types have no common base
            return None
        columns = [[np.asarray(a) for a in column] for column in zip(*rows, strict=True)]
        return columns if all(tame(a) for column in columns for a in column) else None

    def inner(self, in_loop: bool = False) -> Scope:
        return Scope(self.rng, self.opset, self.points, self.ops, outer=self, in_loop=self.in_loop or in_loop)

    def grow(self, count: int) -> None:
        """Draw ops until `count` nodes were added, or none fits."""
        tries = 0
        start = len(self.nodes)
        while len(self.nodes) - start < count and tries < 12 * count:
            self.rng.choice(self.ops)(self)
            tries += 1

    def as_region(self, name: str, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.GraphProto:
        return helper.make_graph(self.nodes, name, [declared(n, self.values[n]) for n in inputs],
                                 [declared(n, self.values[n]) for n in outputs],
                                 [numpy_helper.from_array(c, n) for n, c in self.constants.items()])


def region_reads(region: onnx.GraphProto) -> list[str]:
    """Names that a region, or one inside it, takes from outside."""
    own = {v.name for v in region.input} | {c.name for c in region.initializer}
    found: list[str] = []
    for node in region.node:
        inner = [n for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for n in region_reads(a.g)]
        found += [n for n in (*node.input, *inner) if n and n not in own]
        own |= set(node.output)
    return list(dict.fromkeys([*found, *(v.name for v in region.output if v.name not in own)]))


def tame(array: np.ndarray) -> bool:
    if array.size > MOST_ELEMENTS:
        return False
    return array.dtype.kind == "b" or bool(np.isfinite(array).all() and np.abs(array).max(initial=0) <= LARGEST)


def random_case(seed: int, ops: Sequence[Callable[[Scope], object]], most_nodes: int = 30, opset: int = 0) -> Case:
    """The model of a seed, of about `most_nodes` nodes at most; `opset` 0 draws that as well."""
    rng = Random(seed)
    drawn = np.random.default_rng(seed)
    if rng.random() < 0.4:
        sizes = rng.choice(({"n": (1, 2, 3), "w": (5, 8, 11)}, {"n": (1, 2, 3), "w": (7, 16, 33)},
                            {"n": (2,) * 3, "w": (4, 6, 20)}, {"n": (1, 4, 7), "w": (8,) * 3}))
    else:
        sizes = {"n": (rng.randint(1, 3),), "w": (rng.choice((1, 5, 6, 9, 20, 33)),)}
    points = len(sizes["n"])
    if rng.random() < 0.6:                       # few kinds of ops meet more often than many
        ops = rng.choices(ops, k=rng.randint(4, 12))
    scope = Scope(rng, rng.choice(OPSETS) if opset == 0 else opset, points, ops)
    for _ in range(rng.randint(1, 3)):
        _input(scope, drawn, sizes)
    scope.grow(min(most_nodes, rng.choice((rng.randint(2, 8), rng.randint(6, 16), rng.randint(12, 30)))))
    if not scope.nodes:
        scope.emit("Identity", [scope.__dict__["inputs"][0]])
    return _finish(scope, {s: name for name, s in sizes.items() if len(set(s)) > 1})


def _input(scope: Scope, drawn: np.random.Generator, sizes: Mapping[str, tuple[int, ...]]) -> None:
    rng, name = scope.rng, scope.fresh("x")
    channels = rng.choice((1, 3, 4, 8, 8, 13, 16, 17, 24, 40))
    shape: list[str | int] = rng.choice((
        ["n", channels, rng.choice((1, 4, 6, 7)), "w"], ["n", channels, rng.choice((1, 4, 6, 7)), "w"],
        ["n", channels, "w", rng.choice((5, 7))], ["n", channels, "w"], ["n", channels], ["n", "w", channels],
        [rng.randint(1, 9)], [], ["n", rng.randint(1, 3), 2, channels, rng.randint(1, 4)], ["w", channels],
        [channels, rng.randint(1, 9)], ["n", rng.choice((0, 3)), 4]))
    kind = rng.choices(("f", "i", "l", "b", "d"), (80, 4, 8, 5, 3))[0]
    arrays = []
    for i in range(scope.points):
        full = [sizes[d][i] if isinstance(d, str) else d for d in shape]
        if kind == "f":
            arrays.append(np.asarray(drawn.standard_normal(full), np.float32))
        elif kind == "d":
            arrays.append(np.asarray(drawn.standard_normal(full), np.float64))
        elif kind == "b":
            arrays.append(np.asarray(drawn.integers(0, 2, full), bool))
        else:
            arrays.append(np.asarray(drawn.integers(0, 4, full), np.int32 if kind == "i" else np.int64))
    scope.values[name] = arrays
    scope.exact.add(name)
    scope.__dict__.setdefault("inputs", []).append(name)


def _finish(scope: Scope, dims: Mapping[tuple[int, ...], str]) -> Case:
    """The model: what nobody reads is an output, and some other values too."""
    rng, inputs = scope.rng, scope.__dict__["inputs"]
    read = {n for node in scope.nodes for n in node.input}
    read |= {n for node in scope.nodes for a in node.attribute if a.type == onnx.AttributeProto.GRAPH
             for n in region_reads(a.g)}
    made = [n for node in scope.nodes for n in node.output if n]
    outputs = [n for n in made if n not in read or rng.random() < 0.12]
    if rng.random() < 0.08:
        outputs.append(rng.choice(inputs))
    if not outputs:
        outputs = [inputs[0]]
    rng.shuffle(outputs)
    used = [n for n in inputs if n in read or n in outputs]
    needed = {n for n in scope.constants if n in read or n in outputs}
    graph = helper.make_graph(scope.nodes, "random", [declared(n, scope.values[n], dims) for n in used],
                              [declared(n, scope.values[n], dims) for n in outputs],
                              [numpy_helper.from_array(scope.constants[n], n) for n in scope.constants if n in needed])
    made_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", scope.opset)], ir_version=8)
    return Case(made_model, {n: scope.values[n] for n in used},
                {n: a for n, a in scope.values.items() if n not in scope.constants})
