"""Damaged .npz and .npy inputs, read as `meta-infer run --input` reads them, and run."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from meta_infer import api
from meta_infer.cli.inputs import read_inputs
from meta_infer.runtime.session import Session, load
from tests.build.tiny_models import MODELS

from .campaign import Target
from .damage import damage

DESCRS = ("<f4", ">f4", "<f8", "<i8", "|O", "<U3", "|V8", "<c8", "<M8[s]", "|b1", "<f2", "f99", "", "<f4,<i4",
          "[('a','<f4')]")
SHAPES = ("(2, 3)", "()", "(0,)", "(-1, 3)", f"({1 << 62}, 4)", "(99999, 99999)", "(1e3,)", "2", "[2, 3]", "(2, 3,",
          f"({','.join(['1'] * 70)})", "(3, 4)", "(True, 2)")


@dataclass
class Inputs:
    package: Path
    arrays: dict[str, np.ndarray]
    session: Session | None = None         # opened in the child: threads and code do not cross a fork


def prepare(folder: Path) -> Inputs:
    onnx.save(MODELS["integers_and_comparisons"](), folder / "m.onnx")
    package = api.build(folder / "m.onnx", output=folder / "m.bin", verify=False).path
    assert package is not None
    rng = np.random.default_rng(0)
    return Inputs(package, {"i": rng.integers(-5, 5, (3, 4)), "x": rng.standard_normal((3, 4)).astype(np.float32)})


def npy(rng: random.Random, array: np.ndarray) -> bytes:
    """An .npy file, now and then with another header."""
    file = io.BytesIO()
    np.save(file, array)
    data = file.getvalue()
    if rng.random() < 0.5:
        descr = rng.choice(DESCRS) if rng.random() < 0.5 else array.dtype.str
        shape = rng.choice(SHAPES) if rng.random() < 0.6 else str(array.shape)
        order = rng.choice(("False", "False", "True", "None", "1"))
        quoted = descr if descr.startswith("[") else repr(descr)
        header = f"{{'descr': {quoted}, 'fortran_order': {order}, 'shape': {shape}, }}"
        header = rng.choice((header, header, header, header + "x", "(" * 3000, header.replace("'shape'", "'size'")))
        raw = header.encode() + b"\n"
        length = rng.choice((len(raw),) * 5 + (0, len(raw) - 3, 65535))
        data = b"\x93NUMPY\x01\x00" + struct.pack("<H", min(length, 65535)) + raw + array.tobytes()
    return damage(rng, data, 2) if rng.random() < 0.3 else data


def mutate(state: Inputs, rng: random.Random, folder: Path) -> Path:
    if rng.random() < 0.25:
        path = folder / "mutant.npy"
        path.write_bytes(npy(rng, state.arrays["x"]))
        return path
    path = folder / "mutant.npz"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as zipped:
        for name, array in state.arrays.items():
            if rng.random() < 0.9:
                name = rng.choice((name,) * 8 + (" ", "../x", "y", "é"))
                zipped.writestr(rng.choice((f"{name}.npy",) * 8 + (name, f"{name}.txt")), npy(rng, array))
        if rng.random() < 0.05 and "x.npy" not in zipped.namelist():
            zipped.writestr("x.npy", b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, "
                                     b"'shape': (268435456,), }      \n" + bytes(1 << 22))
    data = file.getvalue()
    path.write_bytes(damage(rng, data) if rng.random() < 0.5 else data)
    return path


def attempt(state: Inputs, path: Path) -> None:
    feeds = read_inputs([str(path)] if path.suffix == ".npz" else [f"x={path}"])
    if path.suffix == ".npy":
        feeds["i"] = state.arrays["i"]
    if state.session is None:
        state.session = load(state.package, threads=1)
    state.session.run(None, feeds)


INPUT_FILES = Target("inputs", prepare, mutate, attempt)
