"""Runs a package against ONNX Runtime on random inputs, at several sizes where dims are dynamic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meta_infer.backends.cpu.on_board import opened
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_specs
from meta_infer.hardware.device import Board
from meta_infer.ir.graph import Graph, names_of
from meta_infer.runtime.session import Session, load
from meta_infer.support.array_files import load_arrays
from meta_infer.support.errors import InputError, VerificationError
from meta_infer.verify.compare import (
    TOLERANCE,
    TensorComparison,
    compare_layers,
    compare_outputs,
    first_beyond,
    rounding_of,
)
from meta_infer.verify.reference import (
    Reference,
    UnfitInputs,
    choose_reference,
    float64_reference,
    layer_references,
    layers_in_numpy,
)
from meta_infer.verify.samples import random_inputs, sample_reach, sampled_sizes, shape_points, small_point


@dataclass(frozen=True)
class CompareResult:
    """Distances of outputs, and of inner tensors where layers were asked for, in execution order."""

    outputs: tuple[TensorComparison, ...]
    layers: tuple[TensorComparison, ...] = ()
    left_out: tuple[str, ...] = ()                  # recorded tensors that no buffer of the package holds
    note: str = ""                                  # why the reference is not ONNX Runtime, which sizes are left out

    @property
    def first_beyond(self) -> TensorComparison | None:
        """The first tensor beyond its tolerance, layers before outputs."""
        return first_beyond((*self.layers, *self.outputs))


def _inputs(graph: Graph, dims: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    """Random inputs. Raises UnfitInputs when the machine has no memory for them."""
    try:
        return random_inputs(graph, dims, seed)
    except MemoryError as error:
        raise UnfitInputs(f"has inputs that this machine has no memory for: {error}", what="the model",
                          hint="compare it where there is enough") from error


def make_vector(reference: Reference, graph: Graph, seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A test to bundle: random inputs of modest size, and the reference's outputs for them, both by name."""
    inputs = _inputs(graph, small_point(graph.input_symbols), seed)
    outputs = reference.run(inputs)
    return inputs, dict(zip(names_of(graph, graph.outputs), outputs, strict=True))


def verify_package(package: Path, reference: Reference, graph: Graph, *, samples: int, seed: int, tolerance: float,
                   threads: int | None = None, exact: bool = False,
                   target: str | None = None, board: Board | None = None) -> tuple[TensorComparison, ...]:
    """Outputs of a package against the reference: `samples` inputs, spread over the range of the dynamic dims, or
    the part of it that verify/samples.py finds small enough.

    Samples that the reference does not take are left out; raises UnfitInputs when that is all of them.
    With `exact`, also the distance of both from a float64 run of the imported graph (slow); without it, that run is
    asked only where the two differ beyond tolerance, and decides which of them is off. With a `board` the package
    runs there.
    """
    names, tolerance = names_of(graph, graph.outputs), max(tolerance, rounding_of(graph))
    found: list[TensorComparison] = []
    unfit: UnfitInputs | None = None
    points = shape_points(graph.input_symbols, samples, sample_reach(graph))
    with opened(package, board, threads, target) as session:
        for i in range(samples):
            dims = points[i % len(points)]
            inputs = _inputs(graph, dims, seed + i)
            try:
                theirs = reference.run(inputs)
            except UnfitInputs as error:
                unfit = error
                continue
            ours = session.run(None, inputs)
            compared = compare_outputs(names, ours, theirs, dims, None, tolerance)
            if exact or first_beyond(compared) is not None:
                compared = compare_outputs(names, ours, theirs, dims, float64_reference(graph, inputs), tolerance)
            found += compared
    if not found and unfit is not None:
        raise unfit
    return tuple(found)


def require_equal(comparisons: tuple[TensorComparison, ...], what: str) -> None:
    """Raise VerificationError about `what` when a tensor is beyond its tolerance. The package stays where it is."""
    worst = first_beyond(comparisons)
    if worst is None:
        return
    at = f" at {', '.join(f'{k}={v}' for k, v in worst.dims.items())}" if worst.dims else ""
    raise VerificationError(
        f"output {worst.name!r}{at} differs from ONNX Runtime by {worst.distance.relative:.3g} of its largest value, "
        f"tolerance {worst.tolerance:.3g}", what=what,
        hint="run 'meta-infer compare --layers' to find the first layer that differs, or --disable a pass")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file. Raises InputError naming the file when it is none."""
    arrays = load_arrays(path)
    if isinstance(arrays, np.ndarray):
        raise InputError("holds one array without a name", what=f"file {path}",
                         hint="write it with numpy.savez(path, **arrays)")
    return arrays


def compare_recorded(session: Session, recorded: Mapping[str, np.ndarray], tolerance: float) -> CompareResult:
    """A package against tensors recorded elsewhere: inputs by name, and any outputs or inner tensors by ONNX name.

    Raises InputError when an input is missing, nothing can be compared, or an array does not fit its tensor.
    """
    wanted = [i.name for i in session.get_inputs()]
    missing = [name for name in wanted if name not in recorded]
    if missing:
        raise InputError(f"input {missing[0]!r} is not recorded", what="reference file",
                         hint=f"record the arrays {', '.join(wanted)} beside the outputs")
    feeds = {name: recorded[name] for name in wanted}
    outputs = {o.name: a for o, a in zip(session.get_outputs(), session.run(None, feeds), strict=True)}
    inner = {k: v for k, v in session.layers(feeds).items() if k not in outputs and k not in feeds}
    known = {**outputs, **inner}
    shared = [name for name in outputs if name in recorded]
    if not known.keys() & recorded.keys():
        raise InputError("holds no tensor that the package has", what="reference file",
                         hint=f"record outputs ({', '.join(outputs)}) or inner tensors under their ONNX names")
    for name in known.keys() & recorded.keys():
        _require_comparable(name, recorded[name], known[name].shape)
    return CompareResult(
        compare_outputs(shared, [outputs[n] for n in shared], [recorded[n] for n in shared], {}, None, tolerance),
        compare_layers(list(inner), inner, recorded, {}, tolerance),
        tuple(name for name in recorded if name not in known and name not in feeds))


def _require_comparable(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raises InputError unless the recorded `array` holds numbers and has the shape of the package's tensor."""
    what = f"reference file, tensor {name!r}"
    if array.dtype.kind in "OSUM":
        raise InputError(f"holds {array.dtype}, expected numbers or truth values", what=what,
                         hint="record the tensor itself")
    if array.shape != shape:
        raise InputError(f"has shape {list(array.shape)}, the package's is {list(shape)}", what=what,
                         hint="record it in a run on the same inputs, in the layout of the ONNX model")


def compare_package(package: Path, model: Path, *, shape: tuple[str, ...] = (), layers: bool = False, samples: int = 3,
                    seed: int = 0, tolerance: float = TOLERANCE, threads: int | None = None,
                    target: str | None = None) -> CompareResult:
    """A package against ONNX Runtime on its model; with `layers`, every inner tensor both sides know as well."""
    graph = import_model(model, parse_shape_specs(shape))
    reference = choose_reference(model, graph)
    outputs = verify_package(package, reference, graph, samples=samples, seed=seed, tolerance=tolerance,
                             threads=threads, target=target)
    notes = "; ".join(filter(None, (reference.why, sampled_sizes(graph, samples))))
    if not layers:
        return CompareResult(outputs, note=notes)
    dims = small_point(graph.input_symbols)
    inputs = _inputs(graph, dims, seed)
    with load(package, threads=threads, target=target) as session:
        inner = session.layers(inputs)
    known = layer_references(model, inputs, list(inner)) if not reference.why else layers_in_numpy(graph, inputs)
    shared = [name for name in inner if name in known]
    return CompareResult(outputs, compare_layers(shared, inner, known, dims, tolerance), note=notes)
