"""Real models on processors that this machine does not have: right against ONNX Runtime, under qemu.

`--full` adds the full size of resnet18 and the older x86 level for every model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

from meta_infer import api
from meta_infer.backends.base import Execution
from meta_infer.backends.cpu.emulated import execute_emulated
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_specs
from meta_infer.verify.compare import TOLERANCE
from meta_infer.verify.metrics import distance
from meta_infer.verify.reference import reference_session, run_reference
from meta_infer.verify.samples import random_inputs
from tests.emulators import need_emulator

from .cases import CASES


@dataclass(frozen=True)
class EmulatedCase:
    """`sides` replaces the fixed height and width of the model's image. Emulation is slow: sizes are small."""

    model: str
    isa: str
    dims: tuple[Mapping[str, int], ...] = ({},)
    sides: int | None = None
    full: bool = False

    @property
    def label(self) -> str:
        return f"{self.model}-{self.isa}" + (f"-{self.sides}" if self.sides else "")


IMAGES = ({"width": 32}, {"width": 100})
TEXTS = ({"batch": 1, "seq": 1}, {"batch": 2, "seq": 9})
MODELS = (
    EmulatedCase("crnn_bilstm", "aarch64", IMAGES),
    EmulatedCase("minilm_l6", "aarch64", TEXTS),
    EmulatedCase("resnet18", "aarch64", sides=64),
    EmulatedCase("crnn_bilstm", "x86-64-v2", IMAGES, full=True),
    EmulatedCase("minilm_l6", "x86-64-v2", TEXTS, full=True),
    EmulatedCase("resnet18", "x86-64-v2", full=True),
    EmulatedCase("resnet18", "aarch64", full=True),
)


def with_sides(model: Path, sides: int, folder: Path) -> Path:
    """The model for square images of another size; what was inferred from the old one is dropped."""
    proto = onnx.load(str(model))
    for axis in (2, 3):
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = sides
    del proto.graph.value_info[:]
    path = folder / f"{model.stem}-{sides}.onnx"
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.label)
def test_real_models(case: EmulatedCase, real_model: Callable[[str], Path], tmp_path: Path, full: bool) -> None:
    if case.full and not full:
        pytest.skip("takes minutes: part of --full")
    need_emulator(case.isa)
    shape = next((c.shape for c in CASES if c.name == case.model), ())
    model = real_model(case.model)
    if case.sides is not None:
        model = with_sides(model, case.sides, tmp_path)
    package = api.build(model, isa=(case.isa,), shape=shape, verify=False, output=tmp_path / "p.bin").path
    assert package is not None
    graph, reference = import_model(model, parse_shape_specs(shape)), reference_session(model)
    batches = [random_inputs(graph, dims, seed) for seed, dims in enumerate(case.dims)]
    done = execute_emulated(package, batches, 1, 0, 600.0, case.isa)
    assert isinstance(done, Execution), done
    for feeds, found in zip(batches, done.outputs, strict=True):
        for got, want in zip(found.values(), run_reference(reference, feeds), strict=True):
            assert got.shape == want.shape and distance(got, want).relative <= TOLERANCE
