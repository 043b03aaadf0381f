"""`meta-infer predict` and `meta_infer.predict`: estimates that say what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

import meta_infer
from meta_infer.search.predict import RUN
from meta_infer.support.errors import ProfileError, UsageError
from tests.cli.conftest import Cli
from tests.search.test_search import small_model


def test_a_cpu_has_parts_and_their_sum(tmp_path: Path) -> None:
    found = meta_infer.predict(small_model(tmp_path), hardware="x86-64-v3")
    assert found.latency is not None and found.latency.kind == "model" and found.latency.spread > 0
    assert found.latency.value == pytest.approx(RUN + sum(group.seconds for group in found.groups))
    assert found.energy is None and found.memory.value > 4 * (16 * 8 * 9 + 16 * 16 * 9)
    assert [g.seconds for g in found.groups] == sorted((g.seconds for g in found.groups), reverse=True)


def test_another_chip_has_a_roofline_and_energy(tmp_path: Path) -> None:
    found = meta_infer.predict(small_model(tmp_path), hardware="high_perf_npu", precision="int8")
    assert found.precision == "int8" and not found.groups
    assert found.latency is not None and found.energy is not None
    slower = meta_infer.predict(small_model(tmp_path), hardware="high_perf_npu", precision="fp32")
    assert slower.latency is not None and slower.latency.value > found.latency.value
    assert slower.energy is not None and slower.energy.value > found.energy.value


def test_larger_sizes_take_longer(tmp_path: Path) -> None:
    model = small_model(tmp_path, "N")
    small, large = (meta_infer.predict(model, hardware="x86-64-v3", shape=("x=1..8,8,12,12",), at=at)
                    for at in ("", "N=8"))
    assert small.sizes == {"N": 1} and large.sizes == {"N": 8}
    assert small.latency is not None and large.latency is not None
    assert large.latency.value > 2 * small.latency.value


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    with pytest.raises(ProfileError):
        meta_infer.predict(model, hardware="no_such_chip")
    with pytest.raises(UsageError, match="no dynamic dimension"):
        meta_infer.predict(model, at="N=1")


def test_the_command(cli: Cli, tmp_path: Path) -> None:
    done = cli("predict", small_model(tmp_path), "--hardware", "x86-64-v3")
    assert "latency" in done.out and "conv" in done.out and "no fitted costs" in done.err
    data = cli("predict", small_model(tmp_path), "--hardware", "edge_npu_v2", "--json").json
    assert data["latency"]["kind"] == "model" and data["memory"]["unit"] == "B"
