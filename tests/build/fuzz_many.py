"""Many random graphs in one package: compiling them together takes a fraction of the time that compiling each takes.

    python -m tests.build.fuzz_many --first 0 --count 2000 --together 50

Each batch of seeds becomes one model, its parts side by side under names of their own. The package runs at one thread
in a poisoned arena and at two in the usual one; both must be bitwise equal, and every output near ONNX Runtime's, node
by node, which `random_graphs` has kept. What differs is checked again alone, by `fuzz.check`, which asks float64 too.
A batch that does not build is halved until the culprit is alone.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from meta_infer import api
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_spec
from meta_infer.runtime.session import Session, load

from .fuzz import FAULTS, TOLERANCE, Verdict, check, error_of, load_profile, reduce, same_shape, save
from .random_graphs import OPSETS, Case, random_case
from .random_wide import EVERYTHING

MOST_NODES = 6
"""Nodes of one graph at most (a drawn block of several nodes may add some)."""


def renamed(case: Case, prefix: str) -> Case:
    """The case with `prefix` before the name of every value, node and dim."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    _rename(model.graph, prefix)

    def mapped(values: Mapping[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
        return {prefix + name: arrays for name, arrays in values.items()}

    return Case(model, mapped(case.inputs), mapped(case.values))


def _rename(graph: onnx.GraphProto, prefix: str) -> None:
    for info in (*graph.input, *graph.output, *graph.value_info):
        info.name = prefix + info.name
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = prefix + dim.dim_param
    for tensor in graph.initializer:
        tensor.name = prefix + tensor.name
    for node in graph.node:
        node.name = f"{prefix}{node.name or node.output[0]}"
        node.input[:] = [prefix + name if name else "" for name in node.input]
        node.output[:] = [prefix + name if name else "" for name in node.output]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, prefix)


def merged(cases: Sequence[Case]) -> Case:
    """One model of all cases, which have one opset and names of their own; where a case has one point it repeats."""
    graphs = [case.model.graph for case in cases]
    graph = helper.make_graph([n for g in graphs for n in g.node], "many", [i for g in graphs for i in g.input],
                              [o for g in graphs for o in g.output], [t for g in graphs for t in g.initializer])
    model = helper.make_model(graph, opset_imports=cases[0].model.opset_import, ir_version=8)
    points = max(case.points for case in cases)

    def spread(values: Mapping[str, list[np.ndarray]]) -> dict[str, list[np.ndarray]]:
        return {name: arrays * points if len(arrays) == 1 else arrays for name, arrays in values.items()}

    inputs = {name: arrays for case in cases for name, arrays in spread(case.inputs).items()}
    return Case(model, inputs, {name: arrays for case in cases for name, arrays in spread(case.values).items()})


def check_many(cases: Mapping[int, Case], folder: Path) -> Iterator[tuple[int, Verdict]]:
    """The verdict of each case (by seed), all compiled together. Their opsets are equal."""
    taken = {}
    for seed, case in cases.items():
        verdict = _importable(case, folder)
        if verdict is not None:
            yield seed, verdict
        else:
            taken[seed] = renamed(case, f"s{seed}_")
    yield from _together(taken, cases, folder)


def _importable(case: Case, folder: Path) -> Verdict | None:
    """None where the frontend takes it, else the verdict of `check`."""
    path = folder / "model.onnx"
    onnx.save(case.model, path)
    try:
        import_model(path, dict(map(parse_shape_spec, case.shapes)))
    except FAULTS:
        return check(case, folder)
    return None


def _together(parts: Mapping[int, Case], alone: Mapping[int, Case], folder: Path) -> Iterator[tuple[int, Verdict]]:
    if not parts:
        return
    seeds = list(parts)
    whole = merged(list(parts.values()))
    path = folder / "model.onnx"
    onnx.save(whole.model, path)
    try:
        package = api.build(path, verify=False, shape=whole.shapes).path
        assert package is not None
        wrong = _differing(whole, package)
    except FAULTS:
        if len(seeds) == 1:
            yield seeds[0], check(alone[seeds[0]], folder)
            return
        middle = len(seeds) // 2
        for half in (seeds[:middle], seeds[middle:]):
            yield from _together({seed: parts[seed] for seed in half}, alone, folder)
        return
    for seed, part in parts.items():
        bad = wrong & {out.name for out in part.model.graph.output}
        yield seed, check(alone[seed], folder) if bad else Verdict("ok")


def _differing(case: Case, package: Path) -> set[str]:
    """Outputs that are not bitwise stable, or not near what ONNX Runtime gave."""
    names, wrong = [out.name for out in case.model.graph.output], set[str]()
    runs = [_all_points(case, package, *how) for how in ((1, "poison"), (2, ""))]
    for point in range(case.points):
        for name, a, b in zip(names, *(run[point] for run in runs), strict=True):
            wanted = case.values[name][point]
            if a.tobytes() != b.tobytes() or not same_shape(a, wanted) or a.dtype != wanted.dtype \
                    or error_of(a, wanted) > TOLERANCE:
                wrong.add(name)
    return wrong


def _all_points(case: Case, package: Path, threads: int, arena: str) -> list[list[np.ndarray]]:
    os.environ["META_INFER_ARENA"] = arena
    try:
        session: Session
        with load(package, threads=threads) as session:
            return [session.run(None, case.at(point)) for point in range(case.points)]
    finally:
        del os.environ["META_INFER_ARENA"]


def batches(first: int, count: int, together: int) -> Iterator[range]:
    """Ranges of seeds; each range draws from one opset."""
    for start in range(first, first + count, together):
        yield range(start, min(start + together, first + count))


def draw(seeds: Iterable[int], most_nodes: int = MOST_NODES) -> dict[int, Case]:
    """The case of each seed; the opset follows from the first, so that a batch has one."""
    seeds = list(seeds)
    opset = OPSETS[seeds[0] // max(len(seeds), 1) % len(OPSETS)]
    return {seed: random_case(seed, EVERYTHING, most_nodes, opset) for seed in seeds}


def run(first: int, count: int, together: int, minutes: float, keep: Path | None,
        most_nodes: int = MOST_NODES) -> collections.Counter[str]:
    """Check the seeds, printing what fails, reduced. The counter of verdicts."""
    end, counts = time.monotonic() + minutes * 60, collections.Counter[str]()
    api.load_profile = load_profile                      # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for seeds in batches(first, count, together):
            if time.monotonic() > end:
                break
            begin = time.monotonic()
            cases = draw(seeds, most_nodes)
            drawn = time.monotonic() - begin
            for seed, verdict in check_many(cases, folder):
                counts[verdict.kind] += 1
                if verdict.kind == "ok":
                    continue
                print(f"{seed} {verdict.kind} {verdict.detail}", flush=True)
                if verdict.failed:
                    small, found = reduce(cases[seed], verdict, folder, trials=30)
                    print(f"{seed} reduced: {found.kind} {found.detail}\n"
                          f"{onnx.printer.to_text(small.model)[:2500]}", flush=True)
                    if keep is not None:
                        keep.mkdir(parents=True, exist_ok=True)
                        save(small, keep / str(seed))
            print(f"# {seeds.start}..{seeds.stop - 1}: drawn in {drawn:.1f} s, checked in "
                  f"{time.monotonic() - begin - drawn:.1f} s, {dict(counts)}", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--together", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=MOST_NODES, help="of one graph at most")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    counts = run(args.first, args.count, args.together, args.minutes, args.keep, args.nodes)
    print(dict(counts))
    return int(any(counts[kind] for kind in counts if kind not in ("ok", "refused", "doubtful")))


if __name__ == "__main__":
    sys.exit(main())
