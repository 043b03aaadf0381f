"""`hardware calibrate`: what it writes and says, and that a killed one goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from meta_infer.backends.cpu.child import child_environment
from meta_infer.hardware.load import load_profile
from meta_infer.library.store import Library
from meta_infer.search.calibrate.calibrate import Planned
from meta_infer.search.measure.memory_probe import memory_probes
from tests.cli.conftest import Cli
from tests.search.test_calibrate import Machine, machine

assert machine                                                      # a fixture of the tests below


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, with the library in it."""
    monkeypatch.setenv("META_INFER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("META_INFER_LIBRARY", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    """Little is planned, and nothing is compiled or measured."""
    whole = Planned.of(load_profile("native"))
    cases = tuple([one for one in whole.cases if one.case.kind == "rows"][:16])
    small = replace(whole, cases=cases, sweep={})
    monkeypatch.setattr(Planned, "of", classmethod(lambda cls, profile: small))


@pytest.mark.usefixtures("few")
def test_what_native_takes_from_a_calibration(cli: Cli, cache: Path) -> None:
    assert load_profile("native").chip.cost == ()
    ended = cli("hardware", "calibrate")
    assert ended.code == 0 and f"written: {cache / 'native.yaml'}\n" in ended.err and "--hardware native" in ended.err
    assert "any" in ended.out and "GFLOP/s" in ended.out and max(map(len, ended.out.splitlines())) <= 100
    assert "warning" not in ended.err
    written = load_profile(cache / "native.yaml")
    assert written.chip.cost and written.bandwidth
    # The profile of the same place is read once a process.
    again = subprocess.run([sys.executable, "-m", "meta_infer.cli.entry", "hardware", "show", "native", "--json"],
                           env=child_environment(), capture_output=True, check=True)
    assert b'"kernel_class": "any"' in again.stdout and b'"bandwidth_bytes_per_second": null' in again.stdout
    assert cli("hardware", "calibrate").code == 0, "an earlier calibration is replaced"


@pytest.mark.usefixtures("few")
def test_json_and_an_output_of_its_own(cli: Cli, cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    ended = cli("hardware", "calibrate", "--output", file, "--json")
    facts = ended.json
    assert ended.code == 0 and facts["file"] == str(file) and facts["warnings"] == [] and not facts["noise"]["is_loud"]
    assert facts["timed"] + facts["recalled"] == facts["total"] and facts["classes"]
    assert facts["launch_seconds"].keys() == {str(n) for n in (1, load_profile("native").cores)}
    assert not (cache / "native.yaml").exists() and f"--hardware {file}" in ended.err
    assert load_profile(file).chip.cost


@pytest.mark.usefixtures("few", "cache")
def test_noise_and_what_is_missing_are_warnings(cli: Cli, machine: Machine) -> None:
    machine.shake = 0.1
    ended = cli("hardware", "calibrate")
    assert ended.code == 0 and "warning: the machine was too busy" in ended.err and "15.0%" in ended.err
    ended = cli("hardware", "calibrate", "--seconds", "0", "--fresh", "--json")
    assert ended.code == 0 and any("the time ended after" in text for text in ended.json["warnings"])


@pytest.mark.usefixtures("few", "cache")
def test_a_file_that_is_no_profile_is_not_replaced(cli: Cli, machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(b"weights" * 99)
    assert cli("hardware", "calibrate", "--output", file).code == 2 and file.read_bytes() == b"weights" * 99
    assert machine.calls == [], "that is found before anything is timed"
    assert cli("hardware", "calibrate", "--output", tmp_path / "no" / "mine.yaml").code == 2


def test_a_killed_calibration_goes_on(cache: Path, tmp_path: Path) -> None:
    """The one test that compiles and measures: the first kernels only."""
    command = [sys.executable, "-m", "meta_infer.cli.entry", "hardware", "calibrate", "--json"]
    library, deadline = cache / "library.sqlite", time.monotonic() + 120
    child = subprocess.Popen(command, env=child_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True)
    try:
        while not library.exists() or not _count(library):
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    assert not (cache / "native.yaml").exists()
    ended = subprocess.run([*command, "--seconds", "0"], env=child_environment(), capture_output=True, text=True,
                           check=True)
    first = len(memory_probes(load_profile("native")))          # without any seconds left, no more than the first batch
    assert f'"recalled": {first}' in ended.stdout and '"timed": 0' in ended.stdout
    assert "the time ended after" in ended.stderr and load_profile(cache / "native.yaml").bandwidth is None


def _count(library: Path) -> int:
    with Library.open_to_read(library) as opened:
        return opened.counts().samples
