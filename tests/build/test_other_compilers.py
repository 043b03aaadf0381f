"""META_INFER_CC names another C compiler: the numbers must be right with it too."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

from meta_infer import api
from meta_infer.frontend.import_model import import_model
from meta_infer.runtime.session import load
from meta_infer.support.errors import ToolchainError
from meta_infer.verify.metrics import distance
from meta_infer.verify.reference import reference_session, run_reference
from meta_infer.verify.samples import random_inputs, shape_points

from .tiny_models import MODELS

NAMES = ["convolution_block_with_residual", "loop_with_swap_scan_and_branch", "broadcast_both_ways",
         "integers_and_comparisons", "dynamic_rows"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine: only the packaged compiler is tested")
@pytest.mark.parametrize("name", NAMES)
def test_gcc_gives_right_results(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_CC", "gcc")
    path = tmp_path / f"{name}.onnx"
    onnx.save(MODELS[name](), path)
    result = api.build(path, verify=False)
    assert result.path is not None
    graph, reference = import_model(path), reference_session(path)
    inputs = random_inputs(graph, shape_points(graph.input_symbols, 2)[-1], 1)
    with load(result.path, threads=2) as session:
        assert "gcc" in str(session.package.json("build.lock.json")["compiler"])
        for a, r in zip(session.run(None, inputs), run_reference(reference, inputs), strict=True):
            assert a.dtype == r.dtype and distance(a, r).relative <= 1e-5


def test_a_compiler_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_CC", "no-such-compiler-9")
    path = tmp_path / "m.onnx"
    onnx.save(MODELS["output_is_an_input"](), path)
    with pytest.raises(ToolchainError, match="no-such-compiler-9"):
        api.build(path, verify=False)
