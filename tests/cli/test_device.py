"""`--device`: profiles, runs, times, builds and searches on a board behind ssh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from meta_infer import api
from meta_infer.hardware.load import load_profile
from meta_infer.library.store import Library
from meta_infer.runtime.session import load
from meta_infer.search.calibrate.calibrate import Planned
from meta_infer.support.errors import DeviceError
from tests.boards import SshServer, emulated_environment, ssh_server
from tests.build import tiny_models
from tests.cli.conftest import Cli
from tests.cli.small_model import write_model


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "board") as server:
        monkeypatch.setenv("META_INFER_SSH", server.ssh)
        yield server
        assert server.left_behind() == []


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "board", emulated_environment(tmp_path / "arm")) as server:
        monkeypatch.setenv("META_INFER_SSH", server.ssh)
        yield server
        assert server.left_behind() == []


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("META_INFER_LIBRARY", str(tmp_path / "library.sqlite"))
    return tmp_path / "library.sqlite"


def block(folder: Path) -> Path:
    onnx.save(tiny_models.convolution_block_with_residual(), folder / "block.onnx")
    return folder / "block.onnx"


def test_probe(cli: Cli, server: SshServer, tmp_path: Path) -> None:
    ended = cli("hardware", "probe", "--device", server.url, "--output", tmp_path / "board.yaml")
    assert ended.code == 0 and "written" in ended.err
    here, there = load_profile("native"), load_profile(tmp_path / "board.yaml")
    assert (there.isa, there.cores, there.l2_bytes) == (here.isa, here.cores, here.l2_bytes)
    facts = cli("hardware", "probe", "--device", server.url, "--json").json
    assert facts["isa"] == here.isa and facts["profile"] == "127.0.0.1"


def test_addresses_and_boards_that_are_none(cli: Cli, server: SshServer) -> None:
    ended = cli("hardware", "probe", "--device", "board.local")
    assert ended.code == 2 and "--device board.local" in ended.err and "ssh://[user@]host[:port]" in ended.err
    server.hang_up()
    ended = cli("hardware", "probe", "--device", server.url)
    assert ended.code == 12 and "runs no ssh server at that port" in ended.err


def test_run_and_bench(cli: Cli, server: SshServer, built: tuple[Path, Path], tmp_path: Path) -> None:
    ended = cli("run", built[1], "--device", server.url, "--output", tmp_path / "out.npz")
    assert ended.code == 0 and "largest deviation from the expected outputs" in ended.out
    (inputs, _), = load(built[1]).package.tests().values()
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs[outputs.files[0]], load(built[1]).run(None, inputs)[0])
    facts = cli("bench", built[1], "--device", server.url, "--iterations", "5", "--threads", "1", "--json").json
    assert facts["runs"] == 5 and facts["device"] == server.url and facts["peak_rss_bytes"] is None
    assert facts["latency_seconds"]["min"] > 0 and facts["threads"] == 1
    shown = cli("bench", built[1], "--device", server.url, "--duration", "0.05").out
    assert "runs per second" in shown and "peak memory" not in shown


def test_a_search(cli: Cli, server: SshServer, library: Path, tmp_path: Path) -> None:
    """Its times are the board's, the next build takes them from the library, and the package is checked there."""
    model, output = write_model(tmp_path / "small.onnx"), tmp_path / "small.bin"
    ended = cli("build", "--model", model, "--output", output, "--shape", "x=1,12", "--device", server.url,
                "--search-mode", "fast", "--search-seconds", "1", "--json")
    assert ended.code == 0 and all(row["passed"] for row in ended.json["comparisons"])
    (search,) = ended.json["searches"]
    assert search["timed_on"] == (load_profile("native").chip.description or load_profile("native").isa)
    assert {plan["name"] for plan in search["plans"]} >= {"default"}
    assert any("/job" in command for command in server.commands)
    with Library.open_to_read(library) as opened:
        samples = opened.samples()
    here = load_profile("native")
    assert samples and {sample.cpu for sample in samples} == {here.chip.description or here.isa}
    assert server.url.encode() not in output.read_bytes()


def test_a_build_for_an_arm_board(cli: Cli, arm: SshServer, library: Path, tmp_path: Path) -> None:
    """`native` is the board's profile; the package is compared with ONNX Runtime by running it there."""
    model, output = block(tmp_path), tmp_path / "block.bin"
    ended = cli("build", "--model", model, "--output", output, "--device", arm.url, "--json")
    assert ended.code == 0 and [row["passed"] for row in ended.json["comparisons"]] == [True] * 3
    assert [target.isa for target in load_targets(output)] == ["aarch64"]


def load_targets(package: Path) -> tuple[object, ...]:
    from meta_infer.runtime.reader import Package

    return Package(package).targets


def test_a_profile_of_another_processor(server: SshServer, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="(?s)the profile is 'cortex-a55' .aarch64.*hardware probe --device ssh://me@"):
        api.build(block(tmp_path), output=tmp_path / "block.bin", hardware="cortex-a55", device=server.url)
    assert not (tmp_path / "block.bin").exists()


def test_a_config_file(cli: Cli, server: SshServer, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"model: {block(tmp_path)}\noutput: {tmp_path / 'block.bin'}\ndevice: {server.url}\n")
    assert cli("build", "--config", config).code == 0
    assert any("/job" in command for command in server.commands)


def test_calibrate(cli: Cli, server: SshServer, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Planned.of(load_profile("native"))
    small = replace(whole, cases=(), sweep={}, threads=1)
    monkeypatch.setattr(Planned, "of", classmethod(lambda cls, profile: small))
    ended = cli("hardware", "calibrate", "--device", server.url)
    assert ended.code == 2 and "--output" in ended.err
    file = tmp_path / "board.yaml"
    ended = cli("hardware", "calibrate", "--device", server.url, "--output", file, "--json")
    assert ended.code == 0 and ended.json["failed"] == 0 and ended.json["peak_flops_per_second"] > 1e8
    written = load_profile(file)
    assert written.name == "127.0.0.1" and written.bandwidth and written.macs_per_cycle
