"""Resize as ONNX spells it, through its importer, against ONNX Runtime: regions, antialias, axes, policies, types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ops.execute import execute_graph
from tests.ops.onnx_case import session_of

F32 = np.float32


def check(folder: Path, x: np.ndarray, operands: dict[int, np.ndarray], fixed: bool = True, opset: int = 19,
          op: str = "Resize", tolerance: float = 1e-4, **attrs: Any) -> None:
    """Our graph and ONNX Runtime on one node; `fixed` operands are initialisers, the others inputs."""
    names = ["x", *("" for _ in range(max(operands)))]
    for i in operands:
        names[i] = f"o{i}"
    given = {f"o{i}": a for i, a in operands.items()}
    inputs = {"x": x, **({} if fixed else given)}
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attrs)], "resize",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
         for n, a in inputs.items()], [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in given.items()] if fixed else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path = folder / "resize.onnx"
    onnx.save(model, path)
    (want,) = session_of(model).run(None, inputs)
    (found,) = execute_graph(import_model(path), inputs).values()
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(found, want, tolerance, tolerance, err_msg=f"{x.shape} {operands} {attrs}")


def image(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(F32)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_antialias(mode: str, exclude: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(exclude)
    for size, out in (((9, 7), (4, 3)), ((16, 5), (3, 5)), ((4, 4), (9, 7)), ((13, 12), (1, 20))):
        check(tmp_path, image(rng, 1, 2, *size), {3: np.array((1, 2, *out), np.int64)}, mode=mode, antialias=1,
              exclude_outside=exclude)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crops(mode: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for region in ((0, 0, 0.2, 0.3, 1, 1, 0.7, 0.9), (0, 0, -0.4, 0.5, 1, 1, 0.7, 1.3), (0, 0, 0.6, 1, 1, 1, 0.1, 0)):
        for out in ((3, 4), (1, 5)):
            check(tmp_path, image(rng, 1, 2, 6, 7),
                  {1: np.array(region, F32), 3: np.array((1, 2, *out), np.int64)}, mode=mode,
                  coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller", "stretch"])
@pytest.mark.parametrize("fixed", [True, False])
def test_axes_and_policies(policy: str, fixed: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    for axes, sizes in (([2, 3], (9, 4)), ([3, 2], (4, 9)), ([3], (5,)), ([1, 2, 3], (6, 2, 3))):
        check(tmp_path, image(rng, 2, 3, 4, 6), {3: np.array(sizes, np.int64)}, fixed, axes=axes,
              mode="linear" if len(axes) < 3 else "nearest", keep_aspect_ratio_policy=policy)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_operands_that_data_tells(mode: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for scales in ((1, 1, 2, 1.5), (1, 1, 0.6, 2.3)):
        check(tmp_path, image(rng, 1, 2, 5, 4), {2: np.array(scales, F32)}, False, mode=mode)
    check(tmp_path, image(rng, 1, 2, 5, 4), {3: np.array((1, 2, 3, 9), np.int64)}, False, mode=mode)
    check(tmp_path, image(rng, 1, 2, 5, 4), {1: np.array((1, 1, 2, 2), F32)}, False, 9, "Upsample",
          mode="linear" if mode == "linear" else "nearest")


def test_one_axis_grows_and_one_shrinks_in_version_10(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    for fixed in (True, False):
        check(tmp_path, image(rng, 1, 2, 6, 5), {1: np.array((1, 1, 2, 0.6), F32)}, fixed, 10)


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_ranks(rank: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    shape, outer = (7, 5, 4)[:max(rank - 2, 1)], (1, 2)[:max(rank - 1, 0)] if rank > 1 else ()
    x = image(rng, *outer, *shape)
    out = (*outer, *(2 * d + 1 for d in shape))
    for mode in ("nearest", "linear")[:rank]:                          # ONNX Runtime has no linear of one axis
        check(tmp_path, x, {3: np.array(out, np.int64)}, mode=mode, coordinate_transformation_mode="align_corners",
              nearest_mode="floor")


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_integers_are_rounded_to(dtype: type, tmp_path: Path) -> None:
    """ONNX Runtime may cut where we round: one apart at most."""
    rng = np.random.default_rng(6)
    x = rng.integers(0, 100, (1, 2, 5, 6)).astype(dtype)
    sizes = np.array((1, 2, 8, 9), np.int64)
    check(tmp_path, x, {3: sizes}, mode="nearest")
    check(tmp_path, x, {3: sizes}, mode="linear", tolerance=1.0)
