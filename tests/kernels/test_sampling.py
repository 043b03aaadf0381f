"""Kernels that sample and fold images: GridSample, RoiAlign, DeformConv, Col2Im, indices of pools, resizing by axes."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.image.columns import COL2IM, DEFORM_COLUMNS
from meta_infer.kernels.image.grid_sample import AFFINE_GRID, GRID_SAMPLE
from meta_infer.kernels.image.pool import POOL
from meta_infer.kernels.image.pool_indices import POOL_INDICES
from meta_infer.kernels.image.resize_axis import RESIZE_AXIS
from meta_infer.kernels.image.roi import MAX_ROI_POOL, ROI_ALIGN
from meta_infer.kernels.kernel import Kernel
from meta_infer.ops.registry import op_named

from .harness import check_case, make_group

KERNELS = {"GridSample": GRID_SAMPLE, "AffineGrid": AFFINE_GRID, "RoiAlign": ROI_ALIGN, "MaxRoiPool": MAX_ROI_POOL,
           "DeformColumns": DEFORM_COLUMNS, "Col2Im": COL2IM, "MaxPoolIndices": POOL_INDICES, "SumPool": POOL,
           "ResizeAxis": RESIZE_AXIS}


@pytest.mark.parametrize(("op", "kernel"), KERNELS.items())
def test_samples(op: str, kernel: Kernel) -> None:
    """The interpreter takes small ones, which checks every index; machine code one in five."""
    for i, sample in enumerate(op_named(op).samples(np.random.default_rng(1))):
        inputs = {f"in{j}": a for j, a in enumerate(sample.inputs)}
        case = make_group(op, inputs, dict(sample.attrs))
        small = sum(a.size for a in case.arrays.values()) < 200 and i % 2
        engines = ("interpret",) * bool(small) + ("c",) * (i % 5 == 0)
        assert check_case(case, kernel, 1e-3, 1e-4, engines=engines) >= 1


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_grid_sample_of_other_types(dtype: type) -> None:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((2, 3, 4, 5)) * 20).astype(dtype)
    grid = rng.uniform(-1.5, 1.5, (2, 3, 3, 2)).astype(np.float64 if dtype == np.float64 else np.float32)
    for mode, padding in (("nearest", "reflection"), ("linear", "zeros")):
        attrs = {"mode": mode, "padding_mode": padding, "align_corners": False}
        rough = dtype != np.float64
        check_case(make_group("GridSample", {"x": x, "g": grid}, attrs), GRID_SAMPLE, 1e-2 if rough else 1e-9,
                   1.0 if dtype == np.int32 else 1e-2)


def test_wild_coordinates_stay_inside() -> None:
    """NaN, infinities and huge numbers as coordinates, offsets and regions: some result, and no access outside."""
    wild = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.5], np.float32)
    grid = np.stack([wild, wild[::-1]], -1).reshape(1, 2, 3, 2)
    x = np.ones((1, 1, 3, 4), np.float32)
    for mode in ("nearest", "linear", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            _interpret("GridSample", GRID_SAMPLE, {"x": x, "g": grid},
                       {"mode": mode, "padding_mode": padding, "align_corners": padding == "border"})
    regions = np.array([[np.nan, -1e30, 1e30, 2], [5, 5, 1, 1]], np.float32)
    for half_pixel in (True, False):
        _interpret("RoiAlign", ROI_ALIGN, {"x": x, "r": regions, "b": np.array([7, -9])},
                   {"mode": "max", "half_pixel": half_pixel, "output_height": 1, "output_width": 1,
                    "sampling_ratio": 2, "spatial_scale": 1.0})
    rois = np.concatenate((np.array([[np.nan], [40]], np.float32), regions), 1)
    _interpret("MaxRoiPool", MAX_ROI_POOL, {"x": x, "r": rois}, {"pooled_shape": (2, 2), "spatial_scale": 1.0})


def _interpret(op: str, kernel: Kernel, arrays: dict[str, np.ndarray], attrs: dict) -> None:
    from meta_infer.ir.group import PLAIN

    from .harness import PROFILE, run_group

    case = make_group(op, arrays, attrs)
    variant = next(iter(kernel.variants(case.group, PROFILE)))
    run_group(case.group, kernel, variant, {"out": PLAIN}, case.arrays, engine="interpret")


def test_dynamic_sizes() -> None:
    """One kernel for all sizes of the image, the grid and the output."""
    rng = np.random.default_rng(3)
    n, h, w = (Symbol(name, 1, 40).dim for name in "nhw")
    for size in ((1, 1, 1), (2, 7, 5), (3, 33, 2)):
        x = rng.standard_normal((size[0], 2, size[1], size[2])).astype(np.float32)
        grid = rng.uniform(-1.2, 1.2, (size[0], size[2], 3, 2)).astype(np.float32)
        check_case(make_group("GridSample", {"x": x, "g": grid},
                              {"mode": "linear", "padding_mode": "border", "align_corners": True},
                              shapes={"x": (n, 2, h, w), "g": (n, w, 3, 2)}), GRID_SAMPLE, 1e-3, 1e-4)
        attrs = {"mode": "cubic", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "floor",
                 "cubic_coeff_a": -0.5, "exclude_outside": 1, "extrapolation_value": 0.0, "antialias": True, "axis": 2,
                 "size": (w,), "scale": 0.0, "scale_index": 0, "roi_indices": (0, 1)}
        check_case(make_group("ResizeAxis", {"x": x}, attrs, shapes={"x": (n, 2, h, w)}), RESIZE_AXIS, 1e-3, 1e-4)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float16, np.float64])
def test_indices_of_pools(dtype: type) -> None:
    """Equal maxima: the first one. Values of the least number, padding around."""
    rng = np.random.default_rng(4)
    x = rng.integers(0, 3, (2, 2, 7, 6)).astype(dtype)
    if dtype == np.int8:
        x[:, :, :3] = -128
    for column_major in (False, True):
        attrs = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 1, 1, 0), "dilations": (1, 2), "ceil_mode": 1,
                 "column_major": column_major}
        check_case(make_group("MaxPoolIndices", {"x": x}, attrs), POOL_INDICES)
