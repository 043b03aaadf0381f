"""Threads and processes that share packages: two packages at once, forks, many callers, one processor."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from meta_infer import api
from meta_infer.runtime.session import Session, load
from tests.build.tiny_models import MODELS

from .programs import expected, feeds

CALLERS = 8
RUNS = 40


@pytest.fixture(scope="module")
def network_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of another model, with kernels that use several threads."""
    folder = tmp_path_factory.mktemp("network")
    onnx.save(MODELS["convolution_block_with_residual"](), folder / "m.onnx")
    path = api.build(folder / "m.onnx", verify=False).path
    assert path is not None
    return path


def image(seed: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).standard_normal((1 + seed % 3, 5, 9, 7)).astype(np.float32)}


def same(found: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(found, want, strict=True))


def in_child(action: Callable[[], bool]) -> bool:
    """Whether `action` is true in a forked child."""
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = action()
        finally:
            os._exit(0 if good else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def right(hand: Session, network: Session, want: Sequence[np.ndarray]) -> bool:
    """Both packages compute what they should, in turns."""
    fed = feeds(8, 64, 3, True)
    return all(same(hand.run(None, fed), expected(fed["x"], 3, True)) and same(network.run(None, image(1)), want)
               for _ in range(5))


def test_two_packages_before_and_after_a_fork(package_file: Path, network_file: Path) -> None:
    with load(package_file, threads=2) as hand, load(network_file, threads=2) as network:
        want = network.run(None, image(1))
        assert right(hand, network, want)
        assert in_child(lambda: right(hand, network, want) and in_child(lambda: right(hand, network, want)))
        assert right(hand, network, want)

        def loads_again() -> bool:
            with load(network_file, threads=3) as third:
                return same(third.run(None, image(1)), want) and right(hand, network, want)

        assert in_child(loads_again)
        assert right(hand, network, want)


def test_the_first_package_is_closed_before_the_second(package_file: Path, network_file: Path) -> None:
    """The pool of the first serves the second, also when the first is gone."""
    with load(network_file, threads=2) as network:
        want = network.run(None, image(1))
    hand = load(package_file, threads=2)
    with load(network_file, threads=2) as network:
        hand.close()
        assert same(network.run(None, image(1)), want)
        assert in_child(lambda: same(network.run(None, image(1)), want))


@pytest.mark.parametrize("sessions", [1, CALLERS])
def test_eight_callers(network_file: Path, sessions: int) -> None:
    """On one session they take turns, on their own they share the pool; results are the same bytes."""
    with load(network_file, threads=1) as session:
        wanted = [session.run(None, image(seed)) for seed in range(6)]
    opened = [load(network_file, threads=2) for _ in range(sessions)]
    wrong: list[str] = []

    def work(number: int) -> None:
        try:
            for i in range(RUNS):
                seed = (number + i) % len(wanted)
                if not same(opened[number % sessions].run(None, image(seed)), wanted[seed]):
                    wrong.append(f"caller {number}, run {i}")
        except Exception as error:  # noqa: BLE001 - a thread's exception would be lost
            wrong.append(f"caller {number}: {error!r}")

    callers = [threading.Thread(target=work, args=(n,)) for n in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for session in opened:
        session.close()
    assert wrong == []


def test_one_processor(network_file: Path) -> None:
    """A process that may use one processor takes one thread by default, and works with more as well."""
    with load(network_file, threads=2) as session:
        want = session.run(None, image(1))

    def confined() -> bool:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        with load(network_file) as default, load(network_file, threads=4) as crowded:
            return default.threads == 1 and all(
                same(s.run(None, image(1)), want) for s in (default, crowded) for _ in range(RUNS))

    assert in_child(confined)
