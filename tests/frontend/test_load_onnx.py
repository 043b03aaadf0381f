"""Files that are no model, broken models, and weights in files beside the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.load_onnx import load_onnx
from meta_infer.support.errors import ModelError, UnsupportedError


def relu_model(make_model: Callable[..., Path], info: Callable[..., Any]) -> Path:
    return make_model([helper.make_node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", [2])])


@pytest.mark.parametrize(("content", "problem"), [
    (b"", "is empty"),
    (b"hello, this is no model at all", "is not an ONNX model"),
    (b"\x89PNG\r\n\x1a\n" + bytes(64), "is not an ONNX model"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\n", "Git LFS pointer"),
    (b"PK\x03\x04" + bytes(40), "ZIP archive"),
    (b"\x1f\x8b" + bytes(40), "gzip"),
    (b"\x08\x08", "holds no graph"),
    (bytes(100), "is not an ONNX model"),
])
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=problem) as caught:
        import_model(path)
    assert str(path) in str(caught.value) and caught.value.hint


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        import_model(tmp_path / "none.onnx")
    (tmp_path / "a.onnx").touch()
    with pytest.raises(ModelError, match="is a folder") as caught:
        import_model(tmp_path)
    assert "a.onnx" in caught.value.hint


def test_a_file_too_big_for_protobuf_is_not_even_read(tmp_path: Path) -> None:
    with (tmp_path / "big.onnx").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(ModelError, match="over 2 GB") as caught:
        import_model(tmp_path / "big.onnx")
    assert "save_as_external_data" in caught.value.hint


def test_every_truncation_is_a_clear_error(make_model: Callable[..., Path], info: Callable[..., Any]) -> None:
    path = relu_model(make_model, info)
    whole = path.read_bytes()
    messages = set()
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError) as caught:
            import_model(path)
        messages.add(caught.value.problem.split(":")[0])
    assert "is truncated" in messages


def external_model(tmp_path: Path, array: np.ndarray, **entries: str) -> Path:
    tensor = TensorProto(name="w", data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape,
                         data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", "offset": "8", **entries}.items():
        tensor.external_data.add(key=key, value=value)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, array.shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, array.shape)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [tensor])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    (tmp_path / "w.bin").write_bytes(bytes(8) + array.tobytes())
    return path


def test_external_data_is_mapped_not_read(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    model = load_onnx(external_model(tmp_path, array))
    found = model.array(model.proto.graph.initializer[0], "tensor 'w'")
    assert isinstance(found, np.memmap) and not found.flags.writeable
    np.testing.assert_array_equal(found, array)


def test_a_huge_external_tensor_costs_nothing(tmp_path: Path) -> None:
    small = np.zeros((1, 1), np.float32)
    path = external_model(tmp_path, small)
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].dims[:] = [3 << 20, 256]          # 3 GB, in a file with a hole
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 3 << 20
        value.type.tensor_type.shape.dim[1].dim_value = 256
    path.write_bytes(model.SerializeToString())
    with (tmp_path / "w.bin").open("r+b") as file:
        file.truncate(8 + (3 << 20) * 256 * 4)
    graph = import_model(path)
    assert isinstance(graph.constants["w"], np.memmap)
    assert graph.constants["w"].nbytes == 3 << 30


@pytest.mark.parametrize(("entries", "problem"), [
    ({"location": "gone.bin"}, "'gone.bin' is missing"),
    ({"location": ""}, "outside the model's folder"),
    ({"location": "/etc/passwd"}, "outside the model's folder"),
    ({"location": "../w.bin"}, "outside the model's folder"),
    ({"offset": "12"}, "needs 16 bytes at offset 12"),
    ({"offset": "-4"}, "needs 16 bytes"),
    ({"offset": "many"}, "not a number"),
    ({"length": "12"}, "declares a length of 12"),
])
def test_external_data_that_does_not_fit(tmp_path: Path, entries: dict[str, str], problem: str) -> None:
    path = external_model(tmp_path, np.ones((2, 2), np.float32), **entries)
    with pytest.raises(ModelError, match=problem) as caught:
        import_model(path)
    assert "'w'" in caught.value.what and caught.value.hint


def test_an_initialiser_whose_bytes_do_not_fit(make_model: Callable[..., Path], info: Callable[..., Any]) -> None:
    def cut(model: onnx.ModelProto) -> None:
        model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:6]

    path = make_model([helper.make_node("Add", ["x", "w"], ["y"])], [info("x", [2])], [info("y", [2])],
                      constants={"w": np.ones(2, np.float32)}, edit=cut)
    with pytest.raises(ModelError, match=r"do not fit float\[2\]") as caught:
        import_model(path)
    assert "'w'" in caught.value.what


@pytest.mark.parametrize("kind", [TensorProto.STRING, TensorProto.COMPLEX64])
def test_element_types_the_compiler_does_not_know(make_model: Callable[..., Path], info: Callable[..., Any],
                                                  kind: int) -> None:
    path = make_model([helper.make_node("Identity", ["x"], ["y"])], [info("x", [2], kind)],
                      [info("y", [2], kind)])
    with pytest.raises(UnsupportedError, match="not supported") as caught:
        import_model(path)
    assert "'x'" in caught.value.what
