"""Names and versions of the package format, and what its manifest says. docs/package-format.md describes it.

A package is a ZIP of stored members. The archive comment holds the format's name and the SHA-256 of manifest.json,
which in turn holds the SHA-256 of every other member.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

FORMAT_VERSION = 1
PLAN_VERSION = 3
PAGE = 4096
"""Data of every member begins at a multiple of this many bytes, so that it can be mapped."""
CONSTANT_ALIGNMENT = 64

MANIFEST = "manifest.json"
WEIGHTS = "weights.bin"
REPORT = "report.json"
LOCK = "build.lock.json"
CONFIG = "config.yaml"


def code_member(isa: str) -> str:
    return f"targets/{isa}/code.so"


def plan_member(isa: str) -> str:
    return f"targets/{isa}/plan.bin"


def debug_member(isa: str) -> str:
    return f"targets/{isa}/debug.json"


def source_member(isa: str, unit: str) -> str:
    return f"sources/{isa}/{unit}"


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: ONNX name, dtype name, dims as numbers or expressions such as 'W' or '2*W + 1'."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class SymbolInfo:
    """The values a named dimension may take: min, min + step, ..., max. `given` is False for one found by running."""

    min: int
    max: int
    step: int
    given: bool = True


@dataclass(frozen=True)
class TargetInfo:
    """Code for one kind of device: members of the archive and what the processor must have."""

    isa: str
    architecture: str
    device: str
    features: tuple[str, ...]
    code: str
    plan: str
    weights: str
    debug: str
    packing: str


@dataclass(frozen=True)
class MemberInfo:
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """manifest.json. `threads` is the number to use when the user names none, None for one per core."""

    model: str
    producer: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    symbols: Mapping[str, SymbolInfo]
    targets: tuple[TargetInfo, ...]
    arena_bytes: int
    weight_bytes: int
    threads: int | None = None
    members: Mapping[str, MemberInfo] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"


@dataclass(frozen=True)
class TestVector:
    """Inputs of one run and the outputs it must give, by ONNX name."""

    __test__ = False                      # not a test case, whatever pytest thinks of its name

    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]


Piece = bytes | memoryview
"""A part of a member's contents; arrays are written from where they lie, without a copy."""


def total_bytes(pieces: Sequence[Piece]) -> int:
    return sum(len(p) for p in pieces)
