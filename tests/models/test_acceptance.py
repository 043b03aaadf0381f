"""Whole models through the whole compiler: a package computes what the model computes, always to the same bit."""

from __future__ import annotations

import filecmp
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from meta_infer.runtime.session import load
from meta_infer.verify.compare import TOLERANCE
from meta_infer.verify.metrics import distance
from meta_infer.verify.reference import float64_reference, reference_session, run_reference
from meta_infer.verify.samples import random_inputs

from .cases import CASES, SEEDS, ModelCase
from .packages import Built, build, model_file

ROUNDING = 2.0 ** -24
"""A float32 result can be this far from the truth, relative to it, by its last rounding alone."""

by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def assert_near_truth(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], truth: Sequence[np.ndarray],
                      what: object) -> None:
    """Every output is at most ten times as far from a float64 run as ONNX Runtime's."""
    for a, b, exact in zip(ours, theirs, truth, strict=True):
        assert distance(a, exact).relative <= 10 * max(distance(b, exact).relative, ROUNDING), what


@by_case
def test_outputs_are_those_of_onnx_runtime(case: ModelCase, built: Callable[[ModelCase], Built],
                                           full: bool) -> None:
    """At every size and seed (where ONNX Runtime is off, float64 judges), and always to the same bit.

    With one thread, with two, and when run again.
    """
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
                if any(distance(a, e).relative > TOLERANCE for a, e in zip(got, want, strict=True)):
                    assert_near_truth(got, want, float64_reference(made.graph, inputs), (point.dims, seed))
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
                assert_near_truth(session.run(None, inputs), run_reference(reference, inputs), truth, (dims, seed))


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
