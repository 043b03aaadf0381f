"""`build`: its flags, its config file, what it prints, and its errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from meta_infer.build_config import STEPS, BuildConfig
from meta_infer.runtime.reader import Package
from tests.cli.conftest import Cli
from tests.cli.small_model import write_model

ROOT = Path(__file__).resolve().parents[2]


def test_build_prints_steps_figures_and_the_comparison(cli: Cli, tmp_path: Path) -> None:
    model = write_model(tmp_path / "small.onnx")
    ended = cli("build", "--model", model, "--details")
    assert ended.code == 0, ended.err
    assert f"written: {tmp_path / 'small.bin'}\n" in ended.err and (tmp_path / "small.bin").exists()
    assert [line.split()[1] for line in ended.err.splitlines() if line.startswith("build: ")][0] == "import"
    for words in ("canonicalize", "arena", "MatMul+Add+Relu", "max abs", "ok"):
        assert words in ended.out, words
    tables = [line for line in ended.out.splitlines() if not line.startswith("max abs: ")]
    assert max(map(len, tables)) <= 100


def test_json_is_the_report_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    model = write_model(tmp_path / "small.onnx")
    report = cli("build", "-m", model, "-o", tmp_path / "named.bin", "--no-verify", "--json").json
    assert (tmp_path / "named.bin").exists()
    assert report["hardware"] == "native" and report["figures"]["arena_bytes"] > 0 and report["groups"]


def test_a_config_file_and_flags_that_win(cli: Cli, tmp_path: Path) -> None:
    model, config = write_model(tmp_path / "small.onnx"), tmp_path / "build.yaml"
    config.write_text(f"model: {model}\noutput: {tmp_path}/a.bin\nshape: ['x=4,12']\nverify: false\nthreads: 3\n")
    ended = cli("build", "--config", config, "--output", tmp_path / "b.bin", "--threads", "2")
    assert ended.code == 0, ended.err
    assert not (tmp_path / "a.bin").exists()
    package = Package(tmp_path / "b.bin")
    assert package.manifest["threads"] == 2 and package.inputs[0].shape == (4, 12)
    kept = bytes(package.check("config.yaml")).decode()
    assert "x=4,12" in kept and "threads: 2" in kept and "tolerance:" in kept


def test_every_field_of_a_config_has_a_flag(cli: Cli) -> None:
    text = cli("build", "--help").out
    other_names = {"memory_limit_mib": "--memory-limit", "verify": "--no-verify"}
    for field in BuildConfig.model_fields:
        assert other_names.get(field, f"--{field.replace('_', '-')}") in text, field


@pytest.mark.parametrize("step", [step for step in STEPS if step != "package"])
def test_stop_after_prints_the_step_and_writes_nothing(cli: Cli, tmp_path: Path, step: str) -> None:
    ended = cli("build", "-m", write_model(tmp_path / "small.onnx"), "--stop-after", step)
    assert ended.code == 0 and ended.out.strip(), ended.err
    assert not (tmp_path / "small.bin").exists()


def test_a_chip_without_a_code_generator_gives_estimates(cli: Cli, tmp_path: Path) -> None:
    ended = cli("build", "--model", write_model(tmp_path / "small.onnx"), "--hardware",
                ROOT / "profiles" / "high_perf_gpu.yaml", "--target-latency-ms", "5.0", "--precision", "fp16",
                "--search-mode", "balanced", "--output", tmp_path / "gpu.bin")
    assert ended.code == 0, ended.err
    assert (tmp_path / "gpu.bin").exists() and "estimate" in ended.out
    assert "warning: " in ended.err and "estimates" in ended.err


@pytest.mark.parametrize(("arguments", "code", "words"), [
    ([], 2, "--model"),
    (["--precision", "fp12"], 2, "precision"),
    (["--precision", "pf16"], 2, "did you mean 'fp16'?"),
    (["--stop-after", "lunch"], 2, "--stop-after: is 'lunch', expected one of 'import', "),
    (["--memory-limit", "-1"], 2, "--memory-limit: is -1.0, expected greater than 0"),
    (["--threads", "0"], 2, "threads"),
    (["--threads", "64"], 2, "--threads"),
    (["--seed", "-1"], 2, "--seed"),
    (["--shape", "x=1,12", "--shape", "x=2,12"], 2, "shape of 'x': is given twice"),
    (["--tolerance", "-1"], 2, "tolerance"),
    (["--disable", "fuse_epilog"], 2, "fuse_epilogue"),
    (["--hardware", "edge_npu"], 5, "edge_npu_v2"),
    (["--shape", "y=1,12"], 2, "inputs are x"),
    (["--config", "none.yaml"], 2, "none.yaml"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_wrong_choices(cli: Cli, tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    model = ["--model", write_model(tmp_path / "small.onnx")] if arguments else []
    ended = cli("build", *model, *arguments)
    assert ended.code == code and ended.out == ""
    message = ended.err[ended.err.index("error: "):]
    assert words in message


def test_wrong_files(cli: Cli, tmp_path: Path) -> None:
    text, config = tmp_path / "text.onnx", tmp_path / "build.yaml"
    text.write_text("hello")
    config.write_text("modle: x.onnx\n")
    for model in (text, tmp_path / "none.onnx"):
        ended = cli("build", "--model", model)
        assert ended.code == 3 and str(model) in ended.err
    ended = cli("build", "--config", config)
    assert ended.code == 2 and "did you mean 'model'?" in ended.err


@pytest.mark.parametrize(("text", "words"), [
    ("threads: 1\nthreads: 2\n", "line 2: found duplicate key \"threads\"\n"),
    ("threads: [\n", "line 2: "),
    ("shape: x=1,12\n", "field 'shape': is 'x=1,12', expected a list"),
    ("seed: -1\n", "field 'seed'"),
    ("- a\n", "no fields"),
    ("\0", "is not YAML"),
])
def test_wrong_config_files(cli: Cli, tmp_path: Path, text: str, words: str) -> None:
    config = tmp_path / "build.yaml"
    config.write_text(text)
    ended = cli("build", "--config", config, "--model", write_model(tmp_path / "small.onnx"))
    assert ended.code == 2 and words in ended.err and "  try: " in ended.err


def test_an_operator_that_does_not_exist(cli: Cli, tmp_path: Path) -> None:
    ended = cli("build", "--model", write_model(tmp_path / "small.onnx", op="Reluu"))
    assert ended.code in (3, 4) and "activation" in ended.err and "Reluu" in ended.err


def test_beyond_tolerance_the_package_is_kept(cli: Cli, tmp_path: Path) -> None:
    ended = cli("build", "--model", write_model(tmp_path / "small.onnx"), "--tolerance", "1e-30")
    assert ended.code == 9 and "tolerance" in ended.err
    assert (tmp_path / "small.bin").exists()


def test_a_processor_of_another_kind(cli: Cli, tmp_path: Path) -> None:
    other = "cortex-a55" if os.uname().machine == "x86_64" else "x86-64-v2"
    ended = cli("build", "--model", write_model(tmp_path / "small.onnx"), "--hardware", other)
    assert ended.code == 0 and "does not run on this machine" in ended.err, ended.err
    assert cli("inspect", tmp_path / "small.bin", "--verify").code == 0
    ended = cli("run", tmp_path / "small.bin")
    assert ended.code == 6 and "this machine is" in ended.err


def test_the_output_folder_is_made(cli: Cli, tmp_path: Path) -> None:
    output = tmp_path / "new" / "folder" / "m.bin"
    assert cli("build", "-m", write_model(tmp_path / "small.onnx"), "-o", output, "--no-verify").code == 0
    assert output.exists()


def test_an_output_that_cannot_be_written_fails_before_the_work(cli: Cli, tmp_path: Path) -> None:
    model = write_model(tmp_path / "small.onnx")
    for output in (tmp_path, model / "m.bin"):
        ended = cli("build", "-m", model, "-o", output)
        assert ended.code == 6 and "--output" in ended.err and "build: import" not in ended.err
    assert cli("build", "-m", model, "-o", tmp_path / "none" / "m.bin", "--stop-after", "import").code == 0
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("output", ["model", "weights"])
def test_output_never_replaces_the_model(cli: Cli, tmp_path: Path, output: str) -> None:
    """External weights may have the very name that a package gets by default."""
    model, weights = tmp_path / "net.onnx", tmp_path / "net.bin"
    write_model(model)
    onnx.save(onnx.load(model), model, save_as_external_data=True, location=weights.name, size_threshold=0)
    before = {file: file.read_bytes() for file in (model, weights)}
    chosen = ["--output", model] if output == "model" else []
    ended = cli("build", "--model", model, *chosen)
    assert ended.code == 2 and "is not replaced" in ended.err and "build:" not in ended.err
    assert {file: file.read_bytes() for file in (model, weights)} == before


def test_names_of_any_script_where_the_locale_knows_ascii_only(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("输入 x", "выход"))
    graph = helper.make_graph([helper.make_node("Relu", [x.name], [y.name], name="ä */ \n #")], "模型", [x], [y])
    folder = tmp_path / "a b"
    folder.mkdir()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "m.onnx")
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0",
                  "PYTHONIOENCODING": "ascii", "META_INFER_CACHE": str(tmp_path / "cache")}
    for arguments in (["build", "-m", "m.onnx"], ["run", "m.bin"], ["inspect", "m.bin"]):
        ended = subprocess.run([sys.executable, "-m", "meta_infer.cli.main", *arguments], env=ascii_only, cwd=folder,
                               capture_output=True)
        assert ended.returncode == 0, ended.stderr


def test_a_package_that_differs_is_kept_and_shown(cli: Cli, tmp_path: Path) -> None:
    model = write_model(tmp_path / "small.onnx")
    ended = cli("build", "-m", model, "--tolerance", "1e-30")
    assert ended.code == 9 and "error: verify:" in ended.err and (tmp_path / "small.bin").exists()
    assert "first beyond" in ended.out and "canonicalize" in ended.out
    ended = cli("build", "-m", model, "--tolerance", "1e-30", "--json")
    assert ended.code == 9 and not all(row["passed"] for row in ended.json["comparisons"])
