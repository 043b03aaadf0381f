"""Kernels that read indices: scatters, gathers by index, one-hot, reversed sequences, TopK, against the references."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.ir.graph import Attr
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.kernel import Kernel
from meta_infer.kernels.movement.gather_nd import GATHER_ELEMENTS, GATHER_ND
from meta_infer.kernels.movement.scatter import SCATTER
from meta_infer.kernels.movement.sequence import ONE_HOT, REVERSE_SEQUENCE, TENSOR_SCATTER
from meta_infer.kernels.reduction.top_k import TOP_K
from meta_infer.ops.registry import op_named

from .harness import Shapes, check_case, make_group

A, B = Symbol("a", 0, 90), Symbol("b", 1, 90)
BOTH = ("c", "interpret")


def run(op: str, kernel: Kernel, arrays: dict[str, np.ndarray], attrs: dict[str, Attr], engines: tuple[str, ...] = BOTH,
        shapes: Shapes | None = None, outputs: tuple[str, ...] = ("out",)) -> None:
    case = make_group(op, arrays, attrs, shapes=shapes, outputs=outputs)
    assert check_case(case, kernel, engines=engines) == 1


@pytest.mark.parametrize(("op", "kernel"), [
    ("ScatterElements", SCATTER), ("ScatterND", SCATTER), ("TensorScatter", TENSOR_SCATTER), ("GatherND", GATHER_ND),
    ("GatherElements", GATHER_ELEMENTS), ("OneHot", ONE_HOT), ("ReverseSequence", REVERSE_SEQUENCE), ("TopK", TOP_K)])
def test_samples_in_the_interpreter(op: str, kernel: Kernel) -> None:
    """Which checks every index, and that no two chunks touch one element."""
    for sample in op_named(op).samples(np.random.default_rng(1)):
        arrays = {f"in{i}": a for i, a in enumerate(sample.inputs)}
        run(op, kernel, arrays, dict(sample.attrs), ("interpret",), outputs=("out", "more")[:1 + (op == "TopK")])


@pytest.mark.parametrize("seed", range(6))
def test_scatter_elements(seed: int) -> None:
    """Many columns and many rows (several chunks), duplicates, index boxes smaller than the data."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape = tuple(int(rng.choice([1, 2, 5, 33, 300])) if rank < 4 else int(rng.integers(1, 7)) for _ in range(rank))
    axis = int(rng.integers(rank))
    picked = tuple(int(rng.integers(1, n + (5 if i == axis else 1))) for i, n in enumerate(shape))
    reduction = ("add", "mul", "max", "min", "none", "add")[seed]
    dtype = (np.float32, np.int64, np.float64, np.uint8, np.float32, np.int32)[seed]
    data, updates = ((rng.standard_normal(s) * 9).astype(dtype) for s in (shape, picked))
    if reduction == "none":                                     # numpy leaves the order of duplicates open
        updates = np.full_like(updates, 3)
    indices = rng.integers(-shape[axis], shape[axis], picked)
    run("ScatterElements", SCATTER, {"d": data, "i": indices, "u": updates}, {"axis": axis, "reduction": reduction},
        ("c",))


def test_scatter_elements_of_dynamic_shapes() -> None:
    rng = np.random.default_rng(3)
    for rows, columns in ((0, 5), (7, 1), (60, 80)):
        data, indices = rng.standard_normal((rows, columns)), rng.integers(0, max(rows, 1), (9 if rows else 0, columns))
        run("ScatterElements", SCATTER, {"d": data, "i": indices, "u": np.ones(indices.shape)},
            {"axis": 0, "reduction": "add"}, ("c",), {"d": (A.dim, B.dim), "i": (len(indices), B.dim),
                                                       "u": (len(indices), B.dim)})


def test_scatter_nd_in_many_parts() -> None:
    rng = np.random.default_rng(4)
    for shape, depth in (((40, 30, 40), 2), ((3, 20000), 1)):
        tuples = 500
        indices = np.stack([rng.integers(-n, n, tuples) for n in shape[:depth]], -1)
        for reduction in ("add", "none"):
            updates = rng.standard_normal((tuples, *shape[depth:])).astype(np.float32)
            run("ScatterND", SCATTER, {"d": np.zeros(shape, np.float32), "i": indices, "u": updates},
                {"reduction": reduction}, ("c",))


def test_nan_wins_a_maximum() -> None:
    nan = float("nan")
    data, updates = np.array([1, nan, 1, 2], np.float32), np.array([nan, 5, 3, 1], np.float32)
    for reduction in ("max", "min"):
        run("ScatterElements", SCATTER, {"d": data, "i": np.arange(4), "u": updates},
            {"axis": 0, "reduction": reduction})


def test_a_wrong_index_stays_inside() -> None:
    """It gives some element, and the guard bands and the interpreter see no access outside."""
    from meta_infer.ir.group import PLAIN

    from .harness import PROFILE, run_group

    wild = np.array([[99, -99, 5]]).T
    for op, kernel, arrays, attrs in (
            ("ScatterND", SCATTER, {"d": np.zeros(4), "i": wild, "u": np.ones(3)}, {"reduction": "none"}),
            ("ScatterElements", SCATTER, {"d": np.zeros((4, 1)), "i": wild, "u": np.ones((3, 1))},
             {"axis": 0, "reduction": "add"}),
            ("GatherND", GATHER_ND, {"d": np.zeros(4), "i": wild}, {"batch_dims": 0}),
            ("GatherElements", GATHER_ELEMENTS, {"d": np.zeros((4, 1)), "i": wild}, {"axis": 0})):
        case = make_group(op, arrays, attrs)
        variant = next(iter(kernel.variants(case.group, PROFILE)))
        for engine in BOTH:
            run_group(case.group, kernel, variant, {"out": PLAIN}, case.arrays, engine=engine)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.uint64, np.int64])
def test_top_k_is_stable(dtype: type) -> None:
    """Few distinct values: of equal ones the lower index comes first, by selection and by sorting."""
    rng = np.random.default_rng(5)
    for shape, axis, k, largest in (((3, 100), 1, 7, True), ((2, 37, 2), 1, 37, False), ((2, 3000), 1, 40, False)):
        x = rng.integers(0, 5, shape).astype(dtype)
        run("TopK", TOP_K, {"x": x}, {"axis": axis, "k": (k,), "largest": largest}, ("c",),
            outputs=("values", "indices"))


def test_top_k_of_nan_infinities_and_dynamic_k() -> None:
    special = np.array([[3, np.nan, -np.inf, 0.0, np.inf, -0.0, np.nan, 1]], np.float32)
    for x, k in ((special, 3), (np.tile(special, 5), 40)):
        for largest in (True, False):
            run("TopK", TOP_K, {"x": x}, {"axis": 1, "k": (k,), "largest": largest}, outputs=("values", "indices"))
    rng = np.random.default_rng(6)
    run("TopK", TOP_K, {"x": rng.standard_normal((3, 5000))}, {"axis": 1, "k": (300,), "largest": True}, ("c",),
        outputs=("values", "indices"))
    run("TopK", TOP_K, {"x": np.arange(999)}, {"axis": 0, "k": (34,), "largest": True},
        outputs=("values", "indices"))                     # every element is a candidate
    for size in (1, 33, 90):
        run("TopK", TOP_K, {"x": rng.standard_normal((4, size))}, {"axis": 1, "k": (B.dim,), "largest": True}, ("c",),
            {"x": (4, B.dim)}, ("values", "indices"))


def test_one_output_of_top_k() -> None:
    x = np.random.default_rng(7).standard_normal((5, 40))
    for outputs in (("values", ""), ("", "indices")):
        run("TopK", TOP_K, {"x": x}, {"axis": 1, "k": (4,), "largest": True}, ("c",), outputs=outputs)


def test_nothing_to_pick_from() -> None:
    """An axis that turns out to be empty: no access at all, whatever the indices say."""
    from meta_infer.ir.group import PLAIN

    from .harness import PROFILE, run_group

    empty = np.zeros((0, 3))
    for op, kernel, arrays, attrs in (
            ("ScatterElements", SCATTER, {"d": empty, "i": np.zeros((2, 3), np.int64), "u": np.ones((2, 3))},
             {"axis": 0, "reduction": "none"}),
            ("ScatterND", SCATTER, {"d": empty, "i": np.zeros((2, 1), np.int64), "u": np.ones((2, 3))},
             {"reduction": "add"}),
            ("GatherND", GATHER_ND, {"d": empty, "i": np.zeros((2, 1), np.int64)}, {"batch_dims": 0}),
            ("GatherElements", GATHER_ELEMENTS, {"d": empty, "i": np.zeros((2, 3), np.int64)}, {"axis": 0})):
        case = make_group(op, arrays, attrs, shapes={"d": (A.dim, 3)})
        variant = next(iter(kernel.variants(case.group, PROFILE)))
        run_group(case.group, kernel, variant, {"out": PLAIN}, case.arrays, engine="interpret")
