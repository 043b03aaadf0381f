"""Programs, plans and machine code, one of each per target -> one package file."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from meta_infer import __version__
from meta_infer.backends.base import Artifact
from meta_infer.hardware.isa import isa_named
from meta_infer.ir.program import MemoryPlan, Program
from meta_infer.package.archive import write_archive
from meta_infer.package.command_table import encode_program
from meta_infer.package.constants import place_constants
from meta_infer.package.debug_info import debug_info
from meta_infer.package.format import (
    CONFIG,
    LOCK,
    MANIFEST,
    REPORT,
    WEIGHTS,
    Manifest,
    MemberInfo,
    Piece,
    SymbolInfo,
    TargetInfo,
    TensorInfo,
    TestVector,
    code_member,
    debug_member,
    plan_member,
    source_member,
    total_bytes,
)
from meta_infer.support.dtypes import as_storage


@dataclass(frozen=True)
class CompiledTarget:
    """A model compiled for one instruction set. Register width decides layouts and packing, so all of it is its own."""

    program: Program
    memory: MemoryPlan
    artifact: Artifact


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _tensors(program: Program, buffers: Sequence[str], names: Sequence[str]) -> tuple[TensorInfo, ...]:
    found = []
    for buffer, name in zip(buffers, names or buffers, strict=True):
        decl = program.buffers[buffer]
        found.append(TensorInfo(name, decl.dtype.name, tuple(d if isinstance(d, int) else str(d) for d in decl.shape)))
    return tuple(found)


def _symbols(programs: Sequence[Program]) -> dict[str, SymbolInfo]:
    return {n: SymbolInfo(s.lo, s.hi, s.step, n in {d.symbol.name for d in program.input_dims})
            for program in programs for n, s in program.symbols.items()}


def _target(artifact: Artifact) -> TargetInfo:
    isa = isa_named(artifact.isa)
    return TargetInfo(artifact.isa, isa.architecture, "cpu", tuple(sorted(isa.features)),
                      code_member(artifact.isa), plan_member(artifact.isa), WEIGHTS, debug_member(artifact.isa),
                      "default")


def _vector_bytes(vector: TestVector) -> bytes:
    """A bundled test as an .npz: arrays 'inputs/NAME' and 'outputs/NAME', types that numpy lacks as their storage."""
    arrays = {f"inputs/{n}": as_storage(a) for n, a in vector.inputs.items()}
    arrays |= {f"outputs/{n}": as_storage(a) for n, a in vector.outputs.items()}
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def write_package(path: str | Path, targets: Sequence[CompiledTarget], *,
                  tests: Mapping[str, TestVector] | None = None, report: Mapping[str, Any] | None = None,
                  lock: Mapping[str, Any] | None = None, config: str = "", threads: int | None = None,
                  extra: Mapping[str, bytes] | None = None) -> int:
    """Write the package and return its bytes.

    `targets` are one model for different instruction sets. `tests` are bundled test vectors by name, `report`
    and `lock` JSON values, `config` the effective configuration as YAML text, `threads` the default number for
    sessions, `extra` more members by name. The same arguments give the same bytes.
    Raises PackageError when the file cannot be written; what was there before is then untouched.
    """
    placements = place_constants([t.program for t in targets])
    members: dict[str, Sequence[Piece]] = {}
    for target, placed in zip(targets, placements, strict=True):
        isa, program = target.artifact.isa, target.program
        members[code_member(isa)] = [target.artifact.library]
        # The kernel table of an artifact lists its program's kernels in their order.
        members[plan_member(isa)] = [encode_program(program, target.memory, tuple(program.kernels), placed)]
        members[debug_member(isa)] = [_json(debug_info(program, target.memory))]
        members |= {source_member(isa, unit): [text.encode()] for unit, text in target.artifact.sources.items()}
    for name, vector in (tests or {}).items():
        members[f"tests/{name}.npz"] = [_vector_bytes(vector)]
    members[REPORT] = [_json(report or {})]
    members[LOCK] = [_json(lock or {})]
    members[CONFIG] = [config.encode()]
    members |= {name: [data] for name, data in (extra or {}).items()}
    members[WEIGHTS] = placements[0].pieces
    program = targets[0].program
    manifest = Manifest(
        model=program.name, producer=f"meta-infer {__version__}",
        inputs=_tensors(program, program.inputs, program.input_names),
        outputs=_tensors(program, program.outputs, program.output_names),
        symbols=_symbols([t.program for t in targets]), targets=tuple(_target(t.artifact) for t in targets),
        arena_bytes=max(t.memory.sizes.get("ram", 0) for t in targets), weight_bytes=placements[0].total,
        threads=threads)
    manifest = replace(manifest, members={name: _member(pieces) for name, pieces in members.items()})
    text = manifest.text().encode()
    comment = f"meta-infer package {manifest.format_version} sha256:{hashlib.sha256(text).hexdigest()}".encode()
    return write_archive(Path(path), {MANIFEST: [text], **members}, comment)


def _member(pieces: Sequence[Piece]) -> MemberInfo:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return MemberInfo(digest.hexdigest(), total_bytes(pieces))
