"""Every probe on a model in which it finds something, and on one in which it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from meta_infer.checklist.probe import Fact
from meta_infer.checklist.probes import PROBES
from meta_infer.checklist.subject import Subject, examine
from meta_infer.hardware.load import load_profile
from tests.checklist.models import image_net, model, node, relu, saved

Make = Callable[[], ModelProto]


@dataclass(frozen=True)
class Case:
    """`found` are values of the first fact on `yes`; on `no` there is none (unless `no` is None)."""

    probe: str
    yes: Make
    found: dict[str, object]
    no: Make | None = relu
    params: dict[str, Any] = field(default_factory=dict)
    where: tuple[str, ...] | None = None
    hardware: str = "edge_npu_v2"


def scaled(op: str, value: object) -> Make:
    return lambda: model([node(op, "x c", "y", "n")], weights={"c": value})


def pool(op: str = "MaxPool", **attrs: Any) -> Make:
    return lambda: model([node(op, "x", "y", "p", kernel_shape=[2, 2], **attrs)], (1, 3, 7, 7))


def quantized(weight_zero: Any = 0, scale: Any = 0.1, *, only: str = "", kind: type = np.int8,
              activation_zero: int = 128) -> Make:
    """x -> QuantizeLinear -> DequantizeLinear -> MatMul with a dequantised weight."""
    def make() -> ModelProto:
        zero = np.array(activation_zero, np.uint8)
        nodes = [node("QuantizeLinear", "x s z", "q", "quant"), node("DequantizeLinear", "q s z", "d", "dequant")]
        if only == "quantize":
            nodes = [node("QuantizeLinear", "x s z", "q", "quant"),
                     node("Cast", "q", "d", "cast", to=TensorProto.FLOAT)]
        if only == "dequantize":
            nodes = [node("Cast", "x", "q", "cast", to=TensorProto.UINT8),
                     node("DequantizeLinear", "q s z", "d", "dequant")]
        weights = {"s": np.array(0.05, np.float32), "z": zero, "w": np.ones((4, 3), kind),
                   "ws": np.array(scale, np.float32), "wz": np.array(weight_zero, kind)}
        axis: dict[str, Any] = {"axis": 1} if np.ndim(scale) else {}
        nodes += [node("DequantizeLinear", "w ws wz", "wd", "weight", **axis), node("MatMul", "d wd", "y")]
        return model(nodes, weights=weights, opset=21)
    return make


def normalised(first: str = "Sub") -> Make:
    def make() -> ModelProto:
        return model([node(first, "x m", "a"), node("Div", "a s", "b"), node("Conv", "b w", "y")], (1, 3, 8, 8),
                     weights={"m": np.full((1, 3, 1, 1), 0.5, np.float32), "s": [2.0], "w": np.ones((2, 3, 1, 1),
                                                                                                np.float32)})
    return make


def grown(taken: int, made: int) -> Make:
    return lambda: model([node("MatMul", "x w", "y", "fc")], (1, taken), weights={"w": np.ones((taken, made))})


def external() -> ModelProto:
    proto = grown(4, 3)()
    tensor = proto.graph.initializer[0]
    tensor.raw_data = b""
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "small.data"), ("length", "48")):
        tensor.external_data.add(key=key, value=value)
    return proto


def named_twice() -> ModelProto:
    return model([node("Relu", "x", "a", "same"), node("Neg", "a", "y", "same")])


CASES: tuple[Case, ...] = (
    Case("import_problems", lambda: model([node("Foo", "x", "y", "bad")]),
         {"problem": "node 'bad' (Foo): op 'Foo' is not an ONNX op of opset 17"}),
    Case("import_problems", lambda: model([node("ImageDecoder", "x", "y", "d")], (9,), x_type="u", opset=20),
         {}, where=()),
    Case("versions", relu, {"opsets": "ai.onnx 17", "ir": 8, "producer": "test 1"}, None),
    Case("old_opset", lambda: model([node("Relu", "x", "y")], opset=9), {"opset": 9}, params={"oldest": 11}),
    Case("op_versions", relu, {"ops": "Relu 14", "number": 1}, None),
    Case("external_data", external, {"files": "small.data", "size": "48 B"}, where=("w",)),
    Case("custom_ops", lambda: model([node("Gelu", "x", "y", "g", domain="com.microsoft")],
                                     domains={"com.microsoft": 1}),
         {"domain": "com.microsoft", "op": "Gelu", "verdict": "is supported"}, where=("g",)),
    Case("custom_ops", lambda: model([node("Mine", "x", "y", "g", domain="my.own")], domains={"my.own": 1}),
         {"verdict": "is not supported"}),
    Case("training_leftovers", lambda: model([node("Dropout", "x", "y", "drop")]), {"op": "Dropout"},
         params={"kind": "removed"}, where=("drop",)),
    Case("training_leftovers", lambda: model(
        [node("BatchNormalization", "x s s s s", "y m v", "bn", training_mode=1)], (2, 4),
        weights={"s": np.ones(4)}), {"op": "BatchNormalization"}, lambda: model([node("Dropout", "x", "y")]),
        params={"kind": "training"}),
    Case("training_leftovers", lambda: model([node("Dropout", "x r t", "y", "drop")],
                                             weights={"r": 0.5, "t": np.array(True)}), {"op": "Dropout"},
         params={"kind": "training"}),
    Case("unused", lambda: model([node("Relu", "x", "y")], weights={"idle": [1.0]}), {"what": "initialisers"},
         where=("idle",)),
    Case("unused", lambda: model([node("Relu", "x", "y"), node("Neg", "x", "z", "dead")]), {"what": "nodes"},
         where=("dead",)),
    Case("duplicate_names", named_twice, {"name": "same", "times": 2}),
    Case("default_attributes", lambda: model([node("LeakyRelu", "x", "y")]),
         {"op": "LeakyRelu", "attributes": "alpha=0.01"}, lambda: model([node("LeakyRelu", "x", "y", alpha=0.2)])),
    Case("inputs_outputs", relu, {"side": "input", "name": "x", "dtype": "float32", "shape": "[1, 4]"}, None),
    Case("names_unlike", lambda: model([node("Relu", "x:0", "y")], inputs="x:0"), {"kind": "inputs"},
         params={"of": ("inputs", "outputs"), "pattern": "[a-z]+"}, where=("x:0",)),
    Case("names_unlike", relu, {"kind": "nodes"}, None, params={"of": ("nodes",), "pattern": "n[0-9]+"},
         where=("relu",)),
    Case("dynamic_dims", lambda: model([node("Relu", "x", "y")], ("batch", 4)), {"name": "batch", "range": "1..8"},
         where=("x axis 0",)),
    Case("assumed_ranges", lambda: model([node("Relu", "x", "y")], (None, 4)), {}),
    Case("sizes_from_data", lambda: model([node("NonZero", "x", "y")], y_type="i"), {"number": 1}),
    Case("frozen_dims", lambda: model([node("Reshape", "x r", "y", "flat")], (6, 2, 2),
                                      weights={"r": np.array([6, 4])}), {"op": "Reshape", "size": 6},
         lambda: model([node("Reshape", "x r", "y")], (6, 2, 2), weights={"r": np.array([0, -1])}), where=("flat",)),
    Case("nhwc_inputs", lambda: model([node("Relu", "x", "y")], (1, 8, 8, 3)), {"name": "x", "layout": "NHWC"},
         image_net),
    Case("border_transposes", lambda: model([node("Transpose", "x", "y", "t", perm=[1, 0])]),
         {"side": "input", "name": "x", "perm": "[1, 0]"}, where=("t",)),
    Case("preprocessing", normalised(), {"name": "x", "steps": "Sub [0.5, 0.5, 0.5], Div [2]"}, image_net,
         params={"normalised": True}),
    Case("preprocessing", image_net, {"name": "x", "steps": ""}, normalised(), params={"normalised": False}),
    Case("preprocessing", lambda: model([node("Cast", "x", "y", to=TensorProto.FLOAT)], (1, 8, 8, 3), x_type="u"),
         {"range": "0..255"}, params={"normalised": False}),
    Case("weight_overflow", scaled("Mul", [1.0, -70000.0, 2.0, 0.0]),
         {"name": "c", "largest": "7e+04", "limit": "65504"},
         scaled("Mul", [65504.0, np.inf, 1.0, 1.0]), params={"limit": 65504.0}),
    Case("weight_underflow", scaled("Mul", [1e-9, 1.0, 1.0, 0.0]), {"percent": "25"},
         scaled("Mul", [0.0, 1e-3, 1.0, 1.0]), params={"below": 6e-8, "share": 0.1}),
    Case("weights_not_finite", scaled("Mul", [np.nan, 1.0, -np.inf, 2.0]), {"number": 2, "size": 4},
         scaled("Mul", [1.0])),
    Case("sensitive_ops", lambda: model([node("Exp", "x", "y", "e")]), {"op": "Exp"}, params={"ops": ("Log", "Exp")},
         where=("e",)),
    Case("long_sums", grown(64, 3), {"op": "MatMul", "terms": 64}, grown(32, 3), params={"most": 32}, where=("fc",)),
    Case("long_sums", image_net, {"op": "Conv", "terms": 27}, params={"most": 26}, where=("conv",)),
    Case("large_additions", scaled("Add", [-10000.0]), {"op": "Add", "largest": "1e+04", "step": "8"},
         scaled("Mul", [-10000.0]), params={"large": 2048.0}),
    Case("large_additions", scaled("Sub", [3e38]), {"step": "32"}, scaled("Sub", [2047.0]), params={"large": 2048.0}),
    Case("mixed_constants", scaled("Add", [1e-4, 0.0, 1e4, 1.0]), {"low": "0.0001", "high": "1e+04"},
         scaled("Add", [1.0, 10.0, 0.0, 2.0]), params={"large": 1e6}),
    Case("divisions", lambda: model([node("Exp", "x", "e"), node("Div", "x e", "y", "d")]), {},
         scaled("Div", [2.0]), where=("d",)),
    Case("small_epsilon", lambda: model([node("LayerNormalization", "x s", "y", "ln", epsilon=1e-12)],
                                        weights={"s": np.ones(4)}), {"op": "LayerNormalization", "epsilon": "1e-12"},
         lambda: model([node("LayerNormalization", "x s", "y", "ln")], weights={"s": np.ones(4)}),
         params={"below": 6e-8}, where=("ln",)),
    Case("small_epsilon", scaled("Add", 1e-10), {"op": "Add", "epsilon": "1e-10"}, scaled("Add", 1e-5),
         params={"below": 6e-8}),
    Case("quantization", quantized(), {"pairs": 1, "weights": 1, "per_tensor": 3, "per_channel": 0,
                                       "types": "int8, uint8 (x2)"}),
    Case("quantization", quantized([0, 0, 0], [0.1, 0.2, 0.3]), {"per_channel": 1}),
    Case("quantization_problems", quantized(3), {"problem": "zero point other than the middle"}, quantized(),
         params={"kind": "asymmetric_weight"}, where=("weight",)),
    Case("quantization_problems", quantized(), {"problem": "one scale for all channels"},
         quantized([0, 0, 0], [0.1, 0.2, 0.3]), params={"kind": "per_tensor_weight"}, where=("weight",)),
    Case("quantization_problems", quantized(kind=np.int16), {"problem": "int16, which the profile's precision does "
         "not list"}, quantized(), params={"kind": "wide_type"}),
    Case("quantization_problems", quantized(only="quantize"), {"problem": "no DequantizeLinear follows"}, quantized(),
         params={"kind": "unpaired"}, where=("quant",)),
    Case("quantization_problems", quantized(only="dequantize"), {"problem": "no QuantizeLinear before it"},
         quantized(), params={"kind": "unpaired"}, where=("dequant",)),
    Case("quantization_problems", quantized(scale=0.0), {"problem": "a scale that is zero or negative"}, quantized(),
         params={"kind": "bad_scale"}, where=("weight",)),
    Case("quantization_problems", quantized(activation_zero=255),
         {"problem": "zero point 255: only negative values can be held"}, quantized(activation_zero=0),
         params={"kind": "extreme_zero_point"}, where=("quant", "dequant")),
    Case("padding", pool(auto_pad="SAME_UPPER"), {"op": "MaxPool", "detail": "auto_pad SAME_UPPER"},
         pool(auto_pad="VALID"), params={"kind": "auto_pad"}),
    Case("padding", pool(pads=[0, 0, 1, 1]), {"detail": "pads [0, 0, 1, 1]"}, pool(pads=[1, 1, 1, 1]),
         params={"kind": "asymmetric"}),
    Case("padding", pool(ceil_mode=1), {"detail": "ceil_mode 1"}, pool(), params={"kind": "ceil_mode"}),
    Case("padding", pool("AveragePool", pads=[1, 1, 1, 1]), {"detail": "count_include_pad 0"}, pool("AveragePool"),
         params={"kind": "count_include_pad"}),
    Case("fallbacks", lambda: model([node("Tanh", "x", "y", "t")]),
         {"op": "Tanh", "field": "supported_ops", "profile": "edge_npu_v2"}, params={"verdict": "host"}, where=("t",)),
    Case("fallbacks", lambda: model([node("GlobalAveragePool", "x", "y", "gap")], (1, 4, 3, 3)),
         {"op": "GlobalAveragePool", "detail": "AveragePool"}, params={"verdict": "decomposed"},
         hardware="low_power_npu", where=("gap",)),
    Case("alignment_waste", grown(33, 32), {"percent": "48", "width": 32, "worst": "fc (48 %)"}, grown(64, 32),
         params={"percent": 10.0}),
    Case("memory_estimate", grown(4, 3), {"weights": "24 B", "activations": "14 B", "precision": "fp16",
                                          "memory": "128.0 MiB"}, None),
    Case("memory_exceeded", grown(1024, 16), {"memory": "128.0 MiB", "precision": "fp16", "percent": "0.01"},
         params={"share": 1e-4}),
    Case("ops_present", lambda: model([node("Neg", "x", "y", "n")]), {"op": "Neg"}, params={"ops": ("Neg",)},
         where=("n",)),
    Case("ops_outside", lambda: model([node("Neg", "x", "y", "n")]), {"op": "Neg"}, params={"ops": ("Relu",)}),
    Case("size_limits", grown(4, 3), {"what": "parameters", "value": "12", "most": "5"}, params={"parameters": 5}),
    Case("size_limits", named_twice, {"what": "nodes", "value": "2"}, params={"nodes": 1, "opset": 17}),
    Case("tensor_limits", image_net, {"what": "rank", "value": 4, "most": 3}, params={"rank": 3}),
    Case("tensor_limits", grown(9, 3), {"what": "elements", "value": 9}, params={"elements": 8}),
    Case("attribute_values", pool(strides=[3, 3]), {"op": "MaxPool", "attribute": "strides", "value": "[3, 3]"},
         pool(strides=[2, 2]), params={"op": "MaxPool", "attribute": "strides", "least": 1.0, "most": 2.0}),
    Case("attribute_values", pool(auto_pad="VALID"), {"value": "VALID"}, pool(),
         params={"op": "MaxPool", "attribute": "auto_pad", "allowed": ("NOTSET",)}),
)


def subject_of(proto: ModelProto, folder: Path, hardware: str = "edge_npu_v2") -> Subject:
    (folder / "small.data").write_bytes(bytes(48))
    return examine(saved(proto, folder), load_profile(hardware))


def ask(name: str, subject: Subject, params: dict[str, Any]) -> list[Fact]:
    probe = PROBES[name]
    return list(probe.ask(subject, probe.params.model_validate(params)))


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case.probe}" for i, case in enumerate(CASES)])
def test_finds_what_is_there_and_nothing_else(case: Case, tmp_path: Path) -> None:
    subject = subject_of(case.yes(), tmp_path, case.hardware)
    assert not subject.is_broken and (not subject.problems or case.probe in ("import_problems", "custom_ops"))
    facts = ask(case.probe, subject, case.params)
    assert facts, "nothing was found"
    for fact in facts:
        assert set(fact.values) == set(PROBES[case.probe].values)
    assert {key: facts[0].values[key] for key in case.found} == case.found
    assert case.where is None or facts[0].where == case.where
    if case.no is not None:
        assert ask(case.probe, subject_of(case.no(), tmp_path, case.hardware), case.params) == []


def test_every_probe_has_a_case() -> None:
    assert {case.probe for case in CASES} == set(PROBES)


def test_bodies_of_control_flow_are_looked_at(tmp_path: Path) -> None:
    then, other = (helper.make_graph([node("Exp" if i else "Neg", "x", f"o{i}", f"inner{i}")], f"g{i}", [],
                                     [helper.make_tensor_value_info(f"o{i}", TensorProto.FLOAT, [1, 4])])
                   for i in (0, 1))
    proto = model([node("If", "c", "y", then_branch=then, else_branch=other)], weights={"c": np.array(True)})
    (fact,) = ask("sensitive_ops", subject_of(proto, tmp_path), {"ops": ("Exp",)})
    assert fact.where == ("inner1",)


def test_low_precision_is_the_chips_or_the_models(tmp_path: Path) -> None:
    assert subject_of(relu(), tmp_path).low_precision
    assert not subject_of(relu(), tmp_path, "native").low_precision
    half = model([node("Relu", "x", "y")], x_type="h", y_type="h")
    assert subject_of(half, tmp_path, "native").low_precision
