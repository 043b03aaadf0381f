"""Whole packages on a board behind ssh: in turns, with one that fails, and with a clock around every command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from meta_infer import api
from meta_infer.hardware.device import Board
from meta_infer.hardware.load import load_profile
from meta_infer.runtime.reader import Package
from meta_infer.runtime.session import load
from meta_infer.search.whole.whole_board import placed_on_board, turns_on_board
from tests.boards import connected
from tests.build import tiny_models

POINTS = [{"x": np.ones((n, 5, 9, 7), np.float32)} for n in (1, 3)]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The same network for this machine and for Arm, and one whose code is spoiled."""
    folder = tmp_path_factory.mktemp("whole")
    onnx.save(tiny_models.convolution_block_with_residual(), folder / "block.onnx")
    made: dict[str, Path] = {}
    for name, isa in (("here", str(load_profile("native").isa)), ("arm", "aarch64")):
        path = api.build(folder / "block.onnx", output=folder / f"{name}.bin", isa=(isa,), shape=("x=1..3,5,9,7",),
                         verify=False).path
        assert path is not None
        made[name] = path
    package = Package(made["here"])
    begin, length = package.place(package.targets[0].code)
    spoiled = bytearray(made["here"].read_bytes())
    spoiled[begin:begin + length] = bytes(length)
    made["spoiled"] = folder / "spoiled.bin"
    made["spoiled"].write_bytes(spoiled)
    return made


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    with connected(tmp_path, monkeypatch) as board:
        yield board


def test_in_turns(packages: Mapping[str, Path], board: Board) -> None:
    """Every package has every round, at all points; one that fails has none and leaves the others theirs."""
    files = [packages["here"], packages["spoiled"], packages["here"]]
    one, none, other = turns_on_board(board, files, POINTS, threads=[1, 1, 2], rounds=5, seconds=0.3)
    assert none == () and len(one) == len(other) == 5
    assert all(0 < seconds < 0.1 for seconds in (*one, *other))
    assert turns_on_board(board, files[1:2], POINTS, threads=[1], rounds=2, seconds=0.1) == [()]
    assert not list(Path(board.folder).glob("job*"))


def test_every_command(packages: Mapping[str, Path], board: Board) -> None:
    commands = load(packages["here"]).info.commands
    found = placed_on_board(board, packages["here"], POINTS, [], commands, threads=1, rounds=4, seconds=0.4)
    assert found is not None and len(found) == 2
    for rounds in found:
        assert 3 <= len(rounds) <= 4
        for whole, parts in rounds:
            assert len(parts) == commands and min(parts) >= 0
            assert whole / 10 < sum(parts) < 10 * whole, "the clock itself takes part of so short a run"
    held = placed_on_board(board, packages["here"], POINTS[:1], [0, 1], commands, threads=2, rounds=3, seconds=0.1)
    assert held is not None and all(parts[0] == parts[1] == 0 for _, parts in held[0])
    assert placed_on_board(board, packages["spoiled"], POINTS, [], commands, threads=1, rounds=3, seconds=0.1) is None


def test_on_another_processor(packages: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(tmp_path, monkeypatch, arm=True) as board:
        (found,) = turns_on_board(board, [packages["arm"]], POINTS, threads=[2], rounds=2, seconds=0.2)
        assert len(found) == 2 and min(found) > 0
        commands = load_commands(packages["arm"])
        placed = placed_on_board(board, packages["arm"], POINTS[:1], [], commands, threads=2, rounds=3, seconds=0.1)
        assert placed is not None and len(placed[0]) == 3


def load_commands(path: Path) -> int:
    """Commands of a package that does not run here: those of the same network for this machine are as many."""
    return load(path.with_name("here.bin")).info.commands
