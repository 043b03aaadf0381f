"""The short form of tools/sanitize.py: a few small models that reach every command and most kernels."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from meta_infer import api
from meta_infer.frontend.import_model import import_model
from meta_infer.verify.samples import random_inputs, shape_points
from tests.build.tiny_models import MODELS

from .whole_package import CannotCheck, check, compare_arenas

CASES = [("asan", "convolution_block_with_residual"), ("asan", "loop_with_swap_scan_and_branch"),
         ("tsan", "convolution_block_with_residual")]


def build(name: str, folder: Path) -> tuple[Path, dict]:
    onnx.save(MODELS[name](), folder / "m.onnx")
    package = api.build(folder / "m.onnx", verify=False).path
    assert package is not None
    graph = import_model(folder / "m.onnx")
    return package, random_inputs(graph, shape_points(graph.input_symbols, 2)[-1], 3)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_clean_under_sanitizers(kind: str, name: str, tmp_path: Path) -> None:
    package, inputs = build(name, tmp_path)
    try:
        check(package, inputs, kind, tmp_path / kind)
    except CannotCheck as reason:
        pytest.skip(f"PACKAGE NOT CHECKED by {kind}: {reason}")


def test_arena_modes_agree(tmp_path: Path) -> None:
    compare_arenas(*build("blocked_value_read_plain_and_blocked", tmp_path))
