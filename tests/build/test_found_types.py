"""NonZero, Compress and Unique of every type that their newest versions take: one package against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from meta_infer import build, load

OPSET = 28
TYPES = ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64",
         "UINT64", "BOOL")
COLUMNS = np.array([1, 0, 1, 1, 0], np.bool_)


def test_of_every_type(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    feeds = {"columns": COLUMNS, "scalar": np.array(2, np.float32)}
    nodes, outputs = [helper.make_node("NonZero", ["scalar"], ["scalar places"])], ["scalar places"]
    for name in TYPES:
        dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))
        feeds[name] = (rng.integers(0, 3, (4, 5)) * (rng.random((4, 5)) < 0.5)).astype(np.float32).astype(dtype)
        for op in ("NonZero", "Compress", "Unique"):
            assert f"tensor({name.lower()})" in onnx.defs.get_schema(op, OPSET).inputs[0].types
        nodes += [helper.make_node("NonZero", [name], [f"{name} places"]),
                  helper.make_node("Compress", [name, "columns"], [f"{name} some"], axis=1),
                  helper.make_node("Unique", [name], [f"{name} distinct", f"{name} first"])]
        outputs += [out for node in nodes[-3:] for out in node.output]
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
              for name, array in feeds.items()]
    graph = helper.make_graph(nodes, "types", inputs, [helper.make_empty_tensor_value_info(out) for out in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=11)
    path, package = tmp_path / "types.onnx", tmp_path / "types.bin"
    path.write_bytes(model.SerializeToString())
    build(path, output=package, verify=False)
    with load(package) as session:
        got = dict(zip(outputs, session.run(None, feeds), strict=True))

    assert got["scalar places"].shape == (0, 1)          # no coordinates, one element
    for name in TYPES:
        x = feeds[name].astype(np.float64)
        distinct, first = np.unique(x, return_index=True)
        np.testing.assert_array_equal(got[f"{name} places"], np.stack(np.nonzero(x)), name)
        np.testing.assert_array_equal(got[f"{name} some"].astype(np.float64), x[:, COLUMNS], name)
        np.testing.assert_array_equal(got[f"{name} distinct"].astype(np.float64), distinct, name)
        np.testing.assert_array_equal(got[f"{name} first"], first, name)
        assert got[f"{name} distinct"].dtype == got[f"{name} some"].dtype == feeds[name].dtype
