"""ai.onnx.ml and TfIdfVectorizer against ONNX Runtime: random trees, linear models, encoders, n-grams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from meta_infer.frontend.import_model import import_model
from meta_infer.kernels.reduction.tree_walk import TREE_WALK
from meta_infer.ops.execute import execute_graph
from meta_infer.ops.registry import op_named
from meta_infer.support.errors import UnsupportedError

from ..kernels.harness import check_case, make_group

ML = "ai.onnx.ml"


def model_of(op: str, arrays: dict[str, np.ndarray], outputs: int = 1, version: int = 3, domain: str = ML,
             **attrs: Any) -> onnx.ModelProto:
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, list(arrays), made, name="node", domain=domain, **attrs)
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in arrays.items()]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info(m) for m in made])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def compare(tmp_path: Path, op: str, arrays: dict[str, np.ndarray], outputs: int = 1, rtol: float = 1e-5,
            **more: Any) -> None:
    model = model_of(op, arrays, outputs, **more)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    imported = import_model(path)
    found = execute_graph(imported, {n: arrays[imported.values[n].origin or n] for n in imported.inputs})
    want = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, arrays)
    for name, expected in zip(imported.outputs, want, strict=True):
        assert (found[name].dtype, found[name].shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found[name], expected, rtol, 1e-5, equal_nan=True)


def forest(rng: np.random.Generator, trees: int, depth: int, features: int) -> tuple[dict[str, Any], list[Any]]:
    """Attributes of the nodes of random trees, some of them a leaf alone, and (tree, node) of every leaf."""
    lists: dict[str, list[Any]] = {name: [] for name in (
        "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
        "missing_value_tracks_true")}
    leaves = []

    def grow(tree: int, level: int, count: list[int]) -> int:
        me, at = count[0], len(lists["modes"])
        count[0] += 1
        is_leaf = level == depth or rng.random() < 0.2
        mode = "LEAF" if is_leaf else str(rng.choice(
            ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]))
        row = (tree, me, int(rng.integers(features)), float(rng.integers(-2, 3)), mode, 0, 0, int(rng.integers(2)))
        for values, value in zip(lists.values(), row, strict=True):
            values.append(value)
        if is_leaf:
            leaves.append((tree, me))
            return me
        lists["truenodeids"][at] = grow(tree, level + 1, count)
        lists["falsenodeids"][at] = grow(tree, level + 1, count)
        return me

    for tree in range(trees):
        grow(tree, 0, [0])
    return {f"nodes_{name}": values for name, values in lists.items()}, leaves


def rows(rng: np.random.Generator, count: int, features: int, dtype: type = np.float32) -> np.ndarray:
    x = rng.integers(-3, 4, (count, features)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[rng.random(x.shape) < 0.1] = np.nan
    return x


@pytest.mark.parametrize("seed", range(6))
def test_regressor(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    targets, how = int(rng.integers(1, 4)), ["SUM", "AVERAGE", "MIN", "MAX", "SUM", "SUM"][seed]
    attrs, found = forest(rng, 5, 4, 3)
    leaves = [leaf for leaf in found for _ in range(targets)]
    compare(tmp_path, "TreeEnsembleRegressor", {"x": rows(rng, 11, 3)}, n_targets=targets, aggregate_function=how,
            post_transform=["NONE", "NONE", "NONE", "NONE", "LOGISTIC", "SOFTMAX"][seed], **attrs,
            target_treeids=[t for t, _ in leaves], target_nodeids=[n for _, n in leaves],
            target_ids=list(range(targets)) * len(found), base_values=[0.5] * targets,
            target_weights=[float(rng.normal()) for _ in leaves])


@pytest.mark.parametrize("seed", range(12))
def test_classifier(seed: int, tmp_path: Path) -> None:
    """Two classes of which one gets votes, of one sign or of both; and three classes that every leaf votes for."""
    rng = np.random.default_rng(seed)
    votes = ([0], [1], [0, 1, 2])[seed % 3]
    attrs, found = forest(rng, 4, 3, 4)
    leaves = [leaf for leaf in found for _ in votes]
    weights = rng.uniform(0, 0.25, len(leaves)) if seed % 2 else rng.normal(size=len(leaves))
    compare(tmp_path, "TreeEnsembleClassifier", {"x": rows(rng, 9, 4)}, 2,
            classlabels_int64s=[7, 3, 5][:max(len(votes), 2)], post_transform=["NONE", "LOGISTIC"][seed // 6],
            class_treeids=[t for t, _ in leaves], class_nodeids=[n for _, n in leaves],
            class_ids=votes * len(found), class_weights=[float(w) for w in weights], **attrs)


def test_walk_kernel() -> None:
    done = 0
    for sample in op_named("TreeWalk").samples(np.random.default_rng(0)):
        names = ("x", "feature", "split", "mode", "true", "false", "missing", "members", "ends", "roots")
        arrays = dict(zip(names, sample.inputs, strict=True))
        done += check_case(make_group("TreeWalk", arrays, sample.attrs, constants=names[1:]), TREE_WALK)
    assert done == 3


@pytest.mark.parametrize("post", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_linear_models(post: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(6, 4)).astype(np.float32), rng.normal(size=12).tolist()
    compare(tmp_path, "LinearRegressor", {"x": x}, targets=3, coefficients=w, intercepts=[0.5, -1.0, 2.0],
            post_transform=post)
    compare(tmp_path, "LinearClassifier", {"x": x}, 2, coefficients=w, intercepts=[0.5, -1.0, 2.0],
            classlabels_ints=[4, 1, 9], post_transform=post)
    if post in ("NONE", "LOGISTIC"):
        compare(tmp_path, "LinearClassifier", {"x": x}, 2, coefficients=w[:4], intercepts=[0.25],
                classlabels_ints=[4, 1], post_transform=post)


def test_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = rows(rng, 5, 4)
    compare(tmp_path, "Scaler", {"x": x}, offset=[1.0, 2.0, 3.0, 4.0], scale=[0.5, 1.0, 2.0, -1.0])
    compare(tmp_path, "Imputer", {"x": x}, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    compare(tmp_path, "Imputer", {"x": rows(rng, 5, 4, np.int64)}, imputed_value_int64s=[9], replaced_value_int64=2)
    compare(tmp_path, "Binarizer", {"x": np.nan_to_num(x)}, threshold=1.0)
    compare(tmp_path, "ArrayFeatureExtractor", {"x": x, "i": np.array([3, 0, 3])})
    compare(tmp_path, "ArrayFeatureExtractor", {"x": x[0], "i": np.array([[2, 1]])})
    for norm in ("L1", "L2"):
        filled = np.nan_to_num(x)
        filled[2] = 0
        compare(tmp_path, "Normalizer", {"x": filled}, norm=norm)


def test_label_encoder(tmp_path: Path) -> None:
    x = np.array([[1, 5, 2], [7, 2, -1]], np.int64)
    compare(tmp_path, "LabelEncoder", {"x": x}, keys_int64s=[5, 2, 1], values_floats=[0.5, 2.5, -1.0], version=2)
    floats = np.array([1.0, np.nan, 2.0], np.float32)
    compare(tmp_path, "LabelEncoder", {"x": floats}, keys_floats=[float("nan"), 1.0], values_int64s=[10, 11],
            default_int64=-7, version=4)
    with pytest.raises(UnsupportedError, match="strings"):
        compare(tmp_path, "LabelEncoder", {"x": x}, keys_int64s=[5], values_strings=["a"], version=2)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("skips", [0, 1, 5])
@pytest.mark.parametrize(("shortest", "longest"), [(1, 1), (2, 2), (1, 3), (3, 3)])
def test_tf_idf(mode: str, skips: int, shortest: int, longest: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    pool = [2, 3, 1, 2, 3, 3, 3, 1, 1, 2, 3, 3, 1, 1]
    for x in (rng.integers(1, 4, (3, 7)), rng.integers(1, 4, (9,)), rng.integers(1, 4, (2, 1)).astype(np.int32)):
        compare(tmp_path, "TfIdfVectorizer", {"x": x}, domain="", mode=mode, min_gram_length=shortest,
                max_gram_length=longest, max_skip_count=skips, pool_int64s=pool, ngram_counts=[0, 2, 8],
                ngram_indexes=[0, 5, 2, 3, 4, 1, 6], weights=[0.5, 2.0, 1.5, 3.0, 0.25, 1.0, 7.0])
