"""The networks that benchmarks measure: their files, sizes, and what the compiler makes of them before any code."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.latency import KNOWN, find, points

from meta_infer import api
from meta_infer.build_config import make_config
from meta_infer.cost.algorithms import size_of
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_spec
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.group import Group, Plan
from meta_infer.kernels.computed_by import kernels_take
from meta_infer.ops.attrs import int_of, ints_of
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize
from meta_infer.support.trace import Trace


@dataclass(frozen=True)
class Network:
    """A model at one size. `shapes` are the specs it is built with, `dims` the sizes of its dynamic dims in runs."""

    name: str
    file: Path
    shapes: tuple[str, ...]
    dims: Mapping[str, int]
    imported: Graph

    @property
    def label(self) -> str:
        """The name, and sizes where these can be chosen."""
        return " ".join([self.name, *(f"{name}={size}" for name, size in self.dims.items())])

    @property
    def tune_at(self) -> tuple[str, ...]:
        """The sizes as a build takes them for what its search times."""
        return (",".join(f"{name}={size}" for name, size in self.dims.items()),) if self.dims else ()


def networks(name: str, cache: Path, given: Mapping[str, Sequence[int]] | None = None,
             shapes: Sequence[str] = ()) -> list[Network]:
    """A model, by name or file, at every combination of the sizes in `given` and of those that benchmarks usually take.

    Raises ModelMissing when there is no such model, a MetaInferError when it cannot be imported.
    """
    file, known = find(name, cache), KNOWN.get(name)
    specs = tuple(shapes) or (known.shape if known is not None else ())
    graph = import_model(file, dict(map(parse_shape_spec, specs)))
    sizes = {**(known.usual if known is not None else {}), **(given or {})}
    return [Network(Path(name).stem, file, specs, dims, graph) for dims in points(graph.input_symbols, sizes)]


def default_plan_of(network: Network, profile: Profile) -> Plan:
    """The plan a build without options makes."""
    config = make_config({"model": network.file, "shape": network.shapes}, "build")
    graph = legalize(canonicalize(network.imported, frozenset(config.disable)), profile, takes=kernels_take((profile,)))
    return api.plan_target(config, graph, profile, Trace())


def signature(group: Group) -> object:
    """Equal for groups that do the same work on tensors of the same types, whatever their names."""
    number = {name: i for i, name in enumerate(group.values)}
    nodes = tuple((node.op, tuple(number.get(name, -1) for name in (*node.inputs, *node.outputs)),
                   str(sorted(node.attrs.items(), key=lambda item: item[0]))) for node in group.nodes)
    types = tuple((value.dtype.name, tuple(map(str, value.shape)), name in group.constants)
                  for name, value in group.values.items())
    return nodes, types, tuple(number[name] for name in (*group.inputs, *group.outputs))


def short_label(group: Group, sizes: Mapping[str, int]) -> str:
    """A text for tables: shapes of the anchor's first input and output, a batch of 1 left out, and the ops after it.

    Of a convolution channels and sizes, then filters, window and stride: '64x56x56 -> 64 k3 s1 add relu'.
    """
    anchor = group.anchor
    shapes = [_shape(group.values[name], sizes) for name in (anchor.inputs[0] if anchor.inputs else "",
                                                             anchor.outputs[0]) if name]
    after = [node.op.lower() for node in group.epilogue]
    if anchor.op not in ("Conv", "ConvTranspose"):
        return " ".join([" -> ".join("x".join(map(str, shape)) or "1" for shape in shapes), *after])
    kernel, strides = (ints_of(anchor.attrs, name) for name in ("kernel_shape", "strides"))
    groups = int_of(anchor.attrs, "group", 1)
    filters = shapes[1][-1 - len(kernel)]
    window = "x".join(map(str, kernel if len({*kernel}) > 1 else kernel[:1]))
    parts = [f"{'x'.join(map(str, shapes[0]))} -> {filters}{f'/{groups}' if groups > 1 else ''}", f"k{window}",
             f"s{max(strides)}"]
    return " ".join([*parts, *after])


def _shape(value: Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
    shape = tuple(size_of(dim, sizes) for dim in value.shape)
    return shape[1:] if len(shape) > 2 and shape[0] == 1 else shape
