"""Running a package: results, shapes, errors, threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import meta_infer
from meta_infer.runtime.session import Session, load
from meta_infer.support.errors import InputError, UsageError

from .programs import expected, feeds

CASES = [(1, 4, 0, True), (1, 4, 1, False), (3, 20, 2, True), (8, 256, 6, False), (7, 252, 5, True), (2, 8, 3, True)]


def assert_same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("arena", ["", "separate", "poison"])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_matches_numpy_at_every_shape(package_file: Path, threads: int, arena: str, monkeypatch) -> None:
    monkeypatch.setenv("META_INFER_ARENA", arena)
    with load(package_file, threads=threads) as session:
        for seed in range(3):
            for batch, width, steps, flag in CASES:
                fed = feeds(batch, width, steps, flag, seed)
                assert_same(session.run(None, fed), expected(fed["x"], steps, flag))


def test_realtime_touches_memory_at_load(package_file: Path) -> None:
    fed = feeds(2, 8, 3, True)
    with load(package_file, threads=2, mode="realtime") as session:
        assert_same(session.run(None, fed), expected(fed["x"], 3, True))


def test_describes_inputs_and_outputs_as_onnx_runtime_does(package_file: Path) -> None:
    with meta_infer.load(package_file) as session:
        assert [(i.name, i.shape, i.type) for i in session.get_inputs()] == [
            ("x", ("B", "W"), "tensor(float)"), ("steps", (), "tensor(int64)"), ("flag", (), "tensor(bool)")]
        assert [o.name for o in session.get_outputs()] == ["rows", "tail", "same"]
        assert session.get_outputs()[0].shape == ("steps_taken", "B", "W")


def test_outputs_by_name_and_order(package_file: Path) -> None:
    fed = feeds(2, 8, 2, True)
    rows, tail, _ = expected(fed["x"], 2, True)
    with load(package_file, threads=1) as session:
        assert_same(session.run(["tail", "rows"], fed), [tail, rows])
        assert session.run([], fed) == []


def test_strided_and_readonly_inputs(package_file: Path) -> None:
    fed = feeds(4, 16, 2, False)
    want = expected(fed["x"], 2, False)
    wide = np.zeros((8, 32), np.float32)
    wide[::2, ::2] = fed["x"]
    frozen = fed["x"].copy()
    frozen.setflags(write=False)
    unaligned = np.zeros(fed["x"].nbytes + 1, np.uint8)[1:].view(np.float32).reshape(4, 16)
    unaligned[...] = fed["x"]
    with load(package_file, threads=2) as session:
        for x in (wide[::2, ::2], np.asfortranarray(fed["x"]), frozen, unaligned):
            before = x.copy()
            assert_same(session.run(None, {**fed, "x": x}), want)
            np.testing.assert_array_equal(x, before)


def test_outputs_of_the_caller(package_file: Path) -> None:
    fed = feeds(3, 12, 4, True)
    want = expected(fed["x"], 4, True)
    with load(package_file, threads=1) as session:
        tail, rows = np.empty(12, np.float32), np.empty(6 * 8 * 256, np.float32)
        got = session.run_with(fed, {"tail": tail, "rows": rows})
        assert got[1] is tail and np.shares_memory(got[0], rows)
        assert_same(got, want)
        for wrong in (np.empty(11, np.float32), np.empty(12, np.float64), np.empty(24, np.float32)[::2]):
            with pytest.raises(InputError, match="output 'tail'"):
                session.run_with(fed, {"tail": wrong})


@pytest.mark.parametrize(("change", "says"), [
    ({"X": np.zeros(1)}, "no such input.*\n.*did you mean 'x'"),
    ({"x": None}, "input 'x': has dtype object"),
    ({"x": np.zeros((2, 8))}, "float64, expected float32"),
    ({"x": np.zeros((2, 8, 1), np.float32)}, r"3 dimensions.*B \(1\.\.8\), W \(4\.\.256 in steps of 4\)"),
    ({"x": np.zeros((2, 9), np.float32)}, r"dimension 1 is 9.*in steps of 4"),
    ({"x": np.zeros((9, 8), np.float32)}, "dimension 0 is 9"),
    ({"x": np.zeros((0, 8), np.float32)}, "dimension 0 is 0"),
    ({"x": np.zeros((2, 260), np.float32)}, "dimension 1 is 260"),
    ({"steps": np.array([1])}, "1 dimensions"),
    ({"steps": np.array(7)}, "pass|no room|steps_taken"),
])
def test_wrong_inputs_are_named(package_file: Path, change: dict, says: str) -> None:
    with load(package_file, threads=1) as session:
        fed = feeds(2, 8, 1, True)
        with pytest.raises(InputError, match=says):
            session.run(None, {**fed, **change})
        assert_same(session.run(None, fed), expected(fed["x"], 1, True))       # and the session still works


def test_missing_input_and_unknown_output(package_file: Path) -> None:
    with load(package_file, threads=1) as session:
        with pytest.raises(InputError, match="'steps': is missing"):
            session.run(None, {"x": np.zeros((1, 4), np.float32)})
        with pytest.raises(InputError, match="did you mean 'rows'"):
            session.run(["row"], feeds(1, 4, 1, True))


def test_wrong_settings(package_file: Path, monkeypatch) -> None:
    for threads in (0, -1, 64, 1.5):
        with pytest.raises(UsageError, match="threads"):
            load(package_file, threads=threads)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="mode"):
        load(package_file, mode="fast")
    with load(package_file, mode="eco") as session:
        assert session.threads == 1
        with pytest.raises(UsageError, match="threads"):
            session.run(None, feeds(1, 4, 1, True), threads=2)
    with pytest.raises(UsageError, match="closed"):
        session.run(None, feeds(1, 4, 1, True))
    session.close()
    monkeypatch.setenv("META_INFER_ARENA", "twice")
    with pytest.raises(UsageError, match="META_INFER_ARENA"):
        load(package_file)


def test_sessions_and_callers_in_parallel(package_file: Path) -> None:
    """Several threads on one session take turns; other sessions run at the same time."""
    wrong: list[str] = []
    with load(package_file, threads=3) as shared, load(package_file, threads=2) as other:
        def work(number: int) -> None:
            session = (shared, other)[number % 2]
            for i in range(60):
                batch, width, steps, flag = CASES[(number + i) % len(CASES)]
                fed = feeds(batch, width, steps, flag, number * 100 + i)
                got = session.run(None, fed, threads=1 + i % 2)
                want = expected(fed["x"], steps, flag)
                if not all(np.array_equal(a, b) for a, b in zip(got, want, strict=True)):
                    wrong.append(f"caller {number}, run {i}")

        callers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert wrong == []


def test_profile_and_layers(package_file: Path) -> None:
    fed = feeds(3, 8, 2, True)
    with load(package_file, threads=1) as session:
        times = session.profile(fed)
        assert len(times) == session.info.commands and times[3] == 0 and times[0] > 0      # 3: the branch not taken
        assert times[5] >= times[7]                                    # a loop's time holds that of its body
        layers = session.layers(fed)
        chosen = fed["x"] * np.float32(2) + np.float32(1)
        np.testing.assert_array_equal(layers["doubled"], fed["x"] * np.float32(2))
        np.testing.assert_array_equal(layers["rows"], expected(fed["x"], 2, True)[0])
        np.testing.assert_array_equal(layers["next"], chosen * 2)
        assert "next" not in session.layers(feeds(3, 8, 0, True))      # a body that never ran has nothing to show


def test_sizes_are_those_of_the_run(package_file: Path) -> None:
    with load(package_file, threads=1) as session:
        for batch, width, steps in ((3, 8, 2), (1, 12, 0)):
            found = session.sizes(feeds(batch, width, steps, True))
            assert (found["B"], found["W"], found["steps_taken"]) == (batch, width, steps)


def test_running_after_fork(package_file: Path) -> None:
    """A child of a process with a running pool starts its own workers."""
    with load(package_file, threads=2) as session:
        fed = feeds(8, 256, 3, True)
        want = expected(fed["x"], 3, True)
        stop = threading.Event()

        def busy() -> None:
            while not stop.is_set():
                session.run(None, fed)

        caller = threading.Thread(target=busy)                         # the lock may be held at the moment of the fork
        caller.start()
        children = []
        for _ in range(5):
            child = os.fork()
            if child == 0:
                good = all(np.array_equal(a, b) for _ in range(3) for a, b in
                           zip(session.run(None, fed), want, strict=True))
                os._exit(0 if good else 1)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        stop.set()
        caller.join()
        assert codes == [0] * 5
        assert_same(session.run(None, fed), want)


def test_close_waits_for_the_runs_that_are_going_on(package_file: Path) -> None:
    fed, ended = feeds(8, 256, 3, True), []

    def busy(session: Session, running: threading.Event) -> None:
        with pytest.raises(UsageError, match="closed"):
            while True:
                session.run(None, fed)
                running.set()
        ended.append(True)

    for _ in range(20):
        session, running = load(package_file, threads=2), threading.Event()
        callers = [threading.Thread(target=busy, args=(session, running)) for _ in range(3)]
        for caller in callers:
            caller.start()
        running.wait()
        session.close()
        for caller in callers:
            caller.join()
    assert len(ended) == 60


_IMPORTS = """
import sys
import meta_infer
session = meta_infer.load(sys.argv[1])
heavy = {'onnx', 'onnxruntime', 'ziglang', 'pydantic', 'rich', 'typer', 'scipy', 'ortools', 'ruamel'} & set(sys.modules)
layers = {name for name in sys.modules if name.startswith('meta_infer.')} - {'meta_infer.runtime', 'meta_infer.support'}
print(sorted(heavy), sorted(n for n in layers if not n.startswith(('meta_infer.runtime.', 'meta_infer.support.'))))
"""


def test_loading_needs_numpy_alone(package_file: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(meta_infer.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", _IMPORTS, str(package_file)], capture_output=True, text=True,
                          check=True, env=env)
    assert done.stdout.split("\n")[0] == "[] []"
