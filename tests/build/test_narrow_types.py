"""Types that numpy lacks, through packages: inputs, outputs, weights, regions; with ml_dtypes and without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from meta_infer.api import build
from meta_infer.runtime.session import load
from meta_infer.support.errors import InputError

OPSET = 26


def make(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], constants: dict[str, np.ndarray]) -> Any:
    graph = helper.make_graph(list(nodes), "narrow", list(inputs), list(outputs),
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)


def info(name: str, kind: int, shape: Sequence[int | str]) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def build_model(model: Any, folder: Path) -> Path:
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    build(folder / "m.onnx", output=folder / "m.bin", verify=False)
    return folder / "m.bin"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, dict[str, np.ndarray]]:
    """bfloat16 arithmetic with weights, data movement of every kind of narrow type, a view of an input as output."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((5, 3)).astype(ml_dtypes.bfloat16)
    codes = np.arange(-8, 8).reshape(4, 4).astype(ml_dtypes.int4)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
        helper.make_node("Transpose", ["q"], ["moved"], perm=[1, 0]),
        helper.make_node("Reshape", ["f8", "flat"], ["seen"]),
        helper.make_node("Unsqueeze", ["f4", "axis"], ["more"]),
        helper.make_node("If", ["cond"], ["chosen"],
                         then_branch=helper.make_graph([helper.make_node("Identity", ["e5"], ["a"])], "then", [],
                                                       [info("a", TensorProto.FLOAT8E5M2FNUZ, [2, 3])]),
                         else_branch=helper.make_graph([helper.make_node("Transpose", ["e5x2"], ["b"], perm=[1, 0])],
                                                       "else", [], [info("b", TensorProto.FLOAT8E5M2FNUZ, [2, 3])])),
        helper.make_node("Concat", ["x", "rows"], ["joined"], axis=0),
        helper.make_node("Gather", ["w", "picks"], ["picked"], axis=0),
        helper.make_node("Where", ["mask", "w", "rows2"], ["where"]),
        helper.make_node("BitCast", ["codes"], ["bits"], to=TensorProto.UINT4),
    ]
    inputs = [info("x", TensorProto.BFLOAT16, ["N", 5]), info("q", TensorProto.INT4, [3, 4]),
              info("f8", TensorProto.FLOAT8E4M3FN, [2, 3]), info("f4", TensorProto.FLOAT4E2M1, [2, 4]),
              info("cond", TensorProto.BOOL, []), info("e5", TensorProto.FLOAT8E5M2FNUZ, [2, 3]),
              info("e5x2", TensorProto.FLOAT8E5M2FNUZ, [3, 2]), info("mask", TensorProto.BOOL, [5, 3]),
              info("unread", TensorProto.FLOAT8E8M0, [2])]
    outputs = [info("y", TensorProto.BFLOAT16, ["N", 3]), info("moved", TensorProto.INT4, [4, 3]),
               info("seen", TensorProto.FLOAT8E4M3FN, [6]), info("more", TensorProto.FLOAT4E2M1, [1, 2, 4]),
               info("chosen", TensorProto.FLOAT8E5M2FNUZ, [2, 3]), info("joined", TensorProto.BFLOAT16, ["M", 5]),
               info("picked", TensorProto.BFLOAT16, [2, 3]), info("where", TensorProto.BFLOAT16, [5, 3]),
               info("codes", TensorProto.INT4, [4, 4]), info("bits", TensorProto.UINT4, [4, 4])]
    rows = rng.standard_normal((1, 5)).astype(ml_dtypes.bfloat16)
    model = make(nodes, inputs, outputs, {
        "w": w, "codes": codes, "rows": rows, "rows2": rows[:, :1], "flat": np.array([6]), "axis": np.array([0]),
        "picks": np.array([3, -1])})
    feeds = {"x": rng.standard_normal((2, 5)).astype(ml_dtypes.bfloat16),
             "q": rng.integers(-8, 8, (3, 4)).astype(ml_dtypes.int4),
             "f8": rng.integers(0, 256, (2, 3)).astype(np.uint8).view(ml_dtypes.float8_e4m3fn),
             "f4": rng.integers(0, 16, (2, 4)).astype(np.uint8).view(ml_dtypes.float4_e2m1fn), "cond": np.array(False),
             "e5": rng.integers(0, 256, (2, 3)).astype(np.uint8).view(ml_dtypes.float8_e5m2fnuz),
             "e5x2": rng.integers(0, 256, (3, 2)).astype(np.uint8).view(ml_dtypes.float8_e5m2fnuz),
             "mask": rng.integers(0, 2, (5, 3)).astype(bool),
             "unread": np.zeros(2, np.uint8).view(ml_dtypes.float8_e8m0fnu)}
    return model, build_model(model, tmp_path_factory.mktemp("narrow")), feeds


def expected_of(feeds: dict[str, np.ndarray], model: Any) -> list[np.ndarray]:
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    product = (feeds["x"].astype(np.float32) @ known["w"].astype(np.float32)).astype(ml_dtypes.bfloat16)
    return [np.maximum(product, ml_dtypes.bfloat16(0)), feeds["q"].T, feeds["f8"].reshape(6), feeds["f4"][None],
            feeds["e5"] if feeds["cond"] else feeds["e5x2"].T, np.concatenate([feeds["x"], known["rows"]]),
            known["w"][[3, 4]], np.where(feeds["mask"], known["w"], known["rows2"]), known["codes"],
            known["codes"].view(ml_dtypes.uint4)]


def as_bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


def raw(array: np.ndarray) -> np.ndarray:
    return array if array.dtype == bool else array.view(f"u{array.itemsize}")


@pytest.mark.parametrize("cond", [True, False])
def test_arrays_of_ml_dtypes(mixed: tuple[Any, Path, dict[str, np.ndarray]], cond: bool) -> None:
    model, package, feeds = mixed
    feeds = {**feeds, "cond": np.array(cond)}
    with load(package, threads=2) as session:
        got = session.run(None, feeds)
        first = session.get_inputs()[0]
    assert (first.type, first.dtype) == ("tensor(bfloat16)", np.dtype(ml_dtypes.bfloat16))
    for have, want in zip(got, expected_of(feeds, model), strict=True):
        assert have.dtype == want.dtype and have.shape == want.shape
        np.testing.assert_array_equal(as_bytes(have), as_bytes(want))


def test_raw_storage_is_taken_as_well(mixed: tuple[Any, Path, dict[str, np.ndarray]]) -> None:
    model, package, feeds = mixed
    with load(package) as session:
        got = session.run(None, {name: raw(array) for name, array in feeds.items()})
        for have, want in zip(got, expected_of(feeds, model), strict=True):
            np.testing.assert_array_equal(as_bytes(have), as_bytes(want))
        with pytest.raises(InputError, match="float32, expected bfloat16") as caught:
            session.run(None, {**feeds, "x": feeds["x"].astype(np.float32)})
        assert "astype(ml_dtypes.bfloat16)" in caught.value.hint


def test_without_ml_dtypes(mixed: tuple[Any, Path, dict[str, np.ndarray]], tmp_path: Path) -> None:
    """The runtime needs numpy alone: it then takes and gives the integers that hold the elements."""
    _, package, feeds = mixed
    np.savez(tmp_path / "in.npz", **{n: raw(a) for n, a in feeds.items()})
    code = f"""
import sys
sys.modules["ml_dtypes"] = None
import numpy as np
from meta_infer.runtime.session import load
from meta_infer.support.errors import InputError
session = load({str(package)!r}, threads=1)
feeds = dict(np.load({str(tmp_path / "in.npz")!r}))
print([t.dtype.name for t in session.get_outputs()])
np.savez({str(tmp_path / "out.npz")!r}, *session.run(None, feeds))
try:
    session.run(None, {{**feeds, "x": feeds["x"].astype(np.float32)}})
except InputError as error:
    print(error.hint)
assert "onnx" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("['uint16', 'uint8', 'uint8', 'uint8', 'uint8', 'uint16', 'uint16', ")
    assert "numpy has no bfloat16" in done.stdout
    with load(package) as session, np.load(tmp_path / "out.npz") as found:
        for i, want in enumerate(session.run(None, feeds)):
            np.testing.assert_array_equal(found[f"arr_{i}"], want.view(found[f"arr_{i}"].dtype))


def test_every_cast_of_every_narrow_type(tmp_path: Path) -> None:
    """All narrow types from and to float32, float64, float16 and int32 in one package, against onnx's evaluator."""
    kinds = ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0", "FLOAT4E2M1",
             "INT4", "UINT4", "INT2", "UINT2"]
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.standard_normal(200) * 2.0 ** rng.integers(-20, 20, 200), [0.0, -0.0, np.inf, -np.inf,
                        np.nan, 448.0, 464.0, 465.0, 57344.0, 61440.0, 1e30, 240.0, 248.0, 2.0**-10, 3 * 2.0**-11]])
    sources = {"f": x.astype(np.float32), "d": x, "h": np.clip(x, -6e4, 6e4).astype(np.float16),
               "i": rng.integers(-20, 20, 50).astype(np.int32)}
    nodes, outputs = [], []
    for kind in kinds:
        number = TensorProto.DataType.Value(kind)
        for name, array in sources.items():
            if not np.issubdtype(array.dtype, np.integer) and "INT" in kind:
                continue                                 # numbers beyond the range of an integer are undefined
            saturate = {} if "8" not in kind else {"saturate": int(name != "h")}
            narrow, back = f"{kind}_{name}", f"{kind}_{name}_back"
            nodes += [helper.make_node("Cast", [f"{name}_positive" if kind == "FLOAT8E8M0" else name], [narrow],
                                       to=number, **saturate),
                      helper.make_node("Cast", [narrow], [back], to=helper.np_dtype_to_tensor_dtype(array.dtype))]
            outputs += [info(narrow, number, array.shape),
                        info(back, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)]
    for name, array in list(sources.items()):
        sources[f"{name}_positive"] = np.abs(np.where(np.isfinite(array), array, 2)).astype(array.dtype)
    model = make(nodes, [info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in sources.items()],
                 outputs, {})
    package = build_model(model, tmp_path)
    with np.errstate(all="ignore"):
        wanted = ReferenceEvaluator(model).run(None, sources)
    with load(package) as session:
        got = session.run(None, sources)
    for value, have, want in zip(outputs, got, wanted, strict=True):
        want = np.asarray(want)
        assert have.dtype == want.dtype
        if "FLOAT4" in value.name:                       # no NaN there: what it becomes is nobody's business
            keep = ~np.isnan(sources[value.name.split("_")[1]].astype(np.float64))
            have, want = have[keep], want[keep]
        np.testing.assert_array_equal(have.astype(np.float64), want.astype(np.float64), err_msg=value.name)
