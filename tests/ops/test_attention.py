"""Attention in random settings against onnx's own evaluator, with fixed and with dynamic sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_specs
from meta_infer.ir.graph import Graph
from meta_infer.ops.execute import execute_graph
from meta_infer.passes.pipeline import canonicalize
from meta_infer.support.errors import MetaInferError

INPUTS = ("q", "k", "v", "mask", "past_k", "past_v", "valid")
OUTPUTS = ("y", "present_k", "present_v", "qk")


def model_of(arrays: dict[str, np.ndarray], attrs: dict[str, Any], outputs: tuple[str, ...] = ("y",), opset: int = 25,
             dynamic: dict[str, tuple[Any, ...]] | None = None) -> onnx.ModelProto:
    names = [n if n in arrays else "" for n in INPUTS]
    while not names[-1]:
        names.pop()
    made = [o if o in outputs else "" for o in OUTPUTS[:1 + max(OUTPUTS.index(o) for o in outputs)]]
    kinds = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in arrays.items()}
    shapes = {n: (dynamic or {}).get(n, a.shape) for n, a in arrays.items()}
    graph = helper.make_graph([helper.make_node("Attention", names, made, name="the_node", **attrs)], "g",
                              [helper.make_tensor_value_info(n, kinds[n], shapes[n]) for n in arrays],
                              [helper.make_empty_tensor_value_info(o) for o in made if o])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def imported(model: onnx.ModelProto, folder: Path) -> Graph:
    onnx.save(model, folder / "model.onnx")
    return import_model(folder / "model.onnx")


def random_case(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], dict[str, Any], tuple[str, ...]]:
    batch, kv_heads, group, sq, sk, d, dv = (int(rng.choice(c)) for c in (
        (1, 2, 3), (1, 2), (1, 2, 3), (1, 2, 5), (1, 4, 7), (1, 4, 8), (2, 3)))
    heads, packed, cache = kv_heads * group, rng.random() < 0.4, ("none", "inside", "outside")[int(rng.integers(3))]
    past = 3 if cache == "inside" else 0

    def make(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    arrays = {"q": make(batch, heads, sq, d), "k": make(batch, kv_heads, sk, d), "v": make(batch, kv_heads, sk, dv)}
    attrs: dict[str, Any] = {}
    if packed:
        arrays = {n: a.transpose(0, 2, 1, 3).reshape(batch, a.shape[2], -1) for n, a in arrays.items()}
        attrs |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    if cache == "inside":
        arrays |= {"past_k": make(batch, kv_heads, past, d), "past_v": make(batch, kv_heads, past, dv)}
    if cache == "outside":
        arrays["valid"] = rng.integers(1, sk + 1, batch).astype(np.int64)
    if rng.random() < 0.6:
        shape = ((sq, sk + past), (heads, sq, sk + past), (batch, 1, sq, sk + past))[int(rng.integers(3))]
        arrays["mask"] = make(*shape) if rng.random() < 0.5 else rng.random(shape) < 0.7
    attrs |= {name: value for name, value in (
        ("is_causal", 1), ("softcap", 1.5), ("scale", 0.3), ("left_window_size", 1), ("right_window_size", 1),
        ("qk_matmul_output_mode", int(rng.integers(4)))) if rng.random() < 0.4}
    if attrs.get("qk_matmul_output_mode", 0) == 0:         # there onnx's evaluator shows what the cap has made of it
        attrs.pop("softcap", None)
    outputs = tuple(o for o in OUTPUTS if o == "y" or (o == "qk" or cache == "inside") and rng.random() < 0.6)
    return {n: arrays[n] for n in INPUTS if n in arrays}, attrs, outputs


@pytest.mark.parametrize("seed", range(60))
def test_random_settings(seed: int, tmp_path: Path) -> None:
    arrays, attrs, outputs = random_case(np.random.default_rng(seed))
    model = model_of(arrays, attrs, outputs)
    with np.errstate(all="ignore"):
        want = ReferenceEvaluator(model).run(None, arrays)
    found = execute_graph(imported(model, tmp_path), arrays)
    for name, array in zip([o for o in OUTPUTS if o in outputs], want, strict=True):
        np.testing.assert_allclose(found[name], array, 2e-5, 2e-6, err_msg=f"{name} {attrs}")


@pytest.mark.parametrize("causal", [0, 1])
def test_dynamic_sizes(causal: int, tmp_path: Path) -> None:
    """Batch, queries, keys and past from one model."""
    rng = np.random.default_rng(4)
    dynamic = {"q": ("b", 4, "s", 8), "k": ("b", 2, "s", 8), "v": ("b", 2, "s", 8), "past_k": ("b", 2, "p", 8),
               "past_v": ("b", 2, "p", 8)}
    for i, (b, s, p) in enumerate(((1, 1, 5), (2, 3, 1), (1, 4, 0))):
        arrays = {n: rng.standard_normal([{"b": b, "s": s, "p": p}.get(d, d) for d in shape]).astype(np.float32)
                  for n, shape in dynamic.items()}
        model = model_of(arrays, {"is_causal": causal}, ("y", "present_k", "present_v"), dynamic=dynamic)
        if i == 0:
            onnx.save(model, tmp_path / "model.onnx")
            shapes = parse_shape_specs(("q=1..4,4,1..9,8", "past_k=1..4,2,0..9,8"))
            graph = import_model(tmp_path / "model.onnx", shapes)
        want = ReferenceEvaluator(model).run(None, arrays)
        for array, (name, found) in zip(want, execute_graph(graph, arrays).items(), strict=True):
            np.testing.assert_allclose(found, array, 2e-5, 2e-6, err_msg=name)


def test_a_shorter_mask_hides_what_is_behind_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    arrays = {n: rng.standard_normal((1, 2, 3, 4)).astype(np.float32) for n in "qkv"}
    for mask in (np.ones((3, 2), np.bool_), rng.standard_normal((2, 3, 1)).astype(np.float32), np.ones(2, np.bool_)):
        model = model_of({**arrays, "mask": mask}, {})
        found = execute_graph(imported(model, tmp_path), {**arrays, "mask": mask})["y"]
        np.testing.assert_allclose(found, ReferenceEvaluator(model).run(None, {**arrays, "mask": mask})[0], 1e-5, 1e-6)


def test_half_is_computed_in_float32_and_rounded_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    wide = {n: rng.standard_normal((2, 2, 9, 16)).astype(np.float16) for n in "qkv"}
    graph = imported(model_of(wide, {"is_causal": 1}), tmp_path)
    exact = ReferenceEvaluator(model_of({n: a.astype(np.float64) for n, a in wide.items()}, {"is_causal": 1}))
    want = exact.run(None, {n: a.astype(np.float64) for n, a in wide.items()})[0]
    found = execute_graph(graph, wide)["y"]
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, want, 2**-11 * 1.01, 1e-7)


def test_it_is_one_op_unless_it_shows_what_is_inside(tmp_path: Path) -> None:
    """Keys of a group of heads are not copied, and heads side by side stay where they are."""
    arrays = {"q": np.zeros((1, 4, 3, 8), np.float32), "k": np.zeros((1, 2, 3, 8), np.float32),
              "v": np.zeros((1, 2, 3, 8), np.float32)}
    ops = [node.op for node in canonicalize(imported(model_of(arrays, {"is_causal": 1}), tmp_path)).nodes]
    assert ops == ["Attention"]
    packed = {"q": np.zeros((1, 3, 32), np.float32), "k": np.zeros((1, 3, 16), np.float32),
              "v": np.zeros((1, 3, 16), np.float32), "mask": np.ones((3, 3), np.bool_)}
    attrs = {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1}
    ops = [node.op for node in canonicalize(imported(model_of(packed, attrs), tmp_path)).nodes]
    assert sorted(ops) == ["Attention"] + ["Reshape"] * 4
    graph = canonicalize(imported(model_of(arrays, {}, ("y", "qk")), tmp_path))
    ops = [node.op for node in graph.nodes if node.op != "Reshape"]
    assert sorted(ops) == ["MatMul", "MatMul", "Mul", "Softmax", "Transpose"]


@pytest.mark.parametrize("arrays, attrs, problem", [
    ({"q": (1, 3, 2, 4), "k": (1, 2, 2, 4), "v": (1, 2, 2, 4)}, {}, "share out"),
    ({"q": (1, 2, 8), "k": (1, 2, 8), "v": (1, 2, 8)}, {"q_num_heads": 3, "kv_num_heads": 1}, "share out"),
    ({"q": (1, 2, 2, 4), "k": (1, 2, 2, 4), "v": (1, 2, 2, 4), "past_k": (1, 2, 2, 4)}, {}, "together"),
])
def test_what_does_not_fit_is_named(arrays: dict[str, tuple[int, ...]], attrs: dict[str, Any], problem: str,
                                    tmp_path: Path) -> None:
    made = {n: np.zeros(shape, np.float32) for n, shape in arrays.items()}
    with pytest.raises(MetaInferError, match=problem) as caught:
        imported(model_of(made, attrs), tmp_path)
    assert "the_node" in str(caught.value)
