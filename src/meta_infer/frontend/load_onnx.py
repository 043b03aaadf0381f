"""Reads an ONNX file: the protobuf itself, and its tensors wherever they are stored.

Weights in files beside the model are mapped, not read, so a model of any size costs only the pages in use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]
from onnx import TensorProto, numpy_helper

from meta_infer.support.dtypes import dtype_of
from meta_infer.support.errors import ModelError, UnsupportedError

# ModelProto's fields (onnx.proto): number -> protobuf wire type (0 varint, 2 length-delimited).
_MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
_PROTOBUF_LIMIT = (1 << 31) - 1
_OTHER_FORMATS = {
    b"version https://git-lfs": ("is a Git LFS pointer, not the model", "git lfs pull"),
    b"PK\x03\x04": ("is a ZIP archive (a PyTorch checkpoint, perhaps)", "export the model to ONNX first"),
    b"\x1f\x8b": ("is gzip-compressed", "decompress it with gunzip first"),
    b"\x89HDF": ("is an HDF5 file (Keras, perhaps)", "convert the model to ONNX first"),
}


@dataclass(frozen=True)
class LoadedModel:
    """A parsed model and the folder its external data lies in."""

    path: Path
    proto: onnx.ModelProto

    def array(self, tensor: TensorProto, what: str) -> np.ndarray:
        """The contents of `tensor`, read-only; `what` names it in errors.

        Raises ModelError when the data is missing, short or malformed, UnsupportedError for element types the
        compiler does not know (strings, complex).
        """
        name = _type_name(tensor.data_type, what)
        if tensor.data_location == TensorProto.EXTERNAL:
            array = self._map_external(tensor, what)
        else:
            try:
                array = numpy_helper.to_array(tensor)
            except (ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
                raise ModelError(f"its contents do not fit {name}{list(tensor.dims)}: {error}", what=what,
                                 hint="export the model again; the file is damaged") from error
        try:
            dtype_of(array)
        except KeyError:
            raise UnsupportedError(f"tensors of type {name} are not supported", what=what,
                                   hint="export with float32 or integer types") from None
        return array

    def _map_external(self, tensor: TensorProto, what: str) -> np.ndarray:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        file = self.path.parent / location
        hint = f"put the file beside {self.path.name}, as the exporter wrote it"
        if not location or Path(location).is_absolute() or ".." in Path(location).parts:
            raise ModelError(f"its external data lies at {location!r}, outside the model's folder", what=what,
                             hint="save the model again with a plain file name as location")
        if not file.is_file():
            raise ModelError(f"its external data file {location!r} is missing", what=what, hint=hint)
        try:
            offset, dims = int(entries.get("offset") or 0), tuple(tensor.dims)
            length = int(entries["length"]) if entries.get("length") else None
        except ValueError:
            raise ModelError(f"offset or length of its external data is not a number: {entries}", what=what,
                             hint="save the model again with onnx.save") from None
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
            bits = dtype_of(dtype).bits
        except KeyError:
            raise UnsupportedError(f"tensors of type {_type_name(tensor.data_type, what)} are not supported",
                                   what=what, hint="export with float32 or integer types") from None
        if bits < 8:
            return self._unpack_external(tensor, bits, file, offset, what)
        count = math.prod(dims)
        need = count * dtype.itemsize
        if min((*dims, offset)) < 0 or length not in (None, need) or offset + need > file.stat().st_size:
            raise ModelError(
                f"needs {need} bytes at offset {offset} of {location!r}, which has {file.stat().st_size}"
                + (f"; it declares a length of {length}" if length not in (None, need) else ""), what=what,
                hint="copy the data file again; it is truncated or another model's")
        if count == 0:
            return np.zeros(dims, dtype)
        return np.memmap(file, dtype, "r", offset, dims)

    def _unpack_external(self, tensor: TensorProto, bits: int, file: Path, offset: int, what: str) -> np.ndarray:
        """Elements below 8 bits, several in a byte: unpacked to one byte each, as numpy holds them."""
        inline = TensorProto(data_type=tensor.data_type, dims=tensor.dims)
        with file.open("rb") as stream:
            stream.seek(offset)
            inline.raw_data = stream.read((math.prod(tensor.dims) * bits + 7) // 8)
        return self.array(inline, what)


def _type_name(data_type: int, what: str) -> str:
    try:
        name = TensorProto.DataType.Name(data_type)
    except ValueError:
        raise ModelError(f"has the unknown element type {data_type}", what=what,
                         hint="install a newer onnx package, or export again") from None
    if name in ("STRING", "UNDEFINED"):
        raise UnsupportedError(f"tensors of type {name.lower()} are not supported", what=what,
                               hint="cut string processing out of the model before the build")
    return name.lower()


def load_onnx(path: str | Path) -> LoadedModel:
    """Parse the ONNX file at `path`; external data is left where it is.

    Raises ModelError when the file is missing, is not ONNX, is truncated, or holds no graph.
    """
    path = Path(path)
    what = str(path)
    if path.is_dir():
        raise ModelError("is a folder, not an ONNX file", what=what, hint=_onnx_files_in(path))
    try:
        too_big = path.stat().st_size > _PROTOBUF_LIMIT
        data = b"" if too_big else path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror}", what=what, hint="check the path") from error
    if too_big:
        raise ModelError("is over 2 GB, more than protobuf can read in one file", what=what,
                         hint="save it with onnx.save(model, path, save_as_external_data=True)")
    if not data:
        raise ModelError("is empty", what=what, hint="copy or export the model again")
    for magic, (problem, hint) in _OTHER_FORMATS.items():
        if data.startswith(magic):
            raise ModelError(problem, what=what, hint=hint)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise _explain(data, what) from error
    if damaged := _text_not_utf8(proto):
        raise ModelError(f"is damaged: {damaged} is not UTF-8 text", what=what,
                         hint="copy or export the file again")
    if not proto.HasField("graph"):
        raise ModelError("is not an ONNX model: it holds no graph", what=what,
                         hint="give the .onnx file that the exporter wrote")
    return LoadedModel(path, proto)


def _text_not_utf8(message: Message) -> str:
    """The first text field that is no text (protobuf hands such bytes over as they are); '' when all are well."""
    for field, value in message.ListFields() if not isinstance(message, TensorProto) else ():
        values = value if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else (value,)
        if field.type == field.TYPE_STRING and any(isinstance(text, bytes) for text in values):
            return f"{field.full_name} {next(text for text in values if isinstance(text, bytes))!r}"
        if field.type == field.TYPE_MESSAGE:
            for inner in values:
                if found := _text_not_utf8(inner):
                    return found
    if isinstance(message, TensorProto):                 # its other fields are bulk data
        if isinstance(message.name, bytes):
            return f"onnx.TensorProto.name {message.name!r}"
        return next(filter(None, map(_text_not_utf8, message.external_data)), "")
    return ""


def _onnx_files_in(folder: Path) -> str:
    found = sorted(folder.glob("*.onnx"))
    return f"give a file, for example {found[0]}" if found else "give the .onnx file itself"


def _explain(data: bytes, what: str) -> ModelError:
    """Tell a cut-off model from a file that never was one, by walking the outermost fields."""
    at = fields = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if at > len(data) and fields:
            break
        if _MODEL_FIELDS.get(number) != wire:
            return ModelError("is not an ONNX model", what=what,
                              hint="give the .onnx file that the exporter wrote")
        fields += 1
        value, at = _varint(data, at)
        at += value if wire == 2 else 0
    if at > len(data):
        return ModelError(f"is truncated: at least {at - len(data)} bytes are missing after {len(data)}",
                          what=what, hint="copy or download the file again")
    return ModelError("is damaged: its protobuf structure is broken", what=what,
                      hint="copy or export the file again")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A base-128 varint and the position after it; beyond the end, a position past the end."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    return value, len(data) + 1
