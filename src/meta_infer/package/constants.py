"""Where each constant lies in weights.bin: 64-byte aligned, equal contents once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.program import Program
from meta_infer.package.format import CONSTANT_ALIGNMENT, Piece


@dataclass(frozen=True)
class ConstantPlacement:
    """Where the constants of one program lie: `offsets` and `sizes` in bytes per constant buffer.

    `pieces` are the contents of weights.bin, which all targets of a package share, `total` their bytes.
    """

    offsets: Mapping[str, int]
    sizes: Mapping[str, int]
    pieces: tuple[Piece, ...]
    total: int


def place_constants(programs: Sequence[Program]) -> tuple[ConstantPlacement, ...]:
    """Lay out the contents of all const buffers, program after program in the order they are declared.

    Targets pack most weights for their own register width, but biases, tables and whatever two of them pack alike are
    stored once.
    """
    places: list[tuple[dict[str, int], dict[str, int]]] = []
    known: dict[bytes, int] = {}
    pieces: list[Piece] = []
    total = 0
    for program in programs:
        offsets: dict[str, int] = {}
        sizes: dict[str, int] = {}
        places.append((offsets, sizes))
        for name, decl in program.buffers.items():
            if decl.kind != "const" or decl.alias is not None:
                continue
            raw = memoryview(np.ascontiguousarray(program.constants[name]).reshape(-1).view(np.uint8).data)
            key = hashlib.sha256(raw).digest() + len(raw).to_bytes(8, "little")
            if key not in known:
                padding = -total % CONSTANT_ALIGNMENT
                if padding:
                    pieces.append(bytes(padding))
                known[key] = total + padding
                pieces.append(raw)
                total += padding + len(raw)
            offsets[name], sizes[name] = known[key], len(raw)
    return tuple(ConstantPlacement(offsets, sizes, tuple(pieces), total) for offsets, sizes in places)
