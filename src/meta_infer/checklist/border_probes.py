"""Probes of the model's border and of sizes: inputs, outputs, layout, preprocessing, dynamic and frozen dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from meta_infer.checklist.probe import Fact, NoParams, Probe
from meta_infer.checklist.subject import NamedNode, Subject
from meta_infer.hardware.schema import Name, Section
from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.shapes import Symbol, is_unbounded, symbols_of

_CHANNELS = (1, 3, 4)
_NORMALISING = ("Sub", "Add", "Mul", "Div")
_ON_THE_WAY = ("Cast", "Transpose", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Pad", "Resize")
_SHAPED = {"Reshape": 1, "Expand": 1, "Tile": 1, "Resize": 3, "ConstantOfShape": 0}


def _ends(graph: Graph) -> Iterator[tuple[str, Value]]:
    yield from (("input", graph.values[name]) for name in graph.inputs)
    yield from (("output", graph.values[name]) for name in graph.outputs)


def _shape_text(value: Value) -> str:
    return f"[{', '.join(map(str, value.shape))}]"


def _inputs_outputs(subject: Subject, params: NoParams) -> Iterator[Fact]:
    for side, value in _ends(subject.graph) if subject.graph is not None else ():
        name = value.origin or value.name
        yield Fact({"side": side, "name": name, "dtype": str(value.dtype), "shape": _shape_text(value)}, (name,))


class NameParams(Section):
    """Of what names are looked at ('inputs', 'outputs', 'nodes'), and the pattern that the whole name should match."""

    of: tuple[Name, ...] = ("inputs", "outputs")
    pattern: Name


def _names_unlike(subject: Subject, params: NameParams) -> Iterator[Fact]:
    graph = subject.proto.graph
    names = {"inputs": [v.name for v in graph.input], "outputs": [v.name for v in graph.output],
             "nodes": [node.name for node in subject.nodes]}
    for kind in params.of:
        odd = [name for name in names.get(kind, ()) if not re.fullmatch(params.pattern, name)]
        if odd:
            yield Fact({"kind": kind, "pattern": params.pattern}, tuple(odd))


def _range(symbol: Symbol) -> str:
    high = "any size" if is_unbounded(symbol) and not symbol.usual else str(symbol.usual or symbol.hi)
    return f"{symbol.lo}..{high}" + (f", multiples of {symbol.step}" if symbol.step > 1 else "")


def _dynamic_dims(subject: Subject, params: NoParams) -> Iterator[Fact]:
    if subject.graph is None:
        return
    for name, symbol in subject.graph.input_symbols.items():
        at = [f"{value.origin or value.name} axis {axis}" for side, value in _ends(subject.graph) if side == "input"
              for axis, dim in enumerate(value.shape) if symbol in symbols_of(dim)]
        yield Fact({"name": name, "range": _range(symbol)}, tuple(at))


def _assumed_ranges(subject: Subject, params: NoParams) -> Iterator[Fact]:
    yield from (Fact({"note": note}) for note in subject.notes)


def _sizes_from_data(subject: Subject, params: NoParams) -> Iterator[Fact]:
    if subject.graph is not None:
        found = sorted(subject.graph.symbols.keys() - subject.graph.input_symbols.keys())
        if found:
            yield Fact({"number": len(found)}, tuple(found))


def _frozen_dims(subject: Subject, params: NoParams) -> Iterator[Fact]:
    """Constant shape operands whose first element is a number: the batch that the exporter saw, in all likelihood."""
    found: dict[tuple[str, int], list[str]] = {}
    for node in subject.nodes:
        at = _SHAPED.get(node.proto.op_type)
        shape = subject.arrays.get(node.proto.input[at]) if at is not None and len(node.proto.input) > at else None
        if shape is None or shape.ndim != 1 or shape.size < 2 or node.proto.input[0] in subject.arrays:
            continue
        if node.proto.op_type != "Tile" and int(shape[0]) > 0 and shape.dtype.kind == "i":
            found.setdefault((node.proto.op_type, int(shape[0])), []).append(node.name)
    for (op, size), names in found.items():
        yield Fact({"op": op, "size": size}, tuple(names))


def _nhwc_inputs(subject: Subject, params: NoParams) -> Iterator[Fact]:
    if subject.graph is None:
        return
    layouts = subject.profile.data_layouts
    for side, value in _ends(subject.graph):
        if side == "input" and _is_nhwc(value):
            name, layout = value.origin or value.name, layouts[0] if layouts else "NCHW"
            yield Fact({"name": name, "shape": _shape_text(value), "layout": layout}, (name,))


def _is_nhwc(value: Value) -> bool:
    return value.rank == 4 and value.shape[3] in _CHANNELS and value.shape[1] not in _CHANNELS


def _border_transposes(subject: Subject, params: NoParams) -> Iterator[Fact]:
    inputs = {v.name for v in subject.proto.graph.input}
    outputs = {v.name for v in subject.proto.graph.output}
    for node in subject.nodes:
        if node.proto.op_type != "Transpose":
            continue
        for side, ends in (("input", set(node.proto.input) & inputs), ("output", set(node.proto.output) & outputs)):
            for name in ends:
                yield Fact({"side": side, "name": name, "perm": str(node.attr("perm", "reversed"))}, (node.name,))


def _first_arithmetic(subject: Subject, name: str) -> list[NamedNode]:
    """The chain of Sub, Add, Mul, Div by constants that input `name` goes through first."""
    chain: list[NamedNode] = []
    for _ in range(12):
        users = subject.readers.get(name, [])
        if len(users) != 1 or not users[0].proto.output:
            break
        (node,) = users
        others = [other for other in node.proto.input if other != name]
        if node.proto.op_type in _NORMALISING and len(others) == 1 and others[0] in subject.arrays:
            chain.append(node)
        elif node.proto.op_type not in _ON_THE_WAY:
            break
        name = node.proto.output[0]
    return chain


class PreprocessingParams(Section):
    """Whether images that are normalised inside the model are reported, or those that are not."""

    normalised: bool


def _preprocessing(subject: Subject, params: PreprocessingParams) -> Iterator[Fact]:
    for side, value in _ends(subject.graph) if subject.graph is not None else ():
        channels_first = value.rank == 4 and value.shape[1] in _CHANNELS
        if side != "input" or not (channels_first or _is_nhwc(value)):
            continue
        name = value.origin or value.name
        chain = _first_arithmetic(subject, name)
        if bool(chain) == params.normalised:
            steps = ", ".join(f"{node.proto.op_type} {_constant_text(subject, node)}" for node in chain)
            guess = "0..255" if not value.dtype.is_float else "normalised, by mean and deviation or to 0..1"
            yield Fact({"name": name, "dtype": str(value.dtype), "shape": _shape_text(value), "steps": steps,
                        "range": guess}, (name,))


def _constant_text(subject: Subject, node: NamedNode) -> str:
    array = next(subject.arrays[name] for name in node.proto.input if name in subject.arrays).reshape(-1)
    shown = ", ".join(f"{x:.4g}" for x in np.asarray(array[:3], np.float64))
    return f"[{shown}{', ...' if array.size > 3 else ''}]"


BORDER_PROBES: tuple[Probe, ...] = (
    Probe("inputs_outputs", "names, types and shapes of inputs and outputs", _inputs_outputs,
          ("side", "name", "dtype", "shape")),
    Probe("names_unlike", "names that `pattern` (a regular expression) does not match", _names_unlike,
          ("kind", "pattern"), NameParams),
    Probe("dynamic_dims", "named sizes of inputs and their ranges", _dynamic_dims, ("name", "range")),
    Probe("assumed_ranges", "ranges taken because neither the model nor --shape gives one", _assumed_ranges, ("note",)),
    Probe("sizes_from_data", "sizes that are known only while running", _sizes_from_data, ("number",)),
    Probe("frozen_dims", "constant shapes whose first size looks like the exporter's batch", _frozen_dims,
          ("op", "size")),
    Probe("nhwc_inputs", "inputs that look like images with channels last", _nhwc_inputs, ("name", "shape", "layout")),
    Probe("border_transposes", "Transposes of inputs and outputs", _border_transposes, ("side", "name", "perm")),
    Probe("preprocessing", "image-like inputs, `normalised` inside the model or not", _preprocessing,
          ("name", "dtype", "shape", "steps", "range"), PreprocessingParams),
)
