"""Einsum: the core ops it imports to against numpy.einsum, for known and for random equations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ops.execute import execute_graph
from meta_infer.support.errors import MetaInferError


def einsum(folder: Path, equation: str, *arrays: np.ndarray, dims: list[tuple[int | str, ...]] | None = None,
           ) -> np.ndarray:
    """`dims`: the shapes that the model declares, with names for sizes left open."""
    names = [f"x{i}" for i in range(len(arrays))]
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), shape)
              for n, a, shape in zip(names, arrays, dims or [a.shape for a in arrays], strict=True)]
    graph = helper.make_graph([helper.make_node("Einsum", names, ["y"], equation=equation)], "einsum", inputs,
                              [helper.make_empty_tensor_value_info("y")])
    path = folder / "einsum.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    found = execute_graph(import_model(path), dict(zip(names, arrays, strict=True)))
    (result,) = found.values()
    return result


def check(folder: Path, equation: str, *shapes: tuple[int, ...], dtype: type = np.float64) -> None:
    rng = np.random.default_rng(0)
    arrays = [(rng.standard_normal(shape) * 3).astype(dtype) for shape in shapes]
    want = np.einsum(equation, *arrays)
    found = einsum(folder, equation, *arrays)
    assert found.shape == want.shape and found.dtype == want.dtype
    np.testing.assert_allclose(found, want, 1e-9, 1e-9, err_msg=equation)


@pytest.mark.parametrize(("equation", "shapes"), [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("ba", [(2, 3)]), ("ij->", [(2, 3)]),
    ("ii", [(4, 4)]), ("ii->i", [(4, 4)]), ("iij->j", [(3, 3, 2)]), ("iji->ij", [(3, 2, 3)]), ("iii->i", [(3, 3, 3)]),
    ("...ii->...i", [(2, 5, 3, 3)]), ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]), ("i,j->ij", [(3,), (4,)]),
    ("i,i", [(3,), (3,)]), ("i,i->i", [(3,), (3,)]), ("->", [()]), (",->", [(), ()]), (",i->i", [(), (3,)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]), ("bij,bkj,bk->bi", [(2, 3, 4), (2, 5, 4), (2, 5)]),
    ("ij,ij,ij->ij", [(2, 3)] * 3), ("a,b,c,d->dbca", [(2,), (3,), (4,), (5,)]), ("ij,kj->", [(2, 3), (4, 3)]),
    ("ij,jk->ik", [(2, 1), (3, 4)]), ("bi,bi->b", [(1, 3), (4, 3)]), ("i...->...", [(3, 2, 4)]),
    ("...,...->...", [(3, 1), (2, 1, 4)]), ("ij,jk->ik", [(0, 3), (3, 2)]), ("ij,jk->ik", [(2, 0), (0, 3)]),
    ("i j , j k -> k i", [(2, 3), (3, 4)]), ("abc,cd,de,ef->abf", [(2, 3, 4), (4, 5), (5, 2), (2, 3)])])
def test_equations(equation: str, shapes: list[tuple[int, ...]], tmp_path: Path) -> None:
    check(tmp_path, equation, *shapes)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_types(dtype: type, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-5, 5, (3, 4)).astype(dtype), rng.integers(-5, 5, (4, 2)).astype(dtype)
    found = einsum(tmp_path, "ij,jk->ki", a, b)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.einsum("ij,jk->ki", a, b))


@pytest.mark.parametrize(("equation", "dims"), [
    ("bij,bjk->bik", [("b", 3, "j"), ("b", "j", 4)]), ("nn->n", [("n", "n")]), ("nni,i->n", [("n", "n", 2), (2,)]),
    ("i,j,k->kji", [("i",), ("j",), (2,)]), ("...i->...", [("b", "i")]), ("bi,bi->b", [(1, "i"), ("b", "i")])])
def test_open_sizes(equation: str, dims: list[tuple[int | str, ...]], tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    for size in (1, 5):
        arrays = [rng.standard_normal([size if isinstance(d, str) else d for d in shape]) for shape in dims]
        found = einsum(tmp_path, equation, *arrays, dims=dims)
        np.testing.assert_allclose(found, np.einsum(equation, *arrays), 1e-9, 1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_random_equations(seed: int, tmp_path: Path) -> None:
    """Any number of operands, labels in any order, repeated, summed, of size 1 or 0."""
    rng = np.random.default_rng(seed)
    letters = "abcdef"[:int(rng.integers(1, 7))]
    sizes = {letter: int(rng.choice([1, 2, 3, 4, 0], p=[0.2, 0.3, 0.25, 0.2, 0.05])) for letter in letters}
    terms, shapes = [], []
    for _ in range(int(rng.integers(1, 5))):
        again, count = bool(rng.random() < 0.3), int(rng.integers(0, 4))
        term = "".join(rng.choice(list(letters), count if again else min(count, len(letters)), replace=again))
        terms.append(term)
        # A size of 1 broadcasts; within one operand a label has one size.
        here = {letter: 1 if rng.random() < 0.15 else sizes[letter] for letter in term}
        shapes.append(tuple(here[letter] for letter in term))
    seen = sorted(set("".join(terms)))
    result = "".join(rng.permutation([letter for letter in seen if rng.random() < 0.5]))
    check(tmp_path, f"{','.join(terms)}->{result}", *shapes)


@pytest.mark.parametrize(("equation", "shapes"), [
    ("ij,jk->il", [(2, 3), (3, 4)]), ("ij->ii", [(2, 3)]), ("ijk", [(2, 3)]), ("ij,jk", [(2, 3)]), ("i1->i", [(2, 3)]),
    ("ii->i", [(2, 3)]), ("ij,jk->ik", [(2, 3), (5, 4)])])
def test_equations_that_do_not_fit(equation: str, shapes: list[tuple[int, ...]], tmp_path: Path) -> None:
    with pytest.raises(MetaInferError):
        einsum(tmp_path, equation, *(np.zeros(shape) for shape in shapes))
