"""One package for several instruction sets: each with its own plan and packing, the best one chosen at load."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from meta_infer import api
from meta_infer.cli.main import main
from meta_infer.runtime import cpu
from meta_infer.runtime.reader import Package
from meta_infer.runtime.session import load
from meta_infer.support.errors import PackageError, UsageError
from tests.build import tiny_models
from tests.kernels.harness import host_isa

OLD, NEW = "x86-64-v2", "x86-64-v3"
pytestmark = pytest.mark.skipif(host_isa() < NEW, reason=f"compares targets of {NEW} processors")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("targets") / "block.onnx"
    onnx.save(tiny_models.convolution_block_with_residual(), path)
    return path


@pytest.fixture(scope="module")
def package(model: Path) -> Path:
    result = api.build(model, isa=(OLD, NEW, "aarch64"), shape=("x=1..3,5,9,7",), verify_samples=2)
    assert result.path is not None and [c.passed for c in result.comparisons] == [True] * 4     # two targets run here
    assert any("aarch64" in warning for warning in result.report["warnings"])
    return result.path


def test_the_best_target_is_chosen_and_others_can_be_forced(package: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 9, 7)).astype(np.float32)
    with load(package, threads=1) as best, load(package, threads=1, target=OLD) as old:
        assert (best.target.isa, old.target.isa) == (NEW, OLD)
        [a], [b] = best.run(None, {"x": x}), old.run(None, {"x": x})
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        layers, same = best.layers({"x": x}), old.layers({"x": x})
        assert layers.keys() == same.keys()
        for name, array in layers.items():
            np.testing.assert_allclose(array, same[name], rtol=1e-4, atol=1e-5)


def test_an_old_processor_takes_the_old_target(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "cpu_features", lambda: Package(package).targets[0].features)
    with load(package, threads=1) as session:
        assert session.target.isa == OLD
    with pytest.raises(PackageError, match="lacks: .*avx2"):
        load(package, threads=1, target=NEW)
    with pytest.raises(PackageError, match="holds code for aarch64"):
        load(package, threads=1, target="aarch64")
    with pytest.raises(UsageError, match="no target 'mips'"):
        load(package, threads=1, target="mips")


def test_targets_differ_in_packing_and_share_what_is_equal(package: Path, model: Path, tmp_path: Path) -> None:
    opened = Package(package, verify=True)
    assert [t.isa for t in opened.targets] == [OLD, NEW, "aarch64"]
    plans = [bytes(opened.member(t.plan)) for t in opened.targets]
    assert plans[0] != plans[1] and len({t.weights for t in opened.targets}) == 1
    alone = [api.build(model, isa=(isa,), shape=("x=1..3,5,9,7",), verify=False, output=tmp_path / f"{isa}.bin").path
             for isa in (OLD, NEW, "aarch64")]
    sizes = [Package(path).manifest["weight_bytes"] for path in alone if path is not None]
    # Biases are the same for all, packed weights are not.
    assert max(sizes) < opened.manifest["weight_bytes"] < sum(sizes)


def test_one_target_and_many_give_the_same_code(package: Path, model: Path, tmp_path: Path) -> None:
    path = api.build(model, isa=(NEW,), shape=("x=1..3,5,9,7",), verify=False, output=tmp_path / "one.bin").path
    assert path is not None
    [one], three = Package(path).targets, Package(package).targets
    assert bytes(Package(path).member(one.code)) == bytes(Package(package).member(three[1].code))


def test_inspect_and_compare_by_target(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(package)]) == 0
    shown = capsys.readouterr().out
    assert OLD in shown and NEW in shown and f"targets/{OLD}/debug.json" in shown
    texts = []
    for isa in (OLD, NEW):
        assert main(["inspect", str(package), "--code", "--target", isa, "--json"]) == 0
        texts.append(json.loads(capsys.readouterr().out))
    assert texts[0] and texts[1] and texts[0] != texts[1]
    assert main(["inspect", str(package), "--target", OLD]) == 2
    assert main(["inspect", str(package), "--code", "--target", "v9"]) == 2
    capsys.readouterr()
    assert main(["compare", str(package), "--layers", "--target", OLD, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"]


def test_steps_name_their_target(model: Path) -> None:
    result = api.build(model, isa=(OLD, NEW), stop_after="plan")
    assert [s.figures.get("target") for s in result.trace.steps if s.name == "plan"] == [OLD, NEW]
    assert result.text.count("conv") >= 2
    once = api.build(model, isa=(OLD, OLD), stop_after="compile")
    assert once.text.startswith(f"{OLD}: ") and once.text.count("bytes by") == 1


@pytest.mark.parametrize(("isa", "says"), [("x86-64-v33", "did you mean 'x86-64-v3'"), ("", "known are")])
def test_unknown_instruction_sets(model: Path, isa: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        api.build(model, isa=(isa,), stop_after="plan")
    assert says in str(caught.value)


def test_excluded_kernels_and_variants(model: Path) -> None:
    def kernels(**fields: object) -> tuple[set[str], list[str]]:
        result = api.build(model, isa=(NEW,), stop_after="compile", **fields)
        text = api.build(model, isa=(NEW,), stop_after="plan", **fields).text
        return {word for word in ("conv_direct", "conv_padded", "conv_generic", "conv_pointwise") if word in text}, \
            result.trace.warnings

    usual, _ = kernels()
    without, _ = kernels(exclude=tuple(usual))
    assert usual and not usual & without
    _, warnings = kernels(exclude=("pool",))
    assert any("nothing but what was excluded" in w for w in warnings)
    with pytest.raises(UsageError, match="no such kernel"):
        api.build(model, exclude=("conv_direkt",))
