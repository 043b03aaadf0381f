"""Opening a package: archive, manifest, checksums. Weights are mapped from the file, never copied."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from meta_infer.runtime.archive import REBUILD, Archive, read_archive
from meta_infer.runtime.debug_info import DebugInfo, read_debug_info
from meta_infer.runtime.layers import evaluate_dim
from meta_infer.support.array_files import UnreadableArrays, arrays_of
from meta_infer.support.dtypes import dtype_named
from meta_infer.support.errors import PackageError

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_LARGEST = 1 << 56
_COMMENT = "meta-infer package"


@dataclass(frozen=True)
class Tensor:
    """An input or output as the manifest has it; dims are numbers or expressions of symbols."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    @cached_property
    def numpy(self) -> np.dtype:
        return dtype_named(self.dtype).numpy

    @cached_property
    def storage(self) -> np.dtype:
        """The dtype of the elements' memory: that of `numpy`, but for types which numpy lacks."""
        return dtype_named(self.dtype).storage.numpy


@dataclass(frozen=True)
class Target:
    isa: str
    architecture: str
    device: str
    features: frozenset[str]
    code: str
    plan: str
    weights: str
    debug: str


class Package:
    """An open package file. Immutable; members are read from one mapping of the file, kept until nobody uses it."""

    def __init__(self, path: str | Path, *, verify: bool = False) -> None:
        """Open `path`. Checks the archive and the manifest, with `verify` every member; raises PackageError."""
        self.path = Path(path)
        self._data = memoryview(_map_file(self.path))
        self._archive: Archive = read_archive(self._data, str(self.path))
        self.manifest = self._read_manifest()
        if verify:
            for name in self._archive.members:
                self.check(name)

    def _fail(self, problem: str, member: str = "", hint: str = REBUILD) -> NoReturn:
        what = f"package {str(self.path)!r}" + (f", member {member!r}" if member else "")
        raise PackageError(problem, what=what, hint=hint)

    def _read_manifest(self) -> Mapping[str, Any]:
        words = self._archive.comment.decode("ascii", "replace").split()
        if " ".join(words[:2]) != _COMMENT or len(words) != 4 or not words[2].isdigit():
            self._fail("is a ZIP file, but not a meta-infer package")
        if int(words[2]) != FORMAT_VERSION:
            self._fail(f"has format version {words[2]}, this meta-infer reads {FORMAT_VERSION}",
                       hint="build it again with this version, or load it with the one that built it")
        if MANIFEST not in self._archive.members:
            self._fail("is missing", MANIFEST)
        text = bytes(self.member(MANIFEST))
        if words[3] != f"sha256:{hashlib.sha256(text).hexdigest()}":
            self._fail("does not match its checksum", MANIFEST)
        try:
            manifest = json.loads(text)
            known = {MANIFEST, *manifest["members"]}
            if not all(isinstance(row["sha256"], str) for row in manifest["members"].values()):
                raise TypeError("a checksum is no text")
            self.inputs, self.outputs = _tensors(manifest["inputs"]), _tensors(manifest["outputs"])
            self.targets = tuple(map(_target, manifest["targets"]))
            self.symbols = {str(name): _limits(limits) for name, limits in manifest["symbols"].items()}
            _check_dims((*self.inputs, *self.outputs), self.symbols)
            for field in ("weight_bytes", "arena_bytes", "format_version", "threads"):
                if not isinstance(manifest[field], int) and (field, manifest[field]) != ("threads", None):
                    raise TypeError(f"{field} is {str(manifest[field])[:80]}")
            self.threads: int | None = manifest["threads"]
            self.model, self.producer = str(manifest["model"]), str(manifest["producer"])
        except (ValueError, KeyError, TypeError, AttributeError, SyntaxError, OverflowError, RecursionError,
                MemoryError) as error:
            self._fail(f"is not a manifest of format {FORMAT_VERSION}: {error!r}", MANIFEST)
        for name in sorted(known ^ set(self._archive.members)):
            self._fail("is in the manifest but not in the file" if name in known else "is not in the manifest", name)
        return manifest

    def member(self, name: str) -> memoryview:
        """The bytes of a member, in place."""
        if name not in self._archive.members:
            self._fail("is missing", name)
        member = self._archive.members[name]
        return self._data[member.offset:member.offset + member.size]

    def place(self, name: str) -> tuple[int, int]:
        """Where the data of a member begins in the file, at a page boundary, and its bytes."""
        data = self.member(name)
        return self._archive.members[name].offset, len(data)

    def check(self, name: str) -> memoryview:
        """The bytes of a member after comparing them with their checksum."""
        data = self.member(name)
        if name != MANIFEST and hashlib.sha256(data).hexdigest() != self.manifest["members"][name]["sha256"]:
            self._fail("does not match its checksum: the file is damaged", name)
        return data

    def names(self) -> tuple[str, ...]:
        return tuple(self._archive.members)

    def json(self, name: str) -> Any:
        """A member that holds JSON, checked."""
        data = bytes(self.check(name))
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            self._fail(f"is not JSON: {error}", name)

    def text(self, name: str) -> str:
        """A member that holds text, checked."""
        data = bytes(self.check(name))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            self._fail(f"is not text: {error}", name)

    def debug_info(self, target: Target) -> DebugInfo:
        """What a target's code and command table stand for."""
        tree = self.json(target.debug)
        try:
            return read_debug_info(tree)
        except ValueError as error:
            self._fail(f"is not debug information of format {FORMAT_VERSION}: {error}", target.debug)

    def tests(self) -> dict[str, tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        """Bundled test vectors: name -> (inputs, expected outputs)."""
        found = {}
        for name in self.names():
            if name.startswith("tests/") and name.endswith(".npz"):
                try:
                    arrays = arrays_of(self.check(name))
                except UnreadableArrays as error:
                    self._fail(f"is no bundled test: {error}", name)
                found[name[6:-4]] = tuple(
                    {key.removeprefix(side): array for key, array in arrays.items() if key.startswith(side)}
                    for side in ("inputs/", "outputs/"))
        return found  # type: ignore[return-value]


def _tensors(rows: Sequence[Mapping[str, Any]]) -> tuple[Tensor, ...]:
    found = tuple(Tensor(row["name"], row["dtype"], tuple(row["shape"])) for row in rows)
    for tensor in found:
        _ = tensor.numpy                                   # KeyError for a dtype of the future, or not of numpy
        if not isinstance(tensor.name, str) or not all(isinstance(dim, int | str) for dim in tensor.shape):
            raise TypeError(f"shape of {tensor.name!r}")
    return found


def _target(row: Mapping[str, Any]) -> Target:
    texts = {field: row[field] for field in ("isa", "architecture", "device", "code", "plan", "weights", "debug")}
    features = row["features"]
    if not isinstance(features, list) or not all(isinstance(text, str) for text in (*texts.values(), *features)):
        raise TypeError(f"target {str(row)[:80]}")
    return Target(features=frozenset(features), **texts)


def _limits(limits: Mapping[str, Any]) -> dict[str, int]:
    found = {field: int(limits[field]) for field in ("min", "max", "step", "given")}
    least = 0 if found["given"] else -_LARGEST                # what a run works out may be negative: a step of Slice
    if not least <= found["min"] <= found["max"] <= _LARGEST or found["step"] < 1:
        raise ValueError(f"no range: {found}")
    return found


def _check_dims(tensors: Sequence[Tensor], symbols: Mapping[str, Mapping[str, int]]) -> None:
    """Every dim is a size, or an expression of known symbols that can be evaluated."""
    smallest = {name: limits["min"] for name, limits in symbols.items()}
    for tensor in tensors:
        for dim in tensor.shape:
            if not -_LARGEST <= evaluate_dim(dim, smallest) <= _LARGEST:
                raise ValueError(f"a dimension of {tensor.name!r}")


def _map_file(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError as error:                             # an empty file cannot be mapped
        raise PackageError("is empty", what=f"package {str(path)!r}", hint=REBUILD) from error
    except OSError as error:
        raise PackageError(f"cannot be opened: {error.strerror}", what=f"package {str(path)!r}",
                           hint="check the path") from error
