"""Packages on a board behind ssh: one of this machine's kind, and one with an Arm processor, which is emulated."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from meta_infer import api
from meta_infer.backends.base import Execution, Failure
from meta_infer.backends.cpu.backend import CPU
from meta_infer.backends.cpu.on_board import BoardPackage, board_package
from meta_infer.hardware.device import Board
from meta_infer.hardware.load import load_profile
from meta_infer.runtime.session import load
from meta_infer.support.errors import DeviceError, InputError, UsageError
from tests.boards import connected
from tests.build import tiny_models


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small convolutional network with batch 1..3, for this machine and for Arm."""
    model = tmp_path_factory.mktemp("board") / "block.onnx"
    onnx.save(tiny_models.convolution_block_with_residual(), model)
    isas = (str(load_profile("native").isa), "aarch64")
    path = api.build(model, isa=isas, shape=("x=1..3,5,9,7",), verify=False).path
    assert path is not None
    return path


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    with connected(tmp_path, monkeypatch) as board:
        yield board


def batches(*sizes: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(sum(sizes))
    return [{"x": rng.standard_normal((n, 5, 9, 7)).astype(np.float32)} for n in sizes]


def test_as_on_this_machine(package: Path, board: Board) -> None:
    inputs, session = batches(2, 1, 3), load(package)
    done = CPU.execute(package, inputs, 2, 3, 60.0, None, board)
    assert isinstance(done, Execution), done
    assert len(done.seconds) == 9 and all(0 < s < 1 for s in done.seconds)
    for feeds, found in zip(inputs, done.outputs, strict=True):
        np.testing.assert_array_equal(found["y"], session.run(None, feeds)[0])


def test_on_another_processor(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its best target is taken, and two threads of the board compute."""
    with connected(tmp_path, monkeypatch, arm=True) as board, board_package(package, board) as there:
        assert (there.isa, there.threads) == ("aarch64", 2)
        for feeds in batches(3, 1):
            here = load(package).run(None, feeds)[0]
            np.testing.assert_allclose(there.run(None, feeds)[0], here, rtol=1e-4, atol=1e-5)


def test_timed_runs(package: Path, board: Board) -> None:
    (feeds,) = batches(1)
    with board_package(package, board, threads=1) as there:
        assert len(there.timed_runs(feeds, 3, 7, 0.0)) == 7
        assert len(there.timed_runs(feeds, 1, None, 0.05)) > 10


def test_a_time_limit(package: Path, board: Board) -> None:
    begun = time.monotonic()
    done = CPU.execute(package, batches(1), 1, 10 ** 12, 1.0, None, board)
    assert done == Failure("still running after 1 s") and time.monotonic() - begun < 15


def test_a_target_beyond_the_processor(package: Path, board: Board) -> None:
    with board_package(package, board) as there:
        made = BoardPackage(there.package, board, there._folder, 1, "aarch64")
        with pytest.raises(DeviceError, match="the package failed there"):
            made.run(None, batches(1)[0])


def test_wrong_requests(package: Path, board: Board) -> None:
    with pytest.raises(InputError, match="no such input"):
        CPU.execute(package, [{"z": np.zeros(1, np.float32)}], board=board)
    with pytest.raises(UsageError, match="no target 'riscv64'"):
        CPU.execute(package, batches(1), target="riscv64", board=board)


def test_nothing_stays_behind(package: Path, board: Board) -> None:
    with board_package(package, board) as there:
        there.run(None, batches(1)[0])
        assert len(list(Path(board.folder).glob("job*"))) == 1
    assert not list(Path(board.folder).glob("job*"))
