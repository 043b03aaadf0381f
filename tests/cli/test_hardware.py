"""`hardware list`, `show`, `probe` and `version`."""

from __future__ import annotations

from pathlib import Path

from meta_infer.hardware.load import catalog_names, load_profile
from tests.cli.conftest import Cli


def test_list_names_every_profile(cli: Cli) -> None:
    ended = cli("hardware", "list")
    assert ended.code == 0
    first = [line.split()[0] for line in ended.out.splitlines() if line.strip()]
    assert [name for name in ("native", *catalog_names()) if name not in first] == []
    assert max(map(len, ended.out.splitlines())) <= 100
    assert {row["name"] for row in cli("hardware", "list", "--json").json} == {"native", *catalog_names()}


def test_show(cli: Cli) -> None:
    ended = cli("hardware", "show", "edge_npu_v2")
    assert ended.code == 0 and "aligned_channel  32" in ended.out
    facts = cli("hardware", "show", "edge_npu_v2", "--json").json
    assert facts["bandwidth_bytes_per_second"] == 20480e6 and facts["backend"] is None
    source = cli("hardware", "show", "edge_npu_v2", "--source").out
    assert source.rstrip("\n") == load_profile("edge_npu_v2").source.rstrip("\n")


def test_show_of_an_unknown_name_suggests_the_nearest(cli: Cli) -> None:
    ended = cli("hardware", "show", "edge_npu_v3")
    assert ended.code == 5 and ended.out == "" and "did you mean 'edge_npu_v2'?" in ended.err


def test_show_of_a_wrong_file(cli: Cli, tmp_path: Path) -> None:
    profile = tmp_path / "chip.yaml"
    profile.write_text("accelerator: {name: x, compute_unit: 4}\n")
    ended = cli("hardware", "show", profile)
    assert ended.code == 5 and "compute_units" in ended.err


def test_probe_writes_a_profile_that_loads(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    ended = cli("hardware", "probe", "--output", file)
    assert ended.code == 0 and ended.out == "" and f"written: {file}\n" in ended.err
    assert load_profile(file).kind == "cpu"
    assert cli("hardware", "probe").out == file.read_text()
    assert cli("hardware", "probe", "--json").json["profile"] == "native"


def test_probe_replaces_a_profile_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"weights" * 99)
    assert cli("hardware", "probe", "--output", file).code == 2 and file.read_bytes() == b"weights" * 99
    file.unlink()
    assert cli("hardware", "probe", "--output", file).code == cli("hardware", "probe", "--output", file).code == 0


def test_probe_into_a_folder_that_does_not_exist(cli: Cli, tmp_path: Path) -> None:
    ended = cli("hardware", "probe", "--output", tmp_path / "no" / "mine.yaml")
    assert ended.code == 2 and "--output" in ended.err


def test_version(cli: Cli) -> None:
    assert cli("version").out.startswith("meta-infer ") and cli("--version").out == cli("version").out
    assert set(cli("version", "--json").json) >= {"meta-infer", "python", "numpy", "ziglang"}
