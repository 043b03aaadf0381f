"""The table of other vendors' ops against the schemas ONNX Runtime holds, and what nodes that break them say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as peer
import pytest
from onnx import AttributeProto, defs, helper

from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.vendor_schemas import vendor_schemas
from meta_infer.ops.registry import RULES
from meta_infer.support.errors import ModelError, UnsupportedError
from tests.vendor.one_model import NodeCase, model_of

PEER = {(schema.domain, schema.name): schema for schema in peer.get_all_operator_schema() if schema.since_version == 1}


@pytest.mark.parametrize("key", vendor_schemas(), ids=lambda key: key[1])
def test_operands_and_attributes(key: tuple[str, str]) -> None:
    if key not in PEER:
        pytest.skip("not among the peer's schemas")
    ours, theirs = vendor_schemas()[key], PEER[key]
    for mine, other in ((ours.inputs, theirs.inputs), (ours.outputs, theirs.outputs)):
        assert [formal.name for formal in mine] == [formal.name for formal in other]
        assert [formal.option.name for formal in mine] == [str(formal.option).split(".")[-1] for formal in other]
    assert set(ours.attributes) == set(theirs.attributes)
    for name, attribute in ours.attributes.items():
        assert attribute.required == theirs.attributes[name].required, name
        assert attribute.type.name == str(theirs.attributes[name].type).split(".")[-1], name
        default = AttributeProto()
        default.ParseFromString(theirs.attributes[name]._default_value)
        assert value_of(attribute.default_value) == value_of(default), name


def value_of(attribute: AttributeProto) -> object:
    value = None if attribute.type == AttributeProto.UNDEFINED else helper.get_attribute_value(attribute)
    return np.float32(value) if isinstance(value, float) else value


def test_every_vendor_op_is_imported_and_has_a_schema() -> None:
    rules = {(rule.domain, rule.op) for rule in RULES}
    assert set(vendor_schemas()) <= rules
    vendors = {key for key in rules if key[0].startswith("com.microsoft")}
    assert vendors == {key for key in vendor_schemas() if key[0]}
    assert not any(defs.has(op, domain) for domain, op in vendor_schemas() if domain), "nothing is registered with onnx"


X = np.ones((2, 4), np.float32)
REFUSED = {
    "unknown attribute": (NodeCase("FusedMatMul", [X, X], {"transC": 1}), ModelError, "'transC' is unknown"),
    "kind of attribute": (NodeCase("FusedMatMul", [X, X], {"alpha": 1}), ModelError, "must be float"),
    "attribute missing": (NodeCase("MultiHeadAttention", [X[None], X[None], X[None]]), ModelError, "'num_heads'"),
    "input missing": (NodeCase("BiasGelu", [X]), ModelError, "at least 2"),
    "dtype": (NodeCase("FastGelu", [X.astype(np.int32)]), ModelError, "which version 1 of FastGelu does not take"),
    "two dtypes": (NodeCase("BiasGelu", [X, X[0].astype(np.float64)]), ModelError, "they must agree"),
    "shapes": (NodeCase("FusedMatMul", [X, X]), ModelError, "inner dimensions"),
    "activation": (NodeCase("FusedGemm", [X, X.T], {"activation": "Mystery"}), UnsupportedError, "'Mystery'"),
    "parameters": (NodeCase("FusedConv", [np.ones((1, 1, 3, 3), np.float32), np.ones((1, 1, 1, 1), np.float32)],
                            {"activation": "Clip", "activation_params": [1.0]}), UnsupportedError, "parameters"),
    "unknown op": (NodeCase("FusedMatMull", [X, X.T]), UnsupportedError, "'FusedMatMul'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str, tmp_path: Path) -> None:
    case, error, reason = REFUSED[name]
    path = tmp_path / "model.onnx"
    onnx.save(model_of([case])[0], path)
    with pytest.raises(error, match=reason) as caught:
        import_model(path)
    assert "node0" in str(caught.value) and "try:" in str(caught.value)


def test_blocked_layout_ops_are_refused(tmp_path: Path) -> None:
    """What the peer writes at its highest optimisation level is tied to the machine that wrote it."""
    image, weight = np.ones((1, 8, 4, 4), np.float32), np.ones((8, 8, 1, 1), np.float32)
    model, _ = model_of([NodeCase("Conv", [image, weight], domain="com.microsoft.nchwc")])
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    with pytest.raises(UnsupportedError, match=r"(?s)nchwc.*ORT_ENABLE_EXTENDED"):
        import_model(path)
