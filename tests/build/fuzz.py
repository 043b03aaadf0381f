"""Random graphs against ONNX Runtime: checks one, reduces a failing one, and runs many in child processes.

    python -m tests.build.fuzz --first 0 --count 500 --minutes 25 --keep failures/

Every seed prints one line, and a failing one its reduced model as text; --keep also stores that as .onnx and .npz.
"""

from __future__ import annotations

import argparse
import collections
import functools
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

from meta_infer import api
from meta_infer.backends.registry import backend_for
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_spec
from meta_infer.hardware.load import load_profile as load_profile_anew
from meta_infer.kernels.computed_by import kernels_take
from meta_infer.passes.covers import propose_covers
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize
from meta_infer.runtime.session import load
from meta_infer.search.default_plan import default_plan
from meta_infer.support.errors import MetaInferError, ModelError, UnsupportedError
from meta_infer.verify.reference import float64_reference, reference_session, run_reference

from .random_graphs import OPTIONS, Case, declared, random_case, region_reads
from .random_wide import EVERYTHING

TOLERANCE = 1e-4
"""Largest |difference| / max(1, max|reference|), unless ONNX Runtime's own error in float64 terms is larger."""


load_profile = functools.cache(load_profile_anew)        # reading it takes as long as building a small model
FAULTS = (MetaInferError, AssertionError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError)
CAUTIOUS = ("cannot be proven equal", ", not 1;", "it must not change", "ONNX Runtime cannot run it")
"""What is said of a model that is right at the drawn sizes, but perhaps not at all sizes in range."""
Check = Callable[[Case, Path], "Verdict"]


@dataclass(frozen=True)
class Verdict:
    """'ok', 'refused' (valid but unsupported), or the way in which it failed, with the first fact about it."""

    kind: str
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.kind not in ("ok", "refused")


def check(case: Case, folder: Path) -> Verdict:
    """Build and run a case at all its points: threads 1 and 2, poisoned arena, against ONNX Runtime and float64."""
    path = folder / "model.onnx"
    onnx.save(case.model, path)
    try:
        package = api.build(path, verify=False, shape=case.shapes).path
        assert package is not None
        return _compare(case, path, package)
    except UnsupportedError as error:
        return Verdict("refused", str(error).replace("\n", " "))
    except FAULTS as error:
        if any(words in str(error) for words in CAUTIOUS):
            return Verdict("refused", str(error).replace("\n", " "))
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Verdict("error", f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"[:600])


def plain_session(path: Path) -> ort.InferenceSession:
    """ONNX Runtime without its own rewrites, some of which are wrong. Raises ModelError when it refuses the model."""
    try:
        return ort.InferenceSession(path, OPTIONS, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - its many exception types have no common base
        raise ModelError(f"ONNX Runtime cannot run it: {error}") from error


def check_graph(case: Case, folder: Path) -> Verdict:
    """The compiler's front alone: the legalized graph in float64 against ONNX Runtime, and a plan for it."""
    path = folder / "model.onnx"
    onnx.save(case.model, path)
    try:
        profile = load_profile("native")
        imported = import_model(path, dict(map(parse_shape_spec, case.shapes)))
        graph = legalize(canonicalize(imported), profile, takes=kernels_take((profile,)))
        default_plan(graph, profile, lambda g: propose_covers(g, root=graph), backend_for(profile).variants)
        reference = plain_session(path)
        for point in range(case.points):
            inputs = case.at(point)
            want, found = run_reference(reference, inputs), float64_reference(graph, inputs)
            for i, (a, r) in enumerate(zip(found, want, strict=True)):
                if not same_shape(a, r) or error_of(a, r) > 1e-3:
                    return Verdict("mismatch", f"point {point}, output {i}: {a.shape} for {r.shape}, "
                                               f"{error_of(a, r) if a.shape == r.shape else 0:.3g} apart")
        return Verdict("ok")
    except UnsupportedError as error:
        return Verdict("refused", str(error).replace("\n", " "))
    except FAULTS as error:
        if any(words in str(error) for words in CAUTIOUS):
            return Verdict("refused", str(error).replace("\n", " "))
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Verdict("error", f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {error}"[:600])


def _compare(case: Case, path: Path, package: Path) -> Verdict:
    graph = import_model(path, dict(map(parse_shape_spec, case.shapes)))
    reference = reference_session(path)
    for point in range(case.points):
        inputs = case.at(point)
        want = run_reference(reference, inputs)
        runs = {how: _run(package, inputs, *how) for how in ((1, ""), (2, ""), (1, "poison"), (2, "separate"))}
        found = runs[1, ""]
        for how, other in runs.items():
            if any(a.tobytes() != b.tobytes() for a, b in zip(found, other, strict=True)):
                return Verdict("unstable", f"point {point}: {how[0]} threads, arena {how[1] or 'as usual'}")
        exact: list[np.ndarray] | None = None
        for i, (a, r) in enumerate(zip(found, want, strict=True)):
            if not same_shape(a, r) or a.dtype != r.dtype:
                return Verdict("mismatch", f"point {point}, output {i}: {a.dtype}{a.shape} for {r.dtype}{r.shape}")
            if error_of(a, r) <= TOLERANCE:
                continue
            exact = exact or float64_reference(graph, inputs)
            if error_of(a, exact[i]) > max(TOLERANCE, 4 * error_of(r, exact[i])):
                return Verdict("mismatch", f"point {point}, output {i}: {error_of(a, r):.3g} from ONNX Runtime, "
                                           f"{error_of(a, exact[i]):.3g} from float64")
            if error_of(a, exact[i]) < 1e-5 and error_of(r, exact[i]) > 1e-2:
                return Verdict("doubtful", f"point {point}, output {i}: ONNX Runtime is {error_of(a, r):.3g} away")
    return Verdict("ok")


def _run(package: Path, inputs: Mapping[str, np.ndarray], threads: int, arena: str) -> list[np.ndarray]:
    os.environ["META_INFER_ARENA"] = arena
    try:
        with load(package, threads=threads) as session:
            session.run(None, inputs)
            return session.run(None, inputs)
    finally:
        del os.environ["META_INFER_ARENA"]


def same_shape(actual: np.ndarray, reference: np.ndarray) -> bool:
    """Rows of a loop that makes no pass have no size of their own: two empty tensors of one rank are alike."""
    return actual.shape == reference.shape or (actual.ndim == reference.ndim and actual.size == reference.size == 0)


def error_of(actual: np.ndarray, reference: np.ndarray) -> float:
    a, r = actual.astype(np.float64), reference.astype(np.float64)
    if a.size == 0 or np.array_equal(a, r, equal_nan=True):
        return 0.0
    if not (np.isfinite(a).all() and np.isfinite(r).all()):
        return float("inf")
    if reference.dtype.kind != "f":
        return float("inf")
    return float(np.abs(a - r).max() / max(1.0, np.abs(r).max()))


def smaller(case: Case) -> Iterator[Case]:
    """Models with one output, with one node less (what it made becomes an input), or of one point."""
    graph = case.model.graph
    if case.points > 1:
        for point in range(case.points):
            yield rebuild(case, list(graph.node), [o.name for o in graph.output], point)
    if len(graph.output) > 1:
        for out in graph.output:
            yield rebuild(case, list(graph.node), [out.name])
        for out in graph.output:
            yield rebuild(case, list(graph.node), [o.name for o in graph.output if o.name != out.name])
    size = max(1, len(graph.node) // 2)
    while True:
        for start in range(0, len(graph.node), size):
            nodes = [n for i, n in enumerate(graph.node) if not start <= i < start + size]
            outputs = [o.name for o in graph.output]
            if nodes:
                yield rebuild(case, nodes, outputs)
        for i in range(len(graph.node) - 1, 0, -1):
            if size == 1:                                 # an inner value instead of the last
                yield rebuild(case, list(graph.node)[:i], list(graph.node[i - 1].output)[:1])
        if size == 1:
            return
        size //= 2


def rebuild(case: Case, nodes: list[onnx.NodeProto], outputs: list[str], point: int | None = None) -> Case:
    """A case of these nodes only; values that nobody makes any more are inputs."""
    points = range(case.points) if point is None else [point]
    values = {name: [arrays[i] for i in points] for name, arrays in case.values.items()}
    made = {n for node in nodes for n in node.output}
    outputs = [n for n in outputs if n in made] or [n for n in nodes[-1].output if n][:1]
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if needed & set(node.output):
            kept.append(node)
            needed |= {n for n in node.input if n}
            needed |= {n for a in node.attribute if a.type == onnx.AttributeProto.GRAPH for n in region_reads(a.g)}
    kept.reverse()
    made = {n for node in kept for n in node.output}
    constants = [c for c in case.model.graph.initializer if c.name in needed]
    inputs = [n for n in values if n in needed and n not in made]
    dims: dict[tuple[int, ...], str] = {}
    for name in inputs:
        for column in zip(*(a.shape for a in values[name]), strict=True):
            dims.setdefault(column, f"d{len(dims)}")
    graph = helper.make_graph(kept, "reduced", [declared(n, values[n], dims) for n in inputs],
                              [declared(n, values[n], dims) for n in outputs], constants)
    model = helper.make_model(graph, opset_imports=case.model.opset_import, ir_version=8)
    return Case(model, {n: values[n] for n in inputs}, values)


def reduce(case: Case, verdict: Verdict, folder: Path, check: Check = check, trials: int = 60) -> tuple[Case, Verdict]:
    """The smallest case found that fails in the same way (for errors: with the same message's beginning)."""
    left = trials
    while True:
        for candidate in smaller(case):
            if left == 0:
                return case, verdict
            left -= 1
            try:
                found = check(candidate, folder)
            except Exception:  # noqa: BLE001 - a cut may make what ONNX Runtime refuses
                continue
            if found.kind == verdict.kind and found.detail[:25] == verdict.detail[:25] or (
                    found.kind == verdict.kind == "mismatch"):
                case, verdict = candidate, found
                break
        else:
            return case, verdict


def save(case: Case, path: Path) -> None:
    onnx.save(case.model, path.with_suffix(".onnx"))
    np.savez(path.with_suffix(".npz"), **{f"{i}:{n}": a for n, arrays in case.inputs.items()
                                         for i, a in enumerate(arrays)})


def one_seed(seed: int, keep: Path | None, reduce_it: bool = True, check: Check = check) -> Verdict:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        case = random_case(seed, EVERYTHING)
        verdict = check(case, folder)
        print(f"{seed} {verdict.kind} {verdict.detail}", flush=True)
        if verdict.failed and reduce_it:
            case, verdict = reduce(case, verdict, folder, check)
            text = onnx.printer.to_text(case.model)[:3000]
            print(f"{seed} reduced: {verdict.kind} {verdict.detail}\n{text}", flush=True)
        if verdict.failed and keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            save(case, keep / str(seed))
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--no-reduce", action="store_true")
    parser.add_argument("--graph-only", action="store_true", help="no C: a hundred times as many graphs")
    parser.add_argument("--in-process", action="store_true", help="a crash then ends the run")
    args = parser.parse_args()
    if args.in_process:
        api.load_profile = load_profile                  # type: ignore[attr-defined]
        for seed in range(args.first, args.first + args.count):
            print(f"{seed} begins", flush=True)
            one_seed(seed, args.keep, not args.no_reduce, check_graph if args.graph_only else check)
        return 0
    return run_children(args)


def run_children(args: argparse.Namespace) -> int:
    """All seeds in child processes of up to 50 seeds; a child that dies costs the seed it was at."""
    end, seed, last = time.monotonic() + args.minutes * 60, args.first, args.first + args.count
    counts: collections.Counter[str] = collections.Counter()
    while seed < last and time.monotonic() < end:
        command = [sys.executable, "-m", "tests.build.fuzz", "--in-process", "--first", str(seed), "--count",
                   str(min(50, last - seed)), *(["--keep", str(args.keep)] if args.keep else []),
                   *(["--no-reduce"] if args.no_reduce else []), *(["--graph-only"] if args.graph_only else [])]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for line in child.stdout:
            words = line.split(maxsplit=2)
            if words[1:2] == ["begins"]:
                seed = int(words[0])
                if time.monotonic() > end:
                    child.kill()
                continue
            print(line, end="", flush=True)
            if len(words) > 1 and words[0] == str(seed) and words[1] in ("ok", "refused", "mismatch", "error",
                                                                          "unstable", "doubtful"):
                counts[words[1]] += 1
        if child.wait() != 0 and time.monotonic() < end:
            counts["crash"] += 1
            print(f"{seed} crash: exit status {child.returncode}", flush=True)
        seed += 1
    print(dict(counts))
    return int(any(counts[k] for k in counts if k not in ("ok", "refused", "doubtful")))


if __name__ == "__main__":
    sys.exit(main())
