"""GRU against ONNX Runtime: directions, initial states, ragged sizes, absent outputs, symbolic steps and batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Node, Value
from meta_infer.ir.group import Group
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.recurrent.gru import GRU
from meta_infer.support.dtypes import FLOAT32

from .harness import PROFILE, layouts_of, make_profile, run_group

NARROW = make_profile("x86-64-v2")
OUTPUTS = ("y", "y_h")


def _arrays(steps: int, batch: int, inputs: int, hidden: int, directions: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(hidden)

    def make(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / 2).astype(np.float32)

    return {"x": make(steps, batch, inputs), "w": make(directions, 3 * hidden, inputs),
            "r": make(directions, 3 * hidden, hidden), "b": make(directions, 6 * hidden),
            "h0": make(directions, batch, hidden)}


def _node_inputs(given: Sequence[str]) -> list[str]:
    return [n if n in given else "" for n in ("x", "w", "r", "b", "lengths", "h0")]


def _onnx_runtime(arrays: dict[str, np.ndarray], given: Sequence[str], attrs: dict[str, object]) -> list[np.ndarray]:
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in OUTPUTS]
    fed = [n for n in given if n in ("x", "h0")]
    graph = helper.make_graph(
        [helper.make_node("GRU", _node_inputs(given), OUTPUTS, **attrs)], "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, arrays[n].shape) for n in fed], outputs,
        [numpy_helper.from_array(arrays[n], n) for n in given if n not in fed])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {n: arrays[n] for n in fed})


def _group(arrays: dict[str, np.ndarray], given: Sequence[str], attrs: dict[str, object],
           outputs: Sequence[str]) -> Group:
    t, n = Symbol("t", 0, 99).dim, Symbol("n", 0, 99).dim
    directions, hidden = arrays["r"].shape[0], arrays["r"].shape[2]
    shapes = {"x": (t, n, arrays["x"].shape[2]), "h0": (directions, n, hidden),
              "y": (t, directions, n, hidden), "y_h": (directions, n, hidden)}
    values = {name: Value(name, FLOAT32, shapes.get(name) or arrays[name].shape) for name in (*given, *OUTPUTS)}
    node = Node("GRU", tuple(_node_inputs(given)), tuple(o if o in outputs else "" for o in OUTPUTS), attrs)
    constants = {name: arrays[name] for name in given if name in ("w", "r", "b")}
    return Group(node, tuple(given), tuple(outputs), values, constants)


@pytest.mark.parametrize("direction, hidden, profile", [
    ("forward", 8, PROFILE), ("reverse", 5, NARROW), ("bidirectional", 19, PROFILE), ("forward", 1, NARROW),
])
@pytest.mark.parametrize("before", [0, 1])
def test_directions_and_sizes(direction: str, hidden: int, profile: Profile, before: int) -> None:
    directions = 2 if direction == "bidirectional" else 1
    given = ("x", "w", "r", "b", "h0")
    attrs = {"direction": direction, "hidden_size": hidden, "linear_before_reset": before}
    for steps, batch in ((1, 1), (7, 1), (3, 2), (4, 5), (2, 8)):
        arrays = _arrays(steps, batch, 6, hidden, directions)
        group = _group(arrays, given, attrs, OUTPUTS)
        (variant,) = GRU.variants(group, profile)
        got = run_group(group, GRU, variant, layouts_of(variant, group), arrays, profile, seed=steps)
        for name, want in zip(OUTPUTS, _onnx_runtime(arrays, given, attrs), strict=True):
            np.testing.assert_allclose(got[name], want, 1e-5, 2e-6, err_msg=f"{name} {steps} {batch}")


@pytest.mark.parametrize("given, outputs", [(("x", "w", "r"), ("y",)), (("x", "w", "r", "b"), ("y_h",)),
                                            (("x", "w", "r", "h0"), ("y_h", "y"))])
@pytest.mark.parametrize("before", [0, 1])
def test_absent_operands_and_outputs(given: tuple[str, ...], outputs: tuple[str, ...], before: int) -> None:
    arrays = _arrays(5, 4, 3, 10, 1)
    attrs = {"hidden_size": 10, "activations": ("Sigmoid", "Relu"), "linear_before_reset": before}
    group = _group(arrays, given, attrs, outputs)
    (variant,) = GRU.variants(group, PROFILE)
    got = run_group(group, GRU, variant, layouts_of(variant, group), arrays)
    want = dict(zip(OUTPUTS, _onnx_runtime(arrays, given, attrs), strict=True))
    for name in outputs:
        np.testing.assert_allclose(got[name], want[name], 1e-5, 2e-6)


@pytest.mark.parametrize("bits, before", [(0, 0), (512, 0), (512, 1)])
def test_other_vector_widths(bits: int, before: int) -> None:
    profile, given = replace(PROFILE, simd_bits=bits), ("x", "w", "r", "b")
    attrs: dict[str, object] = {"hidden_size": 19, "linear_before_reset": before}
    arrays = _arrays(3, 2, 6, 19, 1)
    group = _group(arrays, given, attrs, OUTPUTS)
    (variant,) = GRU.variants(group, profile)
    got = run_group(group, GRU, variant, layouts_of(variant, group), arrays, profile)
    for name, want in zip(OUTPUTS, _onnx_runtime(arrays, given, attrs), strict=True):
        np.testing.assert_allclose(got[name], want, 1e-5, 2e-6)


def test_no_steps_yield_the_initial_state() -> None:
    arrays = _arrays(0, 2, 3, 4, 1)
    group = _group(arrays, ("x", "w", "r", "h0"), {"hidden_size": 4}, OUTPUTS)
    (variant,) = GRU.variants(group, PROFILE)
    got = run_group(group, GRU, variant, layouts_of(variant, group), arrays)
    assert got["y"].size == 0
    np.testing.assert_array_equal(got["y_h"], arrays["h0"])


@pytest.mark.parametrize("before", [0, 1])
def test_interpreter_agrees(before: int) -> None:
    arrays = _arrays(2, 1, 3, 5, 2)
    group = _group(arrays, ("x", "w", "r", "b"),
                   {"hidden_size": 5, "direction": "bidirectional", "linear_before_reset": before}, ("y",))
    (variant,) = GRU.variants(group, PROFILE)
    layouts = layouts_of(variant, group)
    compiled, interpreted = (run_group(group, GRU, variant, layouts, arrays, engine=e) for e in ("c", "interpret"))
    np.testing.assert_allclose(compiled["y"], interpreted["y"], 1e-5, 1e-6)
