"""Inputs for `run` and `bench`: from files, random for chosen sizes, or the test inputs that a package carries."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meta_infer.runtime.layers import evaluate_dim
from meta_infer.support.array_files import load_arrays
from meta_infer.support.dtypes import DType, dtype_named
from meta_infer.support.errors import InputError, UsageError
from meta_infer.support.output_file import check_replaceable, is_arrays, replacing

if TYPE_CHECKING:
    from meta_infer.runtime.reader import Package

Arrays = dict[str, np.ndarray]


def choose_inputs(package: Package, files: Sequence[str], dims: Sequence[str], random: bool,
                  seed: int) -> tuple[Arrays, Arrays]:
    """The inputs that a command line asks for, by ONNX name, and the outputs they must give where those are known.

    `files` are 'FILE.npz' or 'NAME=FILE.npy', `dims` are 'NAME=SIZE' and mean random inputs, as `random` does. With
    none of them: the package's own test inputs, or random ones when it carries none.
    Raises UsageError for what contradicts itself, InputError for files and sizes that do not fit.
    """
    if files and (dims or random):
        raise UsageError("cannot be combined with --random or --dim", what="--input",
                         hint="give the arrays, or let meta-infer make them")
    if files:
        return read_inputs(files), {}
    tests = package.tests()
    if tests and not dims and not random:
        return next(iter(tests.values()))
    return random_arrays(package, chosen_dims(package, dims), seed), {}


def read_inputs(files: Sequence[str]) -> Arrays:
    """Arrays from 'FILE.npz' (all of them, by name) and 'NAME=FILE.npy'."""
    arrays: Arrays = {}
    for text in files:
        file = _file_of(text)
        if str(file) != str(Path(text)):
            array = load_arrays(file)
            if not isinstance(array, np.ndarray):
                raise InputError("holds several arrays, expected one", what=f"file {file}",
                                 hint=f"--input {file} takes all its arrays by name")
            arrays[text.partition("=")[0]] = array
        else:
            found = load_arrays(file)
            if isinstance(found, np.ndarray):
                raise InputError("holds one array without a name", what=f"file {text}",
                                 hint=f"--input NAME={text} says which input it is")
            arrays |= found
    return arrays


def _file_of(text: str) -> Path:
    """The file of 'FILE.npz' or 'NAME=FILE.npy'; a file that has a '=' in its own name is taken whole."""
    name, equals, file = text.partition("=")
    if not equals or Path(text).exists():
        return Path(text)
    if not name or not file:
        raise UsageError(f"is {text!r}, expected FILE.npz or NAME=FILE.npy", what="--input",
                         hint="for instance --input image=image.npy")
    return Path(file)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An .npz file of `arrays` under exactly these names; numpy.savez would refuse the name 'file'."""
    try:
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", what=f"--output {path}",
                         hint="name a file in an existing folder you may write to") from error


def check_output(path: Path, files: Sequence[str]) -> None:
    """Raises UsageError when writing `path` would destroy one of the input `files`, or something that is no .npz."""
    check_replaceable(path, is_arrays, "an .npz file")
    for text in files:
        file = _file_of(text)
        if path.exists() and file.exists() and path.samefile(file):
            raise UsageError("is also an input", what=f"--output {path}", hint="choose another --output")


def chosen_dims(package: Package, given: Sequence[str]) -> dict[str, int]:
    """A size for every named dim of the inputs: as given ('batch=4'), else that of the package's test inputs, else
    the smallest. Raises InputError for an unknown name or a size out of range."""
    known = given_symbols(package)
    sizes = {name: symbol["min"] for name, symbol in known.items()} | _test_dims(package, known)
    for text in given:
        name, equals, size = text.partition("=")
        if not equals or not size.strip().lstrip("-").isdigit():
            raise UsageError(f"is {text!r}, expected NAME=SIZE", what="--dim", hint="for instance --dim batch=4")
        sizes[name] = checked_size(known, name, int(size))
    return sizes


def given_symbols(package: Package) -> Mapping[str, Mapping[str, Any]]:
    """Named dims that inputs decide: name -> {min, max, step}."""
    return {name: symbol for name, symbol in package.manifest["symbols"].items() if symbol["given"]}


def checked_size(known: Mapping[str, Mapping[str, Any]], name: str, size: int) -> int:
    if name not in known:
        names = ", ".join(known) or "none: all its shapes are fixed"
        raise InputError("is not a named dimension of this package", what=f"dimension {name!r}",
                         hint=f"its named dimensions: {names}")
    low, high, step = (known[name][key] for key in ("min", "max", "step"))
    if not low <= size <= high or (size - low) % step:
        steps = f" in steps of {step}" if step > 1 else ""
        raise InputError(f"is {size}, expected {low}..{high}{steps}", what=f"dimension {name!r}",
                         hint="choose a size in that range, or build again with --shape for another")
    return size


def _test_dims(package: Package, known: Mapping[str, Any]) -> dict[str, int]:
    """Sizes of the named dims in the package's first test inputs."""
    for inputs, _ in package.tests().values():
        return {dim: size for tensor in package.inputs if tensor.name in inputs
                for dim, size in zip(tensor.shape, inputs[tensor.name].shape, strict=False)
                if isinstance(dim, str) and dim in known}
    return {}


def random_arrays(package: Package, dims: Mapping[str, int], seed: int) -> Arrays:
    """Standard normal floats, random truth values; integers are drawn from the package's test inputs, because they
    are often indices and any other value might be out of range (0 and 1 when it carries none)."""
    rng = np.random.default_rng(seed)
    seen = next((inputs for inputs, _ in package.tests().values()), {})
    arrays: Arrays = {}
    for tensor in package.inputs:
        shape = tuple(evaluate_dim(dim, dims) for dim in tensor.shape)
        try:
            arrays[tensor.name] = _random_array(shape, dtype_named(tensor.dtype), seen.get(tensor.name), rng)
        except (MemoryError, ValueError) as error:         # numpy's ValueError: more elements than it can count
            raise InputError(f"of shape {list(shape)} does not fit in memory", what=f"input {tensor.name!r}",
                             hint="choose smaller sizes with --dim NAME=SIZE") from error
    return arrays


def _random_array(shape: tuple[int, ...], dtype: DType, seen: np.ndarray | None,
                  rng: np.random.Generator) -> np.ndarray:
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    if dtype.is_integer and seen is not None and seen.size:
        return rng.choice(seen.reshape(-1), shape)
    return rng.integers(0, 2, shape).astype(dtype.numpy)
