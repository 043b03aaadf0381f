"""Whole models through the whole compiler: a package computes what the model computes, always to the same bit."""

from __future__ import annotations

import fcntl
import filecmp
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import onnx
import pytest

from meta_infer import api
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_spec
from meta_infer.ir.graph import Graph
from meta_infer.runtime.session import load
from meta_infer.verify.compare import TOLERANCE
from meta_infer.verify.metrics import distance
from meta_infer.verify.reference import float64_reference, reference_session, run_reference
from meta_infer.verify.samples import random_inputs

from .cases import CASES, SEEDS, ModelCase
from .control_flow import if_and_loop

ROUNDING = 2.0 ** -24
"""A float32 result can be this far from the truth, relative to it, by its last rounding alone."""

by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@dataclass(frozen=True)
class Built:
    """One package of a model, and its graph as imported."""

    model: Path
    package: Path
    graph: Graph


def model_file(name: str, folder: Path, real_model: Callable[[str], Path]) -> Path:
    if name == "digits":
        with as_file(files("meta_infer.demo") / "digits.onnx") as path:
            return path
    if name == "if_and_loop":
        path = folder / "if_and_loop.onnx"
        onnx.save(if_and_loop(), path)
        return path
    return real_model(name)


def build(case: ModelCase, model: Path, folder: Path) -> Mapping[str, object]:
    """Builds a package in `folder`; the compile step's figures.

    The package keeps its own path as given: a relative one, so that builds in two folders can be equal.
    """
    with chdir(folder):
        result = api.build(model, output=f"{case.name}.bin", shape=case.shape, verify=False)
    return next(step.figures for step in result.trace.steps if step.name == "compile")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, real_model: Callable[[str], Path]) -> Callable[[ModelCase], Built]:
    """A function that gives the package of a case, built once for all tests, also by parallel workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "packages"
    folder.mkdir(exist_ok=True)
    found: dict[str, Built] = {}

    def get(case: ModelCase) -> Built:
        if case.name not in found:
            package = folder / f"{case.name}.bin"
            with (folder / f"{case.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                model = model_file(case.name, folder, real_model)
                if not package.exists():
                    build(case, model, folder)
            found[case.name] = Built(model, package, import_model(model, dict(map(parse_shape_spec, case.shape))))
        return found[case.name]

    return get


@by_case
def test_outputs_are_those_of_onnx_runtime(case: ModelCase, built: Callable[[ModelCase], Built],
                                           full: bool) -> None:
    """At every size and seed; and bitwise equal with one thread, with two, and when run again."""
    made = built(case)
    reference = reference_session(made.model)
    with load(made.package, threads=1) as single, load(made.package, threads=2) as double:
        for point in case.points:
            for seed in range(SEEDS if full else point.seeds):
                inputs = random_inputs(made.graph, point.dims, seed)
                want = run_reference(reference, inputs)
                got = single.run(None, inputs)
                for array, expected in zip(got, want, strict=True):
                    assert array.shape == expected.shape and array.dtype == expected.dtype
                    assert distance(array, expected).relative <= TOLERANCE, (point.dims, seed)
                for other in (double.run(None, inputs), double.run(None, inputs), single.run(None, inputs)):
                    assert [a.tobytes() for a in other] == [a.tobytes() for a in got], (point.dims, seed)


@by_case
def test_no_further_from_the_truth_than_onnx_runtime(case: ModelCase, built: Callable[[ModelCase], Built],
                                                     full: bool) -> None:
    """Against a float64 run: at most ten times ONNX Runtime's own distance."""
    made = built(case)
    reference = reference_session(made.model)
    with load(made.package, threads=1) as session:
        for dims in case.exact_dims:
            for seed in range(SEEDS if full else 1):
                inputs = random_inputs(made.graph, dims, seed)
                truth = float64_reference(made.graph, inputs)
                sides = zip(session.run(None, inputs), run_reference(reference, inputs), truth, strict=True)
                for ours, theirs, exact in sides:
                    allowed = 10 * max(distance(theirs, exact).relative, ROUNDING)
                    assert distance(ours, exact).relative <= allowed, (dims, seed)


@by_case
def test_second_build_calls_no_compiler_and_gives_the_same_bytes(case: ModelCase, tmp_path: Path,
                                                                 built: Callable[[ModelCase], Built]) -> None:
    made = built(case)
    figures = build(case, made.model, tmp_path)
    assert figures["compiler_calls"] == 0
    again = tmp_path / f"{case.name}.bin"
    assert filecmp.cmp(again, made.package, shallow=False)
    again.unlink()


def test_builds_from_empty_caches_are_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a run finds its way into a package: no time, no temporary path, no order of threads."""
    case = ModelCase("if_and_loop", (), ("x=1..16,8",))
    model = model_file(case.name, tmp_path, lambda name: Path(name))
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        monkeypatch.setenv("META_INFER_CACHE", str(tmp_path / run / "cache"))
        assert build(case, model, tmp_path / run)["compiler_calls"] != 0
    assert filecmp.cmp(tmp_path / "one" / "if_and_loop.bin", tmp_path / "two" / "if_and_loop.bin", shallow=False)
