"""What `native` takes from the file of a calibration: costs, of the same CPU only."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer.hardware.load import calibrated_file, load_profile
from meta_infer.hardware.probe import probe

COST = """
cost:
- {kernel_class: any, precision: fp32, alpha: {ports: 1e-10}, beta: {memory: 1e-10}, gamma: 1e-7,
   delta: {chunks: 1e-8}, fitted: 2026-11-30, samples: 400, error: 0.1}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("META_INFER_CACHE", str(tmp_path))
    return calibrated_file()


def test_costs_are_taken_and_nothing_else(file: Path) -> None:
    text, _ = probe()
    file.write_text(text.replace("compute_units: ", "compute_units: 9") + COST)
    native = load_profile("native")
    assert [(cost.kernel_class, cost.samples) for cost in native.chip.cost] == [("any", 400)]
    assert native.cores < 90 and native.warnings == () and native.bandwidth is None


def test_of_another_cpu(file: Path) -> None:
    text, _ = probe()
    lines = [line for line in text.splitlines() if not line.startswith("description:")]
    file.write_text("\n".join([*lines, "description: some other CPU", COST]))
    native = load_profile("native")
    assert native.chip.cost == () and "is of another CPU" in native.warnings[-1]


@pytest.mark.parametrize("text", ["cost: [", "name: x\n", "devices: 3\n", "\0"])
def test_a_damaged_file_is_a_warning(file: Path, text: str) -> None:
    file.write_text(text)
    native = load_profile("native")
    assert native.chip.cost == () and "not calibrated" in native.warnings[-1]
