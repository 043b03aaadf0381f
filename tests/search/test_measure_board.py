"""Measuring on a board behind ssh: as here, with crashes and hangs that cost one candidate, on an Arm board too, and
through a connection that breaks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_infer.hardware.device import Board, open_device
from meta_infer.hardware.load import load_profile
from meta_infer.search.measure.candidate import Candidate, compile_candidates
from meta_infer.search.measure.launch_probe import launch_probe
from meta_infer.search.measure.measure import measure, measure_groups, measured_cpu
from meta_infer.search.measure.measurements import Measurement
from meta_infer.search.measure.memory_probe import memory_probes
from meta_infer.support.errors import DeviceError, DeviceLostError
from tests.boards import connected, ssh_server
from tests.search.test_measure import FEW, GOOD, candidate


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    with connected(tmp_path, monkeypatch) as board:
        yield board


def test_as_on_this_machine(board: Board) -> None:
    """Kernels of all kinds of buffers and scratch, beside the same kernels here: a board of its kind is as fast."""
    profile = load_profile("native")
    wanted = [launch_probe(1), launch_probe(64), *(probe.candidate for probe in memory_probes(profile))]
    made = compile_candidates(wanted, str(profile.isa))
    for threads in (1, 2):
        here, there = (measure(made, rounds=5, seconds=2.0, threads=threads, board=b) for b in (None, board))
        assert [m.name for m in there] == [m.name for m in here]
        assert all(m.ok and m.rounds == len(m.turns) >= 1 and 0 < m.seconds < 1 for m in there), there
        for one, other in zip(here, there, strict=True):
            assert one.seconds / 20 < other.seconds < one.seconds * 20, (one, other)
    assert measured_cpu(board) == measured_cpu()


def test_a_failing_candidate_costs_one_sample(board: Board) -> None:
    wanted = [candidate("good", GOOD), candidate("illegal", "__builtin_trap();"),
              candidate("crash", "*(volatile int*)8 = 1;"), candidate("hang", "for (;;) __asm__ volatile(\"\");"),
              candidate("other", GOOD)]
    found = measure(wanted, **FEW, patience=2.0, board=board)
    assert [m.status for m in found] == [
        "ok", "killed by SIGILL", "killed by SIGSEGV", "no sign of life for 2 s", "ok"]
    assert found[1].seconds == math.inf and found[4].rounds >= 1
    assert not list(Path(board.folder).glob("job*"))


def test_groups_are_told_as_they_end(board: Board) -> None:
    groups = [[candidate("a", GOOD), candidate("b", GOOD)], [candidate("c", GOOD)]]
    told: list[tuple[Measurement, ...]] = []
    measure_groups(groups, told.append, **FEW, board=board)
    assert [[m.name for m in group] for group in told] == [["a", "b"], ["c"]]
    assert all(m.ok and m.turns[0][1] > 1e6 for group in told for m in group)


def test_an_arm_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code is made here for its instruction set; its cores, threads and caches are those of the board."""
    with connected(tmp_path, monkeypatch, arm=True) as board:
        made = compile_candidates([launch_probe(8)], "aarch64")
        for threads in (1, 2):
            (found,) = measure(made, **FEW, threads=threads, board=board)
            assert found.ok and found.seconds > 0 and found.turns[0][1] > 1e6
        assert measured_cpu(board) == "Emulated board, cores 0x41/0xd03"


def groups_of(count: int) -> list[list[Candidate]]:
    return [[candidate(f"{i}", GOOD + f"/* {i} */")] for i in range(count)]


def test_a_connection_that_breaks_is_made_again(board: Board) -> None:
    """What was told stays; the group that was running goes on."""
    told: list[tuple[Measurement, ...]] = []

    def tell(group: tuple[Measurement, ...]) -> None:
        told.append(group)
        if len(told) == 2:
            assert board._keeper is not None
            board._keeper.kill()

    measure_groups(groups_of(4), tell, rounds=3, seconds=0.3, board=board)
    assert [[m.name for m in group] for group in told] == [["0"], ["1"], ["2"], ["3"]]
    assert all(m.ok and m.rounds >= 1 for group in told for m in group)


def test_a_board_that_goes_away_costs_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Measurement, ...]] = []
    with ssh_server(tmp_path / "board") as server:
        monkeypatch.setenv("META_INFER_SSH", server.ssh)

        def tell(group: tuple[Measurement, ...]) -> None:
            told.append(group)
            if len(told) == 2:
                server.hang_up()

        with open_device(server.url) as board, pytest.raises(DeviceError, match="runs no ssh server"):
            measure_groups(groups_of(10), tell, rounds=30, seconds=5.0, board=board)
    assert 2 <= len(told) < 10 and all(m.ok for group in told for m in group)


def test_a_folder_that_lets_no_program_run(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong `noexec` on the board's disk, as its shell tells it."""
    keep = board.keep

    def unusable(file: Path) -> str:
        path = keep(file)
        Path(path).chmod(0o600)
        return path

    monkeypatch.setattr(board, "keep", unusable)
    with pytest.raises(DeviceError, match="(?s)does not run the measuring program.*ssh://host/FOLDER"):
        measure([candidate("good", GOOD)], **FEW, board=board)
    assert not issubclass(DeviceError, DeviceLostError)
