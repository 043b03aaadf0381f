"""Calibrations: what is timed, that an interrupted one goes on, and the profile that comes out. Nothing is compiled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from meta_infer.backends.base import Artifact
from meta_infer.backends.cpu.toolchain import find_compiler
from meta_infer.cost.features import Features
from meta_infer.cost.model import ANY, CostModel
from meta_infer.hardware.load import load_profile, parse_profile
from meta_infer.hardware.profile import Profile
from meta_infer.library.store import Library
from meta_infer.search.calibrate import calibrate as module
from meta_infer.search.calibrate.calibrate import Calibrator, Planned
from meta_infer.search.calibrate.calibrate_jobs import Choice, lowered
from meta_infer.search.calibrate.calibrated_profile import calibrated_profile
from meta_infer.search.calibrate.calibration import Calibration
from meta_infer.search.measure import recorded
from meta_infer.search.measure.candidate import Candidate, Uncompiled, launches_of, source_of
from meta_infer.search.measure.measurements import Measurement
from tests.kernels.harness import make_profile

TODAY = date(2026, 11, 30)
PEAK = 1e11


class Machine:
    """Measures nothing: a run takes as long as its bytes; `die_at` is the call that ends the process, so to speak."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []                # kernels and threads of each
        self.die_at = -1
        self.shake = 0.0

    def measure(self, candidates: Sequence[Candidate], *, threads: int, **options: object) -> tuple[Measurement, ...]:
        if not candidates:
            return ()
        if len(self.calls) == self.die_at:
            raise KeyboardInterrupt
        self.calls.append((len(candidates), threads))
        return tuple(self._one(candidate) for candidate in candidates)

    def _one(self, candidate: Candidate) -> Measurement:
        seconds = 1e-6 + 1e-10 * sum(buffer.bytes for buffer in candidate.buffers.values())
        turns = tuple((seconds * (1 + k * self.shake), PEAK * (1 - k * self.shake)) for k in range(4))
        return Measurement(candidate.name, seconds, 1.5 * self.shake * seconds, 0.5, 4, "ok", turns)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    made = Machine()
    version = find_compiler().version

    def compiled(wanted: Sequence[Uncompiled], isa: str) -> tuple[Candidate, ...]:
        artifact = Artifact(isa, b"", tmp_path / "none.so", {}, version, 0)
        return tuple(Candidate(one.name, artifact, source_of(one, isa), launches_of(one, [""] * len(one.calls)),
                               one.buffers, one.flops) for one in wanted)

    monkeypatch.delenv("META_INFER_MEASURE", raising=False)
    monkeypatch.setattr(module, "compile_candidates", compiled)
    monkeypatch.setattr(recorded, "measure", made.measure)
    return made


@pytest.fixture(scope="module")
def native() -> Profile:
    return load_profile("native")


@pytest.fixture(scope="module")
def whole(native: Profile) -> Planned:
    return Planned.of(native)


@pytest.fixture(scope="module")
def planned(whole: Planned) -> Planned:
    """A part of all that is planned, on two cores: reductions and what comes with them are quick to lower."""
    cheap = [one for one in whole.cases if one.case.kind in ("elementwise", "rows", "pool", "transpose")]
    widths = (7, 8, 9)
    return replace(whole, cases=tuple(cheap[:36]), threads=2,
                   sweep={width: one for width, one in whole.sweep.items() if width in widths})


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Library.open(tmp_path / "library.sqlite") as opened:
        yield opened


Run = Callable[..., Calibration]


@pytest.fixture
def run(native: Profile, planned: Planned, library: Library, machine: Machine) -> Run:
    def calibrate(seconds: float = 600.0, **options: object) -> Calibration:
        given: dict[str, object] = {"library": library, **options}
        return Calibrator(native, seconds=seconds, **given).calibrate(planned, TODAY)      # type: ignore[arg-type]

    return calibrate


def test_all_of_it(run: Run, planned: Planned, machine: Machine, native: Profile) -> None:
    heard: list[str] = []
    found = run(on_done=heard.append)
    assert found.is_complete and found.total == planned.total == len(heard) and not found.failed
    assert {threads for _, threads in machine.calls} == {1, 2} and max(count for count, _ in machine.calls) <= 16
    assert found.peak == PEAK and found.rates.keys() == found.all_rates.keys() >= {"memory"}
    assert found.launches.keys() == {1, 2} and found.step is not None and not found.noise.is_loud
    any_kernel = next(entry for entry in found.fitted.entries if entry.kernel_class == ANY)
    assert any_kernel.fitted == TODAY and any_kernel.samples == len(planned.cases) + len(planned.sweep) + 5
    assert all(math.isfinite(quality.error) for quality in found.fitted.quality.values())


def test_one_that_was_interrupted_goes_on(run: Run, planned: Planned, machine: Machine, library: Library) -> None:
    machine.die_at = 5
    with pytest.raises(KeyboardInterrupt):
        run()
    kept = library.counts().samples
    assert kept == sum(count for count, _ in machine.calls) > 0
    machine.die_at = -1
    found = run()
    assert found.is_complete and found.recalled >= kept and sum(count for count, _ in machine.calls) <= planned.total
    before = len(machine.calls)
    again = run()
    assert len(machine.calls) == before and again.recalled == planned.total and again.timed == 0
    assert again.fitted == found.fitted and again.rates == found.rates
    assert run(fresh=True).timed == planned.total


def test_the_time_ends_it_and_the_next_goes_on(run: Run, planned: Planned) -> None:
    first = run(seconds=0.0)
    assert not first.is_complete and first.timed == len(planned.probes) and first.fitted.entries == ()
    assert first.step is None and first.launches == {} and first.rates and first.peak == PEAK
    assert run().is_complete


def test_without_a_library_all_is_timed(run: Run, planned: Planned) -> None:
    assert run(library=None).timed == planned.total


def test_noise_is_told(run: Run, machine: Machine) -> None:
    machine.shake = 0.1
    noise = run().noise
    assert noise.is_loud and noise.repeats == pytest.approx(0.15) and noise.probe > 0.05
    assert "15.0%" in str(noise)


def test_failed_kernels_are_counted_and_take_no_part(run: Run, machine: Machine,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    good = machine._one

    def some(candidate: Candidate) -> Measurement:
        if "Softmax" in candidate.name or "read memory" in candidate.name:
            return Measurement(candidate.name, math.inf, 0.0, 0.0, 0, "killed by SIGILL")
        return good(candidate)

    monkeypatch.setattr(machine, "_one", some)
    found = run()
    assert found.failed > 0 and found.is_complete
    assert all(entry.kernel_class != "softmax" for entry in found.fitted.entries)


def test_the_profile_loads_and_the_cost_model_uses_it(run: Run, native: Profile) -> None:
    found = run()
    profile = parse_profile(calibrated_profile(found, "some compiler"), "made")
    assert profile.warnings == () and (profile.isa, profile.cores) == (native.isa, native.cores)
    assert profile.chip.versions is not None and profile.chip.versions.toolchain == "some compiler"
    assert profile.aligned_channel == (found.step or 1)
    assert profile.bandwidth == pytest.approx(found.all_rates["memory"], rel=1e-3)
    if native.clock_ghz:
        assert profile.macs_per_cycle["fp32"] * native.clock_ghz * 2e9 == pytest.approx(PEAK, rel=1e-3)
    model, theirs = CostModel.of(profile), CostModel.of(native, found.fitted.entries)
    features = Features({"ports": 1e4}, {"memory": 1e4, "l2": 1e4}, 1.0, {"chunks": 4.0})
    for kernel in ("elementwise", "conv_direct"):
        assert model.seconds(kernel, "fp32", features).seconds == pytest.approx(
            theirs.seconds(kernel, "fp32", features).seconds, rel=1e-2)
    assert [(e.kernel_class, e.samples, e.fitted) for e in profile.chip.cost] == [
        (e.kernel_class, e.samples, e.fitted) for e in found.fitted.entries]


@pytest.mark.parametrize("isa", ["x86-64-v4", "aarch64", "riscv64"])
def test_cases_on_other_chips(isa: str) -> None:
    """Every chip has kernels for all cases, and its usual classes enough samples for coefficients of their own."""
    planned = Planned.of(make_profile(isa))
    counts = Counter(one.variant.kernel if one.variant else "reorder" for one in planned.cases)
    assert {"gemm", "elementwise", "softmax", "layer_norm", "reduce", "pool", "transpose"} <= {
        kernel for kernel, count in counts.items() if count >= 12}
    assert planned.total <= 560 and all(one.variant for one in planned.sweep.values())


def test_what_the_library_keeps(native: Profile, planned: Planned, whole: Planned) -> None:
    for choice in planned.cases[:6]:
        assert choice.variant is not None
        job = lowered(choice, native)
        assert job.described.kernel == choice.variant.kernel and job.described.group and job.described.structure
        assert Features.read(job.described.features).launches == len(job.uncompiled.calls)
    integers = next(one for one in whole.cases if one.case.kind == "int8")
    assert lowered(Choice(integers.case, integers.variant), native).described.precision == "uint8"
