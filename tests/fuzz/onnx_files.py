"""Damaged ONNX files: bytes of the protobuf, and any field of any message in it. An accepted model goes through the
whole compiler up to C."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from meta_infer import api
from tests.build.tiny_models import MODELS

from .campaign import Target
from .damage import damage

NUMBERS = (-(1 << 63), -(1 << 31), -7, -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 16, 17, 100, 1 << 20, 1 << 31,
           (1 << 63) - 1)
REALS = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, -1.0, 0.5, 1e-45, 3e38)
TEXTS = (b"", b"x", b"axis", b"axes", b"SAME_UPPER", b"reflect", b"linear", b"com.example", b"Relu", b"Conv",
         b"Reshape", b"Loop", b"If", b"Resize", b"\xff\xfe", b"n" * 5000, b"../../etc/passwd")
INTEGERS = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64)


@dataclass(frozen=True)
class Models:
    files: tuple[bytes, ...]


def prepare(folder: Path) -> Models:
    demo = Path(api.__file__).parent / "demo" / "digits.onnx"
    return Models((*(make().SerializeToString() for make in MODELS.values()), demo.read_bytes()))


def messages(root: Message) -> list[Message]:
    """The message and all messages in it."""
    found = [root]
    for field, value in root.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if field.is_repeated else (value,):
                found += messages(inner)
    return found


def odd_value(rng: random.Random, field: FieldDescriptor, old: Any, texts: list[str]) -> Any:
    """Another value for a scalar field."""
    match field.type:
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return rng.choice(REALS)
        case FieldDescriptor.TYPE_STRING:
            return rng.choice(texts) if rng.random() < 0.6 else rng.choice(TEXTS).decode("latin-1")
        case FieldDescriptor.TYPE_BYTES:
            return damage(rng, old, 2) if old and rng.random() < 0.6 else rng.choice(TEXTS)
        case FieldDescriptor.TYPE_ENUM:
            return rng.choice(list(field.enum_type.values_by_number))
    number = old + rng.choice((-1, 1)) if isinstance(old, int) and rng.random() < 0.3 else rng.choice(NUMBERS)
    bits = {FieldDescriptor.TYPE_INT32: 32, FieldDescriptor.TYPE_UINT64: 65}.get(field.type, 64)
    low, high = (0, (1 << 64) - 1) if bits == 65 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return min(max(number, low), high)


def change_field(rng: random.Random, model: onnx.ModelProto) -> None:
    """Change one field: another value, unset, one element more or less, two trading places."""
    everything = messages(model)
    nodes = [m for m in everything if isinstance(m, onnx.NodeProto)]
    texts = sorted({name for node in nodes for name in (*node.input, *node.output)}) or ["x"]
    message = rng.choice(everything)
    fields = [f for f in message.DESCRIPTOR.fields if f.name not in ("doc_string", "metadata_props")]
    present = [f for f, _ in message.ListFields()]
    field = rng.choice(present) if present and rng.random() < 0.85 else rng.choice(fields)
    is_message = field.type == FieldDescriptor.TYPE_MESSAGE
    if not field.is_repeated:
        if rng.random() < 0.2 or is_message:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, odd_value(rng, field, getattr(message, field.name), texts))
        return
    values = getattr(message, field.name)
    match rng.randrange(4):
        case 0 if values:
            del values[rng.randrange(len(values))]
        case 1 if len(values) > 1:
            i, j = rng.randrange(len(values)), rng.randrange(len(values))
            if is_message:
                values[i].CopyFrom(values[j])
            else:
                values[i], values[j] = values[j], values[i]
        case 2 if values and not is_message:
            at = rng.randrange(len(values))
            values[at] = odd_value(rng, field, values[at], texts)
        case _ if is_message:
            added = values.add()
            if len(values) > 1:
                added.CopyFrom(values[rng.randrange(len(values) - 1)])
        case _:
            values.append(odd_value(rng, field, 0 if field.type in INTEGERS else b"", texts))


def mutate(state: Models, rng: random.Random, folder: Path) -> Path:
    path, data = folder / "mutant.onnx", rng.choice(state.files)
    if rng.random() < 0.3:
        path.write_bytes(damage(rng, data))
        return path
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change_field(rng, model)
    path.write_bytes(model.SerializePartialToString())
    return path


def attempt(state: Models, path: Path) -> None:
    api.build(path, verify=False, stop_after="emit")


ONNX_FILES = Target("onnx", prepare, mutate, attempt)
