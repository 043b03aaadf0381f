"""Packages on processors that this machine does not have, through the interface that runs them here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from meta_infer import api
from meta_infer.backends.base import Execution, Failure
from meta_infer.backends.cpu import emulated
from meta_infer.backends.cpu.backend import CPU
from meta_infer.backends.cpu.emulated import EMULATORS, execute_emulated
from meta_infer.backends.cpu.execute import execute_package
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_specs
from meta_infer.support.errors import InputError, ToolchainError, UsageError
from meta_infer.verify.reference import reference_session, run_reference
from meta_infer.verify.samples import random_inputs
from tests.build import tiny_models
from tests.build.sized_models import CASES
from tests.emulators import need_emulator
from tests.models.control_flow import if_and_loop

TARGETS = ("x86-64-v2", "x86-64-v3", "aarch64", "riscv64")
by_target = pytest.mark.parametrize("isa", TARGETS)


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(ONNX file, package for all targets) of a small convolutional network with batch 1..3."""
    model = tmp_path_factory.mktemp("emulated") / "block.onnx"
    onnx.save(tiny_models.convolution_block_with_residual(), model)
    path = api.build(model, isa=TARGETS, shape=("x=1..3,5,9,7",), verify=False).path
    assert path is not None
    return model, path


def batches(*sizes: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(sum(sizes))
    return [{"x": rng.standard_normal((n, 5, 9, 7)).astype(np.float32)} for n in sizes]


@by_target
def test_batches_of_several_sizes(block: tuple[Path, Path], isa: str) -> None:
    need_emulator(isa)
    inputs, reference = batches(2, 1, 3), reference_session(block[0])
    done = execute_emulated(block[1], inputs, 1, 2, 60.0, isa)
    assert isinstance(done, Execution), done
    assert len(done.seconds) == 6 and all(s > 0 for s in done.seconds)
    for feeds, found in zip(inputs, done.outputs, strict=True):
        np.testing.assert_allclose(found["y"], run_reference(reference, feeds)[0], rtol=1e-4, atol=1e-5)


def test_the_interface_emulates_what_this_machine_lacks(block: tuple[Path, Path]) -> None:
    need_emulator("aarch64")
    done = CPU.execute(block[1], batches(1), 1, 0, 60.0, "aarch64")
    here = CPU.execute(block[1], batches(1), 1, 0, 60.0, None)
    assert isinstance(done, Execution) and isinstance(here, Execution)
    np.testing.assert_allclose(done.outputs[0]["y"], here.outputs[0]["y"], rtol=1e-4, atol=1e-5)


@by_target
def test_threads_change_nothing(block: tuple[Path, Path], isa: str) -> None:
    need_emulator(isa)
    one, four = (execute_emulated(block[1], batches(3), threads, 0, 60.0, isa) for threads in (1, 4))
    assert isinstance(one, Execution) and isinstance(four, Execution)
    np.testing.assert_array_equal(one.outputs[0]["y"], four.outputs[0]["y"])


@by_target
def test_branches_and_loops(tmp_path: Path, isa: str) -> None:
    """Every kind of command, captured values, a size that only running can tell."""
    need_emulator(isa)
    model = tmp_path / "flow.onnx"
    onnx.save(if_and_loop(), model)
    rows = "x=1..16,8"
    package = api.build(model, isa=(isa,), shape=(rows,), verify=False).path
    assert package is not None
    graph, reference = import_model(model, parse_shape_specs((rows,))), reference_session(model)
    feeds = [random_inputs(graph, {"rows": n}, seed=n) for n in (1, 5, 16)]
    done = execute_emulated(package, feeds, 1, 0, 60.0, isa)
    assert isinstance(done, Execution), done
    for given, found in zip(feeds, done.outputs, strict=True):
        for got, want in zip(found.values(), run_reference(reference, given), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_outputs_that_stay_in_the_session(tmp_path: Path) -> None:
    """Sizes without a bound: the driver learns from the run where an output lies and how large it is."""
    need_emulator("aarch64")
    make, feeds = CASES["loop_that_grows"]
    onnx.save(make(), tmp_path / "m.onnx")
    package = api.build(tmp_path / "m.onnx", isa=("aarch64",), verify=False).path
    reference = reference_session(tmp_path / "m.onnx")
    assert package is not None
    done = execute_emulated(package, feeds, 2, 1, 60.0, "aarch64")
    assert isinstance(done, Execution), done
    for given, found in zip(feeds, done.outputs, strict=True):
        for got, want in zip(found.values(), run_reference(reference, given), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4)


def test_code_beyond_the_processor_ends_with_an_illegal_instruction(block: tuple[Path, Path],
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes the other tests tell something: the emulated processor has no AVX."""
    need_emulator("x86-64-v2")
    monkeypatch.setattr(emulated, "EMULATORS", {"x86-64-v3": EMULATORS["x86-64-v2"]})
    assert execute_emulated(block[1], batches(1), 1, 0, 60.0, "x86-64-v3") == Failure("killed by SIGILL")


def test_an_emulator_that_is_not_installed(block: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated.shutil, "which", lambda name: None)
    with pytest.raises(ToolchainError) as caught:
        execute_package(block[1], batches(1), target="aarch64")
    assert "qemu-aarch64-static" in str(caught.value) and caught.value.hint == "apt-get install qemu-user-static"


def test_wrong_requests(block: tuple[Path, Path], tmp_path: Path) -> None:
    need_emulator("aarch64")
    with pytest.raises(InputError, match="no such input"):
        execute_emulated(block[1], [{"y": np.zeros(1, np.float32)}], 1, 0, 60.0, "aarch64")
    with pytest.raises(UsageError, match="no target 'x86-64-v4'"):
        execute_emulated(block[1], batches(1), 1, 0, 60.0, "x86-64-v4")
    failed = execute_emulated(block[1], batches(1), 1000, 0, 60.0, "aarch64")
    assert isinstance(failed, Failure) and "threads" in failed.reason
