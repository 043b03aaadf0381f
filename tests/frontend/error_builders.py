"""Files that ONNX's text syntax cannot describe, one function for each golden of that name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from meta_infer.frontend.import_model import import_model
from meta_infer.hardware.load import load_profile
from meta_infer.passes.legalize import legalize

_RELU = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (y) { y = Relu (x) }'


def _saved(folder: Path, edit: Callable[[onnx.ModelProto], object], text: str = _RELU) -> Path:
    """The model of `text` after `edit`, in a file."""
    model = parser.parse_model(text)
    edit(model)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def _bytes(folder: Path, data: bytes) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(data)
    return path


def _tensor(folder: Path, tensor: TensorProto) -> Path:
    """A model that adds the tensor to its input."""
    tensor.name = "w"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (y) { y = Add (x, w) }'
    return _saved(folder, lambda model: model.graph.initializer.append(tensor), text)


def _external(folder: Path, data_type: int = TensorProto.FLOAT, **entries: str) -> Path:
    """A tensor of two elements in data.bin, which has eight bytes, described by `entries`."""
    (folder / "data.bin").write_bytes(bytes(8))
    tensor = TensorProto(data_type=data_type, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return _tensor(folder, tensor)


# --- files ------------------------------------------------------------------------------------------------------


def file_is_missing(folder: Path) -> Path:
    return folder / "model.onnx"


def file_is_a_folder(folder: Path) -> Path:
    return folder


def file_is_a_folder_with_models(folder: Path) -> Path:
    _bytes(folder, b"")
    return folder


def file_is_empty(folder: Path) -> Path:
    return _bytes(folder, b"")


def file_is_too_big(folder: Path) -> Path:
    path = _bytes(folder, b"")
    with path.open("wb") as stream:
        stream.truncate(1 << 31)
    return path


def file_is_a_git_lfs_pointer(folder: Path) -> Path:
    return _bytes(folder, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")


def file_is_a_zip_archive(folder: Path) -> Path:
    return _bytes(folder, b"PK\x03\x04 and so on")


def file_is_compressed(folder: Path) -> Path:
    return _bytes(folder, b"\x1f\x8b and so on")


def file_is_hdf5(folder: Path) -> Path:
    return _bytes(folder, b"\x89HDF and so on")


def file_is_text(folder: Path) -> Path:
    return _bytes(folder, b"import torch\n" * 20)


def file_is_truncated(folder: Path) -> Path:
    return _bytes(folder, parser.parse_model(_RELU).SerializeToString()[:-4])


def file_is_damaged(folder: Path) -> Path:
    data = bytearray(parser.parse_model(_RELU).SerializeToString())
    data[data.index(b"Relu") - 2:data.index(b"Relu")] = b"\xff\xff"
    return _bytes(folder, bytes(data))


def file_has_no_graph(folder: Path) -> Path:
    return _saved(folder, lambda model: model.ClearField("graph"))


def text_is_not_utf8(folder: Path) -> Path:
    data = parser.parse_model(_RELU).SerializeToString()
    return _bytes(folder, data.replace(b"Relu", b"Re\xfeu"))


# --- tensors ----------------------------------------------------------------------------------------------------


def tensor_is_short(folder: Path) -> Path:
    return _tensor(folder, TensorProto(data_type=TensorProto.FLOAT, dims=[2], raw_data=bytes(4)))


def tensor_of_complex_numbers(folder: Path) -> Path:
    return _tensor(folder, numpy_helper.from_array(np.ones(2, np.complex64)))


def tensor_of_strings(folder: Path) -> Path:
    return _tensor(folder, helper.make_tensor("w", TensorProto.STRING, [2], [b"a", b"b"]))


def tensor_of_unknown_type(folder: Path) -> Path:
    return _tensor(folder, TensorProto(data_type=99, dims=[2], raw_data=bytes(8)))


def external_data_elsewhere(folder: Path) -> Path:
    return _external(folder, location="../data.bin")


def external_data_is_missing(folder: Path) -> Path:
    return _external(folder, location="other.bin")


def external_data_at_no_number(folder: Path) -> Path:
    return _external(folder, location="data.bin", offset="eight")


def external_data_is_short(folder: Path) -> Path:
    return _external(folder, location="data.bin", offset="4")


def external_data_of_another_length(folder: Path) -> Path:
    return _external(folder, location="data.bin", length="4")


def external_data_of_complex_numbers(folder: Path) -> Path:
    return _external(folder, TensorProto.COMPLEX64, location="data.bin")


# --- versions and structure -------------------------------------------------------------------------------------


def no_ir_version(folder: Path) -> Path:
    return _saved(folder, lambda model: model.ClearField("ir_version"))


def ir_version_of_the_future(folder: Path) -> Path:
    return _saved(folder, lambda model: setattr(model, "ir_version", onnx.IR_VERSION + 1))


def no_opset_import(folder: Path) -> Path:
    return _saved(folder, lambda model: model.ClearField("opset_import"))


def a_domain_listed_twice(folder: Path) -> Path:
    return _saved(folder, lambda model: model.opset_import.add(domain="ai.onnx", version=18))


def sparse_initialiser(folder: Path) -> Path:
    return _saved(folder, lambda model: setattr(model.graph.sparse_initializer.add().values, "name", "s"))


def sparse_attribute(folder: Path) -> Path:
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    sparse = helper.make_sparse_tensor(helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]), indices, [3])

    def edit(model: onnx.ModelProto) -> None:
        model.graph.node[0].CopyFrom(helper.make_node("Constant", [], ["y"], sparse_value=sparse))

    return _saved(folder, edit)


def input_without_name(folder: Path) -> Path:
    return _saved(folder, lambda model: model.graph.input.add().type.CopyFrom(model.graph.input[0].type))


def initialiser_without_name(folder: Path) -> Path:
    return _saved(folder, lambda model: model.graph.initializer.append(numpy_helper.from_array(np.ones(1))))


def initialiser_twice(folder: Path) -> Path:
    tensor = numpy_helper.from_array(np.ones(1), "w")
    return _saved(folder, lambda model: model.graph.initializer.extend([tensor, tensor]))


def input_of_unknown_type(folder: Path) -> Path:
    return _saved(folder, lambda model: setattr(model.graph.input[0].type.tensor_type, "elem_type", 99))


def node_without_op(folder: Path) -> Path:
    return _saved(folder, lambda model: model.graph.node[0].ClearField("op_type"))


def node_without_output(folder: Path) -> Path:
    return _saved(folder, lambda model: model.graph.node.add(op_type="Relu", input=["x"], output=[""]))


def attribute_twice(folder: Path) -> Path:
    alpha = helper.make_attribute("alpha", 0.5)

    def edit(model: onnx.ModelProto) -> None:
        model.graph.node[0].op_type = "LeakyRelu"
        model.graph.node[0].attribute.extend([alpha, alpha])

    return _saved(folder, edit)


def function_that_calls_nothing_known(folder: Path) -> Path:
    """A function whose body reads what nothing computes."""
    text = '''<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
              g (float[2] x) => (y) { y = local.f (x) }
              <domain: "local", opset_import: ["" : 17]> f (a) => (b) { b = Relu (a) }'''

    def edit(model: onnx.ModelProto) -> None:
        model.functions[0].opset_import[0].version = 7

    return _saved(folder, edit, text)


# --- behind the frontend ----------------------------------------------------------------------------------------


def no_kernel_for_an_op(folder: Path) -> Path:
    """A device whose backend has kernels for nothing."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (y) { y = ReduceMax <axes = [1]> (x) }'
    path = _saved(folder, lambda model: None, text)
    legalize(import_model(path), load_profile("native"), anchors=())
    return path
