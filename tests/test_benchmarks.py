"""The latency benchmark runs as its page says; figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from meta_infer.cost.features import Features
from meta_infer.cost.model import CostModel
from meta_infer.hardware.load import load_profile
from meta_infer.library.samples import Sample
from meta_infer.library.store import Library
from meta_infer.search.measure.measure import measured_cpu

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "latency.py"
QUICK = ("--rounds", "2", "--seconds", "0")


def run_script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT.with_name(name)), *arguments], capture_output=True, text=True,
                          check=False)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_script(SCRIPT.name, *arguments)


def test_a_row_per_size_and_number_of_threads() -> None:
    done = run("digits", "--threads", "1", "2", "--dim", "batch=1,3", "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"cpu", "date", "versions", "rows"}
    assert [(row["dims"]["batch"], row["threads"]) for row in found["rows"]] == [(1, 1), (1, 2), (3, 1), (3, 2)]
    for row in found["rows"]:
        assert row["relative_difference"] <= 1e-3
        assert row["ratio"] == row["seconds"] / row["reference_seconds"] and row["rounds"] == 2


def test_mistakes_are_named_and_the_rest_is_measured() -> None:
    done = run("nothing.onnx", "digits", "--markdown", "--dim", "betch=4", *QUICK)
    assert done.returncode == 1
    assert "nothing.onnx: nothing.onnx does not exist" in done.stderr
    assert "--dim betch: no model has a dynamic dimension of this name" in done.stderr
    assert "| digits | batch 1 | 1 |" in done.stdout


@pytest.mark.parametrize(("script", "arguments", "columns"), [
    ("load.py", ("digits", "--rounds", "1", "--markdown"), 8), ("busy.py", ("digits", *QUICK), 5),
    ("modes.py", ("digits", "--modes", "fast", "balanced", "--search-seconds", "0.000001", "--markdown", *QUICK), 6),
    ("transfer.py", ("digits", "--search-seconds", "0.000001", "--markdown", *QUICK), 7)])
def test_the_other_benchmarks_print_their_tables(script: str, arguments: tuple[str, ...], columns: int) -> None:
    done = run_script(script, *arguments)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| digits")]
    assert rows and all(row.count("|") == columns + 1 for row in rows)


def test_kernels_one_by_one() -> None:
    """Two variants and a bandwidth bound; a class, a shape and a kernel can be picked."""
    quick = ("--rounds", "2", "--seconds", "0")
    done = run_script("kernels.py", "--class", "pointwise", "--case", "320x7x7", "--only", "conv_d", "--json", *quick)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["kind"], row["case"], row["kernel"]) == ("pointwise", "320x7x7 -> 1280 k1 s1", "conv_direct")
    assert row["status"] == "ok" and row["bound"] == "peak" and row["floor_algorithm"] == "gemm"
    assert 0 < row["share"] and 0 < row["floor_seconds"] < row["seconds"] * 2
    assert row["flops_rate"] == pytest.approx(2 * 320 * 1280 * 49 / row["seconds"])
    done = run_script("kernels.py", "--case", "1 x 512 x 1000", "--tunings", "--most", "2", "--only", "gemm", *quick)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "% mem" in lines[2] and len(lines) == 5
    assert lines[4].startswith("  2 of ") and " tunings of 1 x 512 x 1000; refused: " in lines[4]
    assert len(lines[1]) <= 100 and all("%" in line[:100] for line in lines[2:4])


def test_kernels_of_a_network() -> None:
    done = run_script("kernels.py", "--model", "digits", "--list")
    assert done.returncode == 0, done.stderr
    assert "Conv         32x4x4 -> 64 k3 s1 relu" in done.stdout


def test_floor_of_a_network() -> None:
    """Parts add up to the whole, nothing is left out, and each part with a floor says what bounds it."""
    done = run_script("roofline.py", "digits", "--json", "--rounds", "3", "--seconds", "0", "--threads", "1", "2")
    assert done.returncode == 0, done.stderr
    for threads, row in enumerate(json.loads(done.stdout)["rows"], 1):
        assert (row["model"], row["threads"], row["rounds"]) == ("digits batch=1", threads, 3)
        assert set(row["levels"]) >= {"memory"} and row["peak"] > 1e8
        assert 0 < row["floor_seconds"] <= row["plain_seconds"]
        parts = {part["label"]: part for part in row["parts"]}
        assert parts["32x4x4 -> 64 k3 s1 relu"]["kernel"].startswith("conv")
        assert {part["bound"] for part in parts.values()} <= {"", "peak", "L1", "L2", "L3", "memory"}
        for name, part in parts.items():
            assert (part["floor_seconds"] > 0) == bool(part["algorithm"]), name
        assert sum(part["floor_seconds"] for part in parts.values()) == pytest.approx(row["floor_seconds"], rel=0.5)
    done = run_script("roofline.py", "digits", "nothing", "--rounds", "2", "--seconds", "0")
    assert done.returncode == 1 and "nothing:" in done.stderr
    lines = done.stdout.splitlines()
    assert any("between commands" in line for line in lines) and all(len(line) <= 100 for line in lines)


def test_what_a_search_takes_before_it_times() -> None:
    done = run_script("search.py", "digits", "--solve-only", "--json")
    assert done.returncode == 0, done.stderr
    for row in json.loads(done.stdout)["rows"]:
        assert row["combinations"] > row["looked_at"] >= row["kept"] > 0 and row["choices"] > 0
        assert 0 <= row["gap"] < 1e-6


def test_networks_are_predicted(tmp_path: Path) -> None:
    """Whole networks, and groups of a library that is filled here with times twice those of theory."""
    done = run_script("predict.py", "digits", "--rounds", "3", "--seconds", "0", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["model"].startswith("digits") and row["measured"] > 0 and row["plain"] > 0
    assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)

    profile, samples = load_profile("native"), []
    model = CostModel.of(profile, ())
    for i in range(120):
        features = Features({"ports": 1e5 * (1 + i % 37), "load": 5e4 * (1 + i % 11)}, {}, 1.0)
        samples.append(Sample("gemm", "gemm", key=f"k{i}", group=f"group {i // 24}", isa=str(profile.isa),
                              cpu=measured_cpu(), features=features.numbers(), peak=1e11, rounds=5,
                              seconds=2 * model.theory.seconds(features)))
    with Library.open(tmp_path / "library.sqlite") as library:
        library.add(samples)
    arguments = ("--cross-validate", "--library", str(tmp_path / "library.sqlite"))
    done = run_script("predict.py", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["samples"], found["groups"], found["classes"], found["groups_of_20"]) == (120, 5, 1, 5)
    assert found["median_error"] < 0.1 and found["rows"][0]["rank"] > 0.9
    assert "| gemm | 120 | 5 |" in run_script("predict.py", *arguments, "--markdown").stdout
    with Library.open(tmp_path / "empty.sqlite"):
        pass
    done = run_script("predict.py", "--cross-validate", "--library", str(tmp_path / "empty.sqlite"))
    assert done.returncode == 1 and "0 samples of this CPU" in done.stderr


def test_a_library_without_many_ways_of_a_group_says_so(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library.sqlite"):
        pass
    done = run_script("top_five.py", "digits", "--library", str(tmp_path / "library.sqlite"))
    assert done.returncode == 1 and "0 groups have 20 ways or more" in done.stderr
    assert "a build with --search-mode adds some" in done.stderr and "Traceback" not in done.stderr
