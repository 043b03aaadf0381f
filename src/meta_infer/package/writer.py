"""Program, plan and machine code -> one package file."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    DEBUG,
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
    plan_member,
    total_bytes,
)


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _tensors(program: Program, buffers: Sequence[str], names: Sequence[str]) -> tuple[TensorInfo, ...]:
    found = []
    for buffer, name in zip(buffers, names or buffers, strict=True):
        decl = program.buffers[buffer]
        found.append(TensorInfo(name, decl.dtype.name, tuple(d if isinstance(d, int) else str(d) for d in decl.shape)))
    return tuple(found)


def _symbols(program: Program) -> dict[str, SymbolInfo]:
    given = {d.symbol.name for d in program.input_dims}
    return {n: SymbolInfo(s.lo, s.hi, s.step, n in given) for n, s in program.symbols.items()}


def _target(artifact: Artifact) -> TargetInfo:
    isa = isa_named(artifact.isa)
    return TargetInfo(artifact.isa, isa.architecture, "cpu", tuple(sorted(isa.features)),
                      code_member(artifact.isa), plan_member(artifact.isa), WEIGHTS, "default")


def _vector_bytes(vector: TestVector) -> bytes:
    """A bundled test as an .npz: arrays 'inputs/NAME' and 'outputs/NAME'."""
    arrays = {f"inputs/{n}": a for n, a in vector.inputs.items()}
    arrays |= {f"outputs/{n}": a for n, a in vector.outputs.items()}
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def write_package(path: str | Path, program: Program, memory_plan: MemoryPlan, artifacts: Sequence[Artifact], *,
                  tests: Mapping[str, TestVector] | None = None, report: Mapping[str, Any] | None = None,
                  lock: Mapping[str, Any] | None = None, config: str = "", threads: int | None = None,
                  extra: Mapping[str, bytes] | None = None) -> int:
    """Write the package and return its bytes.

    `artifacts` hold the program's code, one per instruction set. `tests` are bundled test vectors by name, `report`
    and `lock` JSON values, `config` the effective configuration as YAML text, `threads` the default number for
    sessions, `extra` more members by name. The same arguments give the same bytes.
    Raises PackageError when the file cannot be written; what was there before is then untouched.
    """
    placed = place_constants(program)
    members: dict[str, Sequence[Piece]] = {}
    # The kernel table of every artifact lists the program's kernels in their order.
    plan = encode_program(program, memory_plan, tuple(program.kernels), placed)
    for artifact in artifacts:
        members[code_member(artifact.isa)] = [artifact.library]
        members[plan_member(artifact.isa)] = [plan]
    members[DEBUG] = [_json(debug_info(program, memory_plan))]
    for artifact in artifacts:
        for unit, source in artifact.sources.items():
            # One folder when there is one target, the common case: sources/kernels_0.c
            folder = "sources" if len(artifacts) == 1 else f"sources/{artifact.isa}"
            members[f"{folder}/{unit}"] = [source.encode()]
    for name, vector in (tests or {}).items():
        members[f"tests/{name}.npz"] = [_vector_bytes(vector)]
    members[REPORT] = [_json(report or {})]
    members[LOCK] = [_json(lock or {})]
    members[CONFIG] = [config.encode()]
    members |= {name: [data] for name, data in (extra or {}).items()}
    members[WEIGHTS] = placed.pieces
    manifest = Manifest(
        model=program.name, producer=f"meta-infer {__version__}",
        inputs=_tensors(program, program.inputs, program.input_names),
        outputs=_tensors(program, program.outputs, program.output_names),
        symbols=_symbols(program), targets=tuple(_target(a) for a in artifacts),
        arena_bytes=memory_plan.sizes.get("ram", 0), weight_bytes=placed.total, threads=threads)
    manifest = replace(manifest, members={name: _member(pieces) for name, pieces in members.items()})
    text = manifest.text().encode()
    comment = f"meta-infer package {manifest.format_version} sha256:{hashlib.sha256(text).hexdigest()}".encode()
    return write_archive(Path(path), {MANIFEST: [text], **members}, comment)


def _member(pieces: Sequence[Piece]) -> MemberInfo:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return MemberInfo(digest.hexdigest(), total_bytes(pieces))
