"""LinearAttention on all samples of the op, of both float types, and against onnx's own evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.attention.linear_attention import LINEAR_ATTENTION
from meta_infer.ops.execute import execute_graph
from meta_infer.ops.registry import op_named
from meta_infer.support.errors import MetaInferError

from .harness import PROFILE, check_case, layouts_of, make_group, make_profile, reference, run_group

NAMES = ("q", "k", "v", "state", "decay", "beta")
OUTPUTS = ("out", "last")


@pytest.mark.parametrize("dtype, isa", [(np.float32, None), (np.float64, None), (np.float32, "x86-64-v2")])
def test_samples(dtype: type, isa: str | None) -> None:
    profile = make_profile(isa)
    samples = list(op_named("LinearAttention").samples(np.random.default_rng(2)))
    for sample in samples[::2 if isa is None and dtype is np.float32 else 5]:
        inputs = {n: None if a is None else a.astype(dtype) for n, a in zip(NAMES, sample.inputs, strict=True)}
        case = make_group("LinearAttention", inputs, sample.attrs, outputs=OUTPUTS)
        assert check_case(case, LINEAR_ATTENTION, 1e-4, 1e-5, profile) == 1


@pytest.mark.parametrize("width", [3, 70])
def test_all_corners(width: int) -> None:
    rng = np.random.default_rng(2)
    sizes = {"q": (1, 5, 12), "k": (1, 5, 12), "v": (1, 5, 2 * width), "state": None, "decay": None, "beta": (1, 5, 2)}
    arrays = {n: None if s is None else rng.standard_normal(s).astype(np.float32) for n, s in sizes.items()}
    case = make_group("LinearAttention", arrays, {"q_num_heads": 2, "kv_num_heads": 2, "scale": 0.5}, outputs=OUTPUTS)
    wide = 2 if PROFILE.simd_bits >= 512 else 3
    assert check_case(case, LINEAR_ATTENTION, 1e-4, 1e-5, all_corners=True) == (1 if width == 3 else wide)


def test_dynamic_batch_and_steps() -> None:
    rng, b, t = np.random.default_rng(3), Symbol("b", 0, 9).dim, Symbol("t", 0, 99).dim
    for batch, steps in ((1, 1), (3, 7)):
        arrays = {"q": rng.standard_normal((batch, steps, 4 * 5)), "k": rng.standard_normal((batch, steps, 2 * 5)),
                  "v": rng.standard_normal((batch, steps, 2 * 35)), "state": None,
                  "decay": -rng.random((batch, steps, 2)), "beta": rng.random((batch, steps, 2))}
        given = {n: None if a is None else a.astype(np.float32) for n, a in arrays.items()}
        case = make_group("LinearAttention", given, {"q_num_heads": 4, "kv_num_heads": 2, "scale": 0.4},
                          outputs=OUTPUTS, shapes={n: (b, t, a.shape[2]) for n, a in given.items() if a is not None})
        (variant,) = LINEAR_ATTENTION.variants(case.group, PROFILE)
        layouts = layouts_of(variant, case.group)
        for name, want in reference(case).items():
            got = run_group(case.group, LINEAR_ATTENTION, variant, layouts, case.arrays, seed=1)
            np.testing.assert_allclose(got[name], want, 1e-4, 1e-5)


def test_interpreter_agrees() -> None:
    rng = np.random.default_rng(4)
    inputs = {"q": rng.random((1, 2, 6)), "k": rng.random((1, 2, 3)), "v": rng.random((1, 2, 11)),
              "state": rng.random((1, 1, 3, 11)), "decay": -rng.random((1, 2, 3)), "beta": rng.random((1, 2, 1))}
    case = make_group("LinearAttention", {n: a.astype(np.float32) for n, a in inputs.items()},
                      {"q_num_heads": 2, "kv_num_heads": 1, "scale": 1.5}, outputs=OUTPUTS)
    check_case(case, LINEAR_ATTENTION, 1e-4, 1e-5, engines=("interpret",))


def model_of(arrays: dict[str, np.ndarray], **attrs: object) -> onnx.ModelProto:
    names = [n if n in arrays else "" for n in NAMES]
    while not names[-1]:
        names.pop()
    node = helper.make_node("LinearAttention", names, OUTPUTS, name="the_node", **attrs)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(
        n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items()],
        [helper.make_empty_tensor_value_info(o) for o in OUTPUTS])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=12)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_imported_agrees_with_onnx(rule: str, dtype: type, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    arrays = {"q": rng.standard_normal((2, 3, 8)), "k": rng.standard_normal((2, 3, 4)) / 2,
              "v": rng.standard_normal((2, 3, 6)), "state": rng.standard_normal((2, 2, 2, 3)),
              "decay": -rng.random((2, 3, 2)), "beta": rng.random((2, 3, 1))}
    given = {n: a.astype(dtype) for n, a in arrays.items()
             if (n != "decay" or "gated" in rule) and (n != "beta" or "delta" in rule)}
    model = model_of(given, q_num_heads=4, kv_num_heads=2, update_rule=rule)
    onnx.save(model, tmp_path / "model.onnx")
    found = execute_graph(import_model(tmp_path / "model.onnx"), given)
    for name, want in zip(OUTPUTS, ReferenceEvaluator(model).run(None, given), strict=True):
        assert found[name].dtype == want.dtype
        np.testing.assert_allclose(found[name], want, 1e-3 if dtype is np.float16 else 1e-5, 1e-6)


def test_operands_that_do_not_fit_the_rule_are_named(tmp_path: Path) -> None:
    arrays = {n: np.zeros((1, 2, 4), np.float32) for n in "qkv"}
    for attrs, problem in (({"update_rule": "gated"}, "needs decay"), ({"update_rule": "other"}, "update_rule"),
                           ({"update_rule": "linear", "kv_num_heads": 3}, "multiple|shared")):
        model = model_of(arrays, **{"q_num_heads": 2, "kv_num_heads": 2, **attrs})
        onnx.save(model, tmp_path / "model.onnx")
        with pytest.raises(MetaInferError, match=problem) as caught:
            import_model(tmp_path / "model.onnx")
        assert "the_node" in str(caught.value)
