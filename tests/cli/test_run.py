"""`run` and `bench` on a package: where inputs come from, and one clear error for each mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Cli
from tests.runtime import programs


def test_run_takes_the_packages_own_test(cli: Cli, package: Path) -> None:
    ended = cli("run", package)
    assert ended.code == 0
    assert "rows    output  float32  3x2x8" in ended.out and "largest deviation from the expected outputs" in ended.out


def test_files_in_and_out(cli: Cli, package: Path, tmp_path: Path) -> None:
    feeds = programs.feeds(4, 12, 2, False, seed=3)
    np.savez(tmp_path / "some.npz", steps=feeds["steps"], flag=feeds["flag"])
    np.save(tmp_path / "x.npy", feeds["x"])
    out = tmp_path / "out.npz"
    ended = cli("run", package, "-i", tmp_path / "some.npz", "-i", f"x={tmp_path / 'x.npy'}", "-o", out)
    assert ended.code == 0 and f"written: {out}\n" in ended.err
    with np.load(out) as found:
        wanted = programs.expected(feeds["x"], 2, False)
        assert found.files == ["rows", "tail", "same"]
        for name, array in zip(found.files, wanted, strict=True):
            np.testing.assert_allclose(found[name], array, rtol=1e-6)


def test_random_inputs_of_chosen_size(cli: Cli, package: Path) -> None:
    first = cli("run", package, "--dim", "B=5", "--dim", "W=16", "--json")
    shapes = {t["name"]: t["shape"] for t in first.json["inputs"]}
    assert shapes == {"x": [5, 16], "steps": [], "flag": []}
    plain = cli("run", package, "--random", "--seed", "7")
    assert plain.out == cli("run", package, "--random", "--seed", "7").out != cli("run", package, "--random").out


def _npz(folder: Path, **changed: object) -> Path:
    path = folder / "in.npz"
    arrays = {**programs.feeds(2, 8, 3, True), **changed}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


@pytest.mark.parametrize(("changed", "words"), [
    ({"y": np.zeros(3, np.float32)}, ("input 'y'", "no such input")),
    ({"x": None}, ("input 'x'", "missing")),
    ({"x": np.zeros((2, 8))}, ("input 'x'", "float64", "float32")),
    ({"x": np.zeros((2, 8, 1), np.float32)}, ("input 'x'", "3 dimensions")),
    ({"x": np.zeros((9, 8), np.float32)}, ("input 'x'", "dimension 0 is 9", "1..8")),
    ({"x": np.zeros((2, 6), np.float32)}, ("input 'x'", "dimension 1 is 6", "steps of 4")),
    ({"x": np.zeros((0, 8), np.float32)}, ("input 'x'", "dimension 0 is 0")),
], ids=["name", "missing", "dtype", "rank", "range", "step", "empty"])
def test_inputs_that_do_not_fit(cli: Cli, package: Path, tmp_path: Path, changed: dict, words: tuple[str, ...]) -> None:
    for command in ("run", "bench"):
        ended = cli(command, package, "--input", _npz(tmp_path, **changed))
        assert ended.code == 7 and ended.out == ""
        assert ended.err.startswith("error: input: ") and "\n  try: " in ended.err
        assert [word for word in words if word not in ended.err] == []


@pytest.mark.parametrize(("dim", "code", "words"), [
    ("C=3", 7, "its named dimensions: B, W"), ("B=9", 7, "1..8"), ("B=-1", 7, "1..8"),
    ("W=6", 7, "4..256 in steps of 4"),
    ("steps_taken=2", 7, "not a named dimension"), ("B", 2, "NAME=SIZE"), ("B=two", 2, "NAME=SIZE"),
])
def test_dims_that_do_not_fit(cli: Cli, package: Path, dim: str, code: int, words: str) -> None:
    ended = cli("run", package, "--dim", dim)
    assert ended.code == code and words in ended.err


def test_files_that_are_none(cli: Cli, package: Path, tmp_path: Path) -> None:
    broken, npz, npy, pickled = (tmp_path / name for name in ("broken.npz", "a.npz", "a.npy", "pickled.npy"))
    broken.write_bytes(b"PK\3\4 not quite")
    np.savez(npz, x=np.zeros(2))
    np.save(npy, np.zeros(2))
    np.save(pickled, np.array([{}], object), allow_pickle=True)
    for text, words in ((f"{tmp_path}/none.npz", "no such file"), (broken, "not a readable"),
                        (f"x={npz}", "several arrays"), (npy, "without a name"), (f"x={pickled}", "not a readable"),
                        (f"x={tmp_path}", "cannot be read")):
        ended = cli("run", package, "--input", text)
        assert ended.code == 7 and words in ended.err, text


def test_flags_that_contradict_each_other(cli: Cli, package: Path, tmp_path: Path) -> None:
    assert cli("run", package, "--input", _npz(tmp_path), "--random").code == 2
    assert cli("bench", package, "--iterations", "3", "--duration", "1").code == 2
    assert cli("run", package, "--output", tmp_path / "no" / "out.npz").code == 2


@pytest.mark.parametrize("command", ["run", "bench", "inspect"])
def test_a_file_that_is_no_package(cli: Cli, tmp_path: Path, command: str) -> None:
    empty, text = tmp_path / "empty.bin", tmp_path / "text.bin"
    empty.touch()
    text.write_text("hello")
    for file in (empty, text, tmp_path / "none.bin", tmp_path):
        ended = cli(command, file)
        assert ended.code == 6 and str(file) in ended.err


def test_a_processor_that_lacks_a_feature(cli: Cli, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_infer.runtime.cpu.cpu_features", lambda: frozenset({"sse2"}))
    for command in ("run", "bench"):
        ended = cli(command, package)
        assert ended.code == 6 and ended.out == "" and "CPU features this processor lacks" in ended.err
        assert "avx2" in ended.err
    assert cli("inspect", package).code == 0, "looking at a package needs no processor of its kind"


def test_bench(cli: Cli, package: Path) -> None:
    ended = cli("bench", package, "--iterations", "7", "--threads", "1", "--warmup", "0", "--json")
    found = ended.json
    assert ended.code == 0 and (found["runs"], found["threads"]) == (7, 1)
    times = found["latency_seconds"]
    assert list(times) == ["min", "mean", "p50", "p90", "p99", "max"]
    assert 0 < times["min"] <= times["p50"] <= times["p90"] <= times["p99"] <= times["max"]
    assert found["peak_rss_bytes"] > 2**20
    assert "p99" in cli("bench", package, "--duration", "0.01").out


def test_running_needs_no_compiler(package: Path) -> None:
    program = (f"import sys; from meta_infer.cli.main import main; assert main(['run', {str(package)!r}]) == 0; "
               "print(sorted({'onnx', 'onnxruntime', 'scipy', 'ortools', 'ziglang'} & set(sys.modules)))")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("target", ["package", "input"])
def test_outputs_never_replace_what_is_read(cli: Cli, package: Path, tmp_path: Path, target: str) -> None:
    feeds = _npz(tmp_path)
    output = package if target == "package" else feeds
    before = output.read_bytes()
    ended = cli("run", package, "-i", feeds, "-o", output)
    assert ended.code == 2 and "--output" in ended.err and output.read_bytes() == before


@pytest.mark.parametrize(("text", "code"), [("=x.npy", 2), ("x=", 2), (".", 7)])
def test_input_names_no_file(cli: Cli, package: Path, text: str, code: int) -> None:
    ended = cli("run", package, "-i", text)
    assert ended.code == code and "Errno" not in ended.err


def test_a_file_of_any_other_kind_is_no_pickle(cli: Cli, package: Path, tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("hello")
    ended = cli("run", package, "-i", f"x={tmp_path / 'text.npy'}")
    assert ended.code == 7 and "unsafe" not in ended.err and "not a readable" in ended.err
